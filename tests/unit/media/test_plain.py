"""Polls on the plain wire, and the dialects of OpenAI and Ark: what a response means."""

from typing import Any

from channels.media.ark import Ark
from channels.media.openai import OpenAI
from channels.media.plain.dialect import Plain
from channels.media.replies import (
    Accepted,
    CatalogValue,
    Failed,
    NotFound,
    Polled,
    PollReply,
    PresetAvatar,
    PresetVoice,
    RateLimited,
    Refused,
    TaskError,
    Template,
    Trouble,
    Unusable,
)
from channels.media.requests import GeneralVideo
from channels.media.results import AvatarResult, MusicResult, SpeechResult, Track, VideoResult
from channels.media.values import MILLISECONDS_MAX, VALUES_MAX
from tests.support.rows import cases, each
from tests.unit.media.exchanges import KEY, NOW, end, general, item, polled, response, sent, submit

PLAIN = Plain()
FILM = "https://cdn.example/a.mp4"
AUDIO = "https://cdn.example/a.mp3"


def video(state: Any, word: str, **fields: Any) -> Polled:
    return Polled(state=state, word=word, **fields)


FAILED = TaskError(code="generation_failed", message="The generation failed.")
POLLS: list[tuple[Any, PollReply]] = [
    ({"status": "queued"}, video("queued", "queued")),
    ({"status": "NOT_START"}, video("queued", "NOT_START")),
    ({"status": "In_Progress", "progress": 41.9}, video("running", "In_Progress", progress=41)),
    ({"status": "running", "progress": -3}, video("running", "running", progress=0)),
    ({"status": "running", "progress": 1e9}, video("running", "running", progress=100)),
    ({"status": "running", "progress": "41"}, video("running", "running")),
    ({"status": "running", "progress": True}, video("running", "running")),
    (
        {"status": "succeeded", "video_url": FILM, "duration": "7.0004", "progress": 99},
        video("succeeded", "succeeded", result=VideoResult(url=FILM), seconds_ms=7000),
    ),
    (
        {"status": "SUCCESS", "video_url": FILM, "expires_at": NOW + 60, "duration": 0.0005},
        video(
            "succeeded", "SUCCESS", result=VideoResult(url=FILM, expires_at=NOW + 60), seconds_ms=1
        ),
    ),
    ({"status": "done", "video_url": FILM}, video(None, "done")),
    (
        {"status": "complete"},
        video(
            "failed",
            "complete",
            error=TaskError(
                code="no_result", message="The upstream reported success without a result to fetch."
            ),
        ),
    ),
    ({"status": "failed"}, video("failed", "failed", error=FAILED)),
    (
        {"status": "error", "error": {"code": "blocked", "message": "Not this."}},
        video("failed", "error", error=TaskError(code="blocked", message="Not this.")),
    ),
    (
        {"status": "fail", "error": "Not this."},
        video("failed", "fail", error=TaskError(code="generation_failed", message="Not this.")),
    ),
    (
        {"status": "canceled"},
        video(
            "cancelled",
            "canceled",
            error=TaskError(code="task_cancelled", message="The upstream cancelled the task."),
        ),
    ),
    (
        {"status": "expired", "error": {"code": 7}},
        video(
            "expired",
            "expired",
            error=TaskError(code="7", message="The task expired at the upstream."),
        ),
    ),
    ({}, video(None, "")),
    ([], Trouble(reason="no JSON object", status=200)),
]


@each("value, reply", POLLS)
def test_poll_of_a_video(value: Any, reply: PollReply) -> None:
    assert polled(PLAIN, value) == reply


@cases(
    "duration, milliseconds",
    ("86401", 86_401_000),
    ("1e1", 10_000),
    ('"1e1"', 10_000),
    ('" +.25E+2 "', 25_000),
    ("8.00049999999999999999999999999999999", 8000),
    ("8.0005", 8001),
    ("8" + 50 * "0", MILLISECONDS_MAX),
    ("1e400", MILLISECONDS_MAX),
    ('"1e99999999999999999999"', MILLISECONDS_MAX),
    ("9" * 5000, MILLISECONDS_MAX),
)
def test_length_is_any_number_or_numeric_string_above_0(duration: str, milliseconds: int) -> None:
    body = f'{{"status": "success", "video_url": "{FILM}", "duration": {duration}}}'
    result = end(PLAIN.poll("video", "t"), response(body=body.encode()))
    assert isinstance(result, Polled)
    assert (result.state, result.seconds_ms) == ("succeeded", milliseconds)


@cases("duration", 0, -1, True, None, "7s", "", "nan", "inf", "1_0", "0x1", "0.0004", [7])
def test_length_that_is_none_is_left_out(duration: Any) -> None:
    result = polled(PLAIN, {"status": "success", "video_url": FILM, "duration": duration})
    assert isinstance(result, Polled)
    assert (result.state, result.seconds_ms) == ("succeeded", None)


@cases(
    "status, headers, reply",
    (429, {"retry-after": "12"}, RateLimited(12.0)),
    (429, {"retry-after": "4000"}, RateLimited(300.0)),
    (429, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, RateLimited()),
    (429, {}, RateLimited()),
    (404, {}, NotFound()),
    (410, {}, Trouble(reason="status 410", status=410)),
    (401, {}, Trouble(reason="status 401", status=401)),
    (500, {}, Trouble(reason="status 500", status=500)),
    (302, {}, Trouble(reason="status 302", status=302)),
)
def test_poll_that_says_nothing(status: int, headers: dict[str, str], reply: PollReply) -> None:
    result = response({"status": "succeeded"}, status=status, headers=headers)
    assert end(PLAIN.poll("video", "t"), result) == reply


def test_poll_that_cannot_be_read() -> None:
    unreadable = Trouble(reason="no JSON object", status=200)
    assert end(PLAIN.poll("video", "t"), response(body=b"{")) == unreadable
    cut = response({"status": "failed"}, is_cut_off=True)
    heavy = response({"status": "failed", "logs": [1] * VALUES_MAX})
    for too_large in (cut, heavy):
        assert end(PLAIN.poll("video", "t"), too_large) == Unusable(reason="too large")
    long = response({"status": "queued", "logs": ["x" * 2**20, " word," * 2**12]})
    assert end(PLAIN.poll("video", "t"), long) == video("queued", "queued")


def test_paths_of_polls_and_cancels() -> None:
    paths = {
        "video": "/v1/videos/generations/a%2F%3Fb",
        "music": "/v1/music/generations/a%2F%3Fb",
        "speech": "/v1/audio/speech/a%2F%3Fb",
        "avatar": "/v1/videos/avatars/a%2F%3Fb",
    }
    for kind, path in paths.items():
        poll = PLAIN.poll(kind, "a/?b").request  # type: ignore[arg-type]
        cancel = PLAIN.cancel(kind, "a/?b")  # type: ignore[arg-type]
        assert (poll.method, poll.path) == ("GET", path)
        assert cancel is not None
        assert (cancel.request.method, cancel.request.path) == ("DELETE", path)
        assert end(cancel, response({})) is True
        assert end(cancel, response({}, status=404)) is False


def test_output_files_are_kept_as_they_are() -> None:
    files = [{"language": "en", "url": FILM, "size": 3, "odd": [1]}, FILM, 7]
    result = polled(PLAIN, {"status": "success", "video_url": FILM, "output_files": files})
    assert isinstance(result, Polled)
    kept = [{"language": "en", "url": FILM, "size": 3}, FILM]
    assert result.result == VideoResult(url=FILM, output_files=kept)


def test_link_that_says_itself_when_it_ends() -> None:
    signed = f"{FILM}?Expires={int(NOW) + 600}&Signature=x"
    result = polled(PLAIN, {"status": "success", "video_url": signed})
    assert isinstance(result, Polled)
    assert result.result == VideoResult(url=signed, expires_at=NOW + 600)


def test_songs_keep_their_order_and_what_is_missing_is_none() -> None:
    tracks = [
        {"clip_id": "c2", "title": "B", "duration_sec": 120.5, "audio_url": AUDIO, "lyrics": "La"},
        {"clip_id": 1, "audio_url": "ftp://no", "image_url": 7, "duration_sec": "120"},
        "odd",
    ]
    result = polled(PLAIN, {"status": "succeeded", "tracks": tracks}, kind="music")
    assert isinstance(result, Polled)
    assert result.result == MusicResult(
        tracks=(
            Track(clip_id="c2", title="B", duration_sec=120.5, audio_url=AUDIO, lyrics="La"),
            Track(clip_id="1"),
        )
    )
    silent = polled(PLAIN, {"status": "succeeded", "tracks": tracks[1:]}, kind="music")
    assert isinstance(silent, Polled)
    assert silent.error is not None
    assert silent.error.code == "no_result"
    processing = polled(PLAIN, {"status": "processing"}, kind="music")
    assert processing == Polled(state="running", word="processing")


def test_speech_and_avatars_that_are_ready() -> None:
    result = {"status": "succeeded", "audio_url": AUDIO, "expires_at": str(int(NOW) + 5)}
    speech = SpeechResult(url=AUDIO, expires_at=NOW + 5)
    assert polled(PLAIN, result, kind="speech") == video("succeeded", "succeeded", result=speech)
    assert polled(PLAIN, {"status": "pending"}, kind="speech") == video("queued", "pending")
    avatar = AvatarResult(upstream_id="up-1")
    ready = polled(PLAIN, {"status": "ready"}, kind="avatar")
    assert ready == video("succeeded", "ready", result=avatar)
    assert polled(PLAIN, {"status": "ready", "video_url": FILM}) == video(None, "ready")
    failed = polled(PLAIN, {"status": "failed", "error": "No face."}, kind="avatar")
    error = TaskError(code="generation_failed", message="No face.")
    assert failed == video("failed", "failed", error=error)


def test_lists_of_what_everybody_may_use() -> None:
    templates = PLAIN.templates("realMan")
    assert templates is not None
    request = templates.request
    assert (request.path, request.query) == ("/v1/videos/clip-templates", (("scene", "realMan"),))
    listed = [{"id": "s1", "title": "T", "cover": FILM, "has_title": False}, {"title": "no id"}, 7]
    assert end(templates, response({"templates": listed})) == CatalogValue(
        (Template(id="s1", title="T", cover=FILM, has_title=False, has_persona=True),)
    )
    avatars = PLAIN.preset_avatars()
    assert avatars is not None
    assert avatars.request.path == "/v1/videos/avatars/presets"
    assert end(
        avatars, response({"avatars": [{"id": "a", "name": "Ann"}, {"id": "b"}]})
    ) == CatalogValue((PresetAvatar(id="a", name="Ann"), PresetAvatar(id="b", name="b")))
    voices = PLAIN.preset_voices()
    assert voices is not None
    listed = [
        {"id": "v", "name": "Vi", "kind": "preset", "language": "en", "preview_url": AUDIO},
        {"id": "mine", "name": "Me", "kind": "cloned"},
    ]
    assert end(voices, response({"voices": listed})) == CatalogValue(
        (PresetVoice(id="v", name="Vi", language="en", preview_url=AUDIO),)
    )


def test_template_as_a_whole() -> None:
    requested = PLAIN.template("s/1")
    assert requested is not None
    assert requested.request.path == "/v1/videos/clip-templates/s%2F1"
    detail = {
        "id": "s/1",
        "scene": "realMan",
        "canvas": {"width": 1080, "height": 1920.0, "ratio": "9:16"},
        "layers": [{"id": "l", "type": "header", "name": "Title", "editable": True}, 7],
    }
    found = end(requested, response(detail))
    assert isinstance(found, CatalogValue)
    assert found.value.scene == "realMan"
    assert found.value.canvas is not None
    assert (found.value.canvas.width, found.value.canvas.height) == (1080, 1920)
    assert [layer.editable for layer in found.value.layers] == [True]
    assert end(requested, response({}, status=404)) == Refused(status=404)
    unreadable = Failed(status=502, message="The upstream's list cannot be read.")
    assert end(requested, response([])) == unreadable
    assert end(requested, response(status=504)) == Failed(status=504)


OPENAI = OpenAI()
IMAGE = "data:image/png;base64,AAAA"


@cases(
    "request_, body",
    (general(), {"model": "film", "prompt": "A cat"}),
    (
        general(
            item("text", "A cat"),
            item("image_url", IMAGE),
            item("text", "on a mat"),
            item("image_url", "https://i/2"),
            duration=8,
            resolution="720p",
            ratio="9:16",
            watermark=True,
        ),
        {
            "model": "film",
            "prompt": "A cat\non a mat",
            "seconds": "8",
            "size": "720x1280",
            "input_reference": {"image_url": IMAGE},
        },
    ),
    (
        general(duration=8.0, resolution="1080p", ratio="16:9"),
        {"model": "film", "prompt": "A cat", "seconds": "8", "size": "1920x1080"},
    ),
    (
        general(duration=7.25, resolution="1080p", ratio="1:1"),
        {"model": "film", "prompt": "A cat", "seconds": "7.25"},
    ),
    (
        general(duration=0.00001, resolution="720p"),
        {"model": "film", "prompt": "A cat", "seconds": "0.00001"},
    ),
)
def test_submit(request_: GeneralVideo, body: Any) -> None:
    requested = submit(OPENAI, request_)
    assert (requested.request.path, sent(requested.request)) == ("/v1/videos", body)
    assert end(requested, response({"id": "video_1", "status": "queued"})) == Accepted("video_1")


def test_paths() -> None:
    assert OPENAI.poll("video", "video_1").request.path == "/v1/videos/video_1"
    cancel, content = OPENAI.cancel("video", "video_1"), OPENAI.content("video_1")
    assert cancel is not None
    assert content is not None
    assert (cancel.request.method, cancel.request.path) == ("DELETE", "/v1/videos/video_1")
    assert (content.method, content.path) == ("GET", "/v1/videos/video_1/content")


@cases(
    "value, reply",
    ({"status": "queued", "progress": 0}, Polled(state="queued", word="queued", progress=0)),
    (
        {"status": "in_progress", "progress": 33},
        Polled(state="running", word="in_progress", progress=33),
    ),
    (
        {"status": "completed", "progress": 100, "seconds": "8"},
        Polled(state="succeeded", word="completed", result=VideoResult(url=None), seconds_ms=8000),
    ),
    (
        {"status": "failed", "error": {"code": "moderation_blocked", "message": "No."}},
        Polled(
            state="failed", word="failed", error=TaskError(code="moderation_blocked", message="No.")
        ),
    ),
)
def test_poll(value: Any, reply: Polled) -> None:
    assert polled(OPENAI, value) == reply


ARK = Ark()
ARK_FILM = "https://tos.example/a.mp4"
DAY = 86_400.0


def test_submit_of_ark() -> None:
    requested = submit(ARK, general(item("text", "A cat"), duration=5, resolution="1080p"))
    assert (requested.request.method, requested.request.path) == (
        "POST",
        "/api/v3/contents/generations/tasks",
    )
    assert requested.request.headers == (("Idempotency-Key", KEY),)
    assert sent(requested.request) == {
        "model": "film",
        "duration": 5,
        "resolution": "1080p",
        "content": [{"type": "text", "text": "A cat"}],
    }
    assert end(requested, response({"id": "cgt-1"})) == Accepted("cgt-1")


def test_poll_and_cancel() -> None:
    assert ARK.poll("video", "cgt-1").request.path == "/api/v3/contents/generations/tasks/cgt-1"
    cancel = ARK.cancel("video", "cgt-1")
    assert cancel is not None
    assert (cancel.request.method, cancel.request.path) == (
        "DELETE",
        "/api/v3/contents/generations/tasks/cgt-1",
    )


def success(**fields: Any) -> Any:
    return {"status": "succeeded", "content": {"video_url": ARK_FILM}, **fields}


@cases(
    "value, milliseconds",
    (success(duration=5), 5000),
    (success(duration="5.5", frames=121, framespersecond=24), 5500),
    (success(frames=121, framespersecond=24), 5042),
    (success(duration=0, frames=24, framespersecond=24), 1000),
    (success(frames="48", framespersecond="24"), 2000),
    (success(frames=121, framespersecond=0), None),
    (success(frames=121), None),
    (success(frames=-1, framespersecond=24), None),
    (success(frames=10**9, framespersecond=1), 10**12),
    (success(), None),
)
def test_real_seconds(value: Any, milliseconds: int | None) -> None:
    result = polled(ARK, value)
    assert isinstance(result, Polled)
    assert (result.state, result.seconds_ms) == ("succeeded", milliseconds)


@cases("stated", 10**14, 10**15 - 1, 10**11, str(10**14), NOW + 400 * DAY)
def test_expiry_that_no_link_has_is_not_believed(stated: Any) -> None:
    """As if it had stated none: then it is what a link lasts."""
    result = polled(PLAIN, {"status": "succeeded", "video_url": FILM, "expires_at": stated})
    assert isinstance(result, Polled)
    assert result.result == VideoResult(url=FILM, expires_at=None)


@cases(
    "fields, expires_at",
    ({"updated_at": NOW - 100}, NOW - 100 + DAY),
    ({"updated_at": (NOW - 100) * 1000}, NOW - 100 + DAY),
    ({"updated_at": "soon"}, NOW + DAY),
    ({"updated_at": 10**14}, NOW + DAY),  # after the year 9999, in seconds and milliseconds
    ({"updated_at": 10**11}, NOW + DAY),
    ({}, NOW + DAY),
)
def test_link_lives_a_day(fields: Any, expires_at: float) -> None:
    result = polled(ARK, success(**fields))
    assert isinstance(result, Polled)
    assert result.result == VideoResult(url=ARK_FILM, expires_at=expires_at)


def test_link_that_ends_earlier_says_so() -> None:
    url = f"{ARK_FILM}?X-Tos-Date=20270115T080000Z&X-Tos-Expires=3600"
    result = polled(
        ARK, {"status": "succeeded", "content": {"video_url": url}, "updated_at": 1_800_000_000}
    )
    assert isinstance(result, Polled)
    assert isinstance(result.result, VideoResult)
    assert result.result.expires_at == 1_800_000_000 + 3600


def test_film_that_was_blocked() -> None:
    error = {"code": "OutputVideoSensitiveContentDetected", "message": "Blocked."}
    assert polled(ARK, {"status": "failed", "error": error}) == Polled(
        state="failed",
        word="failed",
        error=TaskError(code="OutputVideoSensitiveContentDetected", message="Blocked."),
    )
    empty = polled(ARK, {"status": "succeeded", "content": {}})
    assert isinstance(empty, Polled)
    assert empty.error is not None
    assert empty.error.code == "no_result"
