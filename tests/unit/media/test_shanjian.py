"""The `shanjian` dialect: everything in an envelope, everything a task."""

from typing import Any

import pytest

from channels.media.replies import (
    Accepted,
    Canvas,
    CatalogValue,
    Done,
    Failed,
    Layer,
    Polled,
    PresetAvatar,
    PresetVoice,
    RateLimited,
    Refused,
    SubmitReply,
    TaskError,
    Template,
    TemplateDetail,
    Trouble,
    Unknown,
)
from channels.media.requests import (
    AvatarRequest,
    AvatarVideo,
    BackgroundMusic,
    ClipVideo,
    LipSyncVideo,
    Material,
    MotionVideo,
    Submission,
    VoiceRequest,
)
from channels.media.results import AvatarResult, VideoResult, VoiceResult
from channels.media.shanjian.dialect import Shanjian
from channels.media.shanjian.lists import PAGES_MAX
from tests.support.rows import cases, each
from tests.unit.media.exchanges import KEY, NOW, end, next_of, polled, response, sent, submit

SHANJIAN = Shanjian()
FILM, AUDIO, IMAGE = "https://cdn.example/a.mp4", "https://cdn.example/a.mp3", "https://cdn/a.png"


def good(data: Any) -> Any:
    return {"code": "Succeed", "data": data, "message": ""}


SUBMITS: list[tuple[Submission, str, Any]] = [
    (
        AvatarVideo(model="m", duration=9, avatar="av", audio_url=AUDIO, title="T"),
        "/v1/virtualman/video",
        {"virtualmanId": "av", "audioUrl": AUDIO},
    ),
    (
        AvatarVideo(model="m", duration=9, avatar="av", voice="vo", text="Hi"),
        "/v1/virtualman/video",
        {"virtualmanId": "av", "text": "Hi", "speakerId": "vo"},
    ),
    (
        ClipVideo(
            model="m",
            scene="realman",
            style_id="s",
            source_video_url=FILM,
            title="T",
            language="zh-CN",
            preprocess="roughCut",
            introduce_card={"name": "N", "description": "D"},
            bgm=BackgroundMusic(mode="none"),
        ),
        "/v1/clip/video/realman_broadcast",
        {
            "styleId": "s",
            "videoUrl": FILM,
            "title": "T",
            "language": "zh-CN",
            "introduceCard": {"name": "N", "description": "D"},
            "packRules": {"backgroundMusic": {"audioSwitch": False}},
            "processRules": {"resourcePreprocessMethod": "roughCut"},
        },
    ),
    (
        ClipVideo(
            model="m",
            scene="mixcut",
            style_id="s",
            audio_url=AUDIO,
            materials=(Material(type="video", file_url=FILM, sound_switch=False),),
            bgm=BackgroundMusic(mode="custom", url=AUDIO, volume=0.3),
        ),
        "/v1/clip/video/broadcast_mixcut",
        {
            "styleId": "s",
            "audioUrl": AUDIO,
            "materials": [{"type": "video", "fileUrl": FILM, "soundSwitch": False}],
            "packRules": {
                "backgroundMusic": {"audioSwitch": True, "audioUrl": AUDIO, "volume": 0.3}
            },
        },
    ),
    (
        ClipVideo(
            model="m",
            scene="news",
            style_id="s",
            title="T",
            duration=60,
            materials=(Material(type="image", file_url=IMAGE),),
            material_composition="order",
            cover_url=IMAGE,
        ),
        "/v1/clip/video/news_mixcut",
        {
            "styleId": "s",
            "title": "T",
            "materials": [{"type": "image", "fileUrl": IMAGE}],
            "processRules": {
                "materialComposition": "order",
                "videoDuration": 60,
                "firstFrameCover": {"coverSwitch": True, "resultImageUrl": IMAGE},
            },
        },
    ),
    (
        AvatarRequest(name="Ann", source_url=IMAGE),
        "/v1/virtualman/image/train",
        {"imageUrl": IMAGE},
    ),
    (
        AvatarRequest(name="Ann", source_url=FILM, source_kind="video"),
        "/v1/virtualman/fast/train",
        {"videoUrl": FILM},
    ),
    (
        VoiceRequest(model="clone-2", name="N", audio_url=AUDIO, text="Hello"),
        "/v1/voice/train",
        {"audioUrl": AUDIO, "model": "clone-2", "language": "zh-CN", "demoText": "Hello"},
    ),
]


@each("submission, path, body", SUBMITS)
def test_submit(submission: Submission, path: str, body: Any) -> None:
    assert SHANJIAN.makes(submission)
    request = submit(SHANJIAN, submission).request
    assert (request.method, request.path, sent(request)) == ("POST", path, body)
    assert request.headers == (("Idempotency-Key", KEY),)


def test_what_it_does_not_make() -> None:
    lips = LipSyncVideo(model="m", source_video_url=FILM, audio_url=AUDIO)
    motion = MotionVideo(model="m", source_video_url=FILM, content=(), face_count=1)
    assert not SHANJIAN.makes(lips)
    assert not SHANJIAN.makes(motion)
    with pytest.raises(AssertionError):
        submit(SHANJIAN, lips)


@cases(
    "status, value, reply",
    (200, good({"taskId": 71}), Accepted("71")),
    (200, good({}), Unknown(status=502, reason="no taskId")),
    (200, good(None), Unknown(status=502, reason="no data")),
    (200, {"data": {"taskId": "7"}}, Unknown(status=502, reason="no data")),
    (200, {"code": "Request.Limit", "message": "Slow."}, Refused(status=429, message="Slow.")),
    (200, {"code": "Concurrency.Limit"}, Refused(status=429)),
    (200, {"code": "Service.Error", "message": "Oh."}, Failed(status=502, message="Oh.")),
    (200, {"code": "Failed.Timeout"}, Failed(status=502)),
    (200, {"code": "Param.Error", "message": "No."}, Refused(status=400, message="No.")),
    (403, {"code": "Auth", "message": "No."}, Refused(status=403, message="No.")),
    (500, None, Failed(status=500)),
    (504, None, Unknown(status=504, reason="status 504")),
)
def test_answer_to_a_submit(status: int, value: Any, reply: SubmitReply) -> None:
    request = submit(SHANJIAN, AvatarRequest(name="Ann", source_url=IMAGE))
    assert end(request, response(value, status=status)) == reply


FAILED = TaskError(code="Face.None", message="No face.")


def test_polls() -> None:
    request = SHANJIAN.poll("video", "7").request
    assert (request.path, request.query) == ("/v1/task/info", (("taskId", "7"),))
    assert SHANJIAN.cancel("video", "7") is None
    film = good({"status": "Succeed", "result": {"videoUrl": FILM, "duration": "61.25"}})
    assert polled(SHANJIAN, film) == Polled(
        state="succeeded",
        word="Succeed",
        result=VideoResult(url=FILM, expires_at=NOW + 86_400),
        seconds_ms=61_250,
    )
    avatar = good({"status": "Succeed", "result": {"virtualmanId": "vm"}})
    assert polled(SHANJIAN, avatar, kind="avatar") == Polled(
        state="succeeded", word="Succeed", result=AvatarResult(upstream_id="vm")
    )
    failed = good({"status": "fail", "errorCode": "Face.None", "errorMessage": "No face."})
    assert polled(SHANJIAN, failed) == Polled(state="failed", word="fail", error=FAILED)
    running = good({"status": "processing", "result": None})
    assert polled(SHANJIAN, running) == Polled(state="running", word="processing")
    without = polled(SHANJIAN, good({"status": "Succeed", "result": {}}), kind="avatar")
    assert isinstance(without, Polled)
    assert without.error is not None
    assert without.error.code == "no_result"


@cases(
    "value, reply",
    ({"code": "Request.Limit"}, RateLimited()),
    ({"code": "Service.Error"}, Trouble(reason="code service.error", status=200)),
    ({}, Trouble(reason="no envelope", status=200)),
    ([], Trouble(reason="no envelope", status=200)),
)
def test_poll_that_says_nothing(value: Any, reply: Any) -> None:
    assert polled(SHANJIAN, value) == reply


def test_voice_is_waited_for() -> None:
    request = submit(SHANJIAN, VoiceRequest(model="m", name="N", audio_url=AUDIO))
    waiting = next_of(request, response(good({"taskId": "7"})))
    assert (waiting.request.path, waiting.request.query) == ("/v1/task/info", (("taskId", "7"),))
    assert (waiting.after_seconds, waiting.repeats) == (1.0, True)
    for result in (
        response(good({"status": "queued"})),
        response({"code": "Request.Limit"}),
        response(status=404),
        response(body=b"<html>"),
    ):
        assert next_of(waiting, result) is waiting
    ready = good({"status": "Succeed", "result": {"speakerId": "sp"}})
    assert end(waiting, response(ready)) == Done(VoiceResult(upstream_id="sp"))
    noise = good({"status": "failed", "errorMessage": "Noise."})
    assert end(waiting, response(noise)) == Failed(status=502, message="Noise.", is_final=True)
    nothing = end(waiting, response(good({"status": "Succeed"})))
    assert isinstance(nothing, Failed)
    assert nothing.is_final


def edit_info(**layers: Any) -> Any:
    return {"videoStructInfo": {"editInfo": layers}}


def test_templates_come_in_pages_and_their_flags_from_their_details() -> None:
    request = SHANJIAN.templates("realMan")
    assert request is not None
    query = (("scene", "realMan"), ("pageSize", "100"))
    assert (request.request.path, request.request.query) == ("/v1/clip/template", query)
    one = {"id": "s/1", "name": "One", "coverUrl": IMAGE}
    second = next_of(request, response(good({"results": [one, {"name": "no id"}], "sid": "p2"})))
    assert second.request.query == (*query, ("sid", "p2"))
    first_detail = next_of(second, response(good({"results": [{"id": 2}], "sid": "p2"})))
    assert first_detail.request.path == "/v1/clip/template/detail/s%2F1"
    detail = edit_info(canvas={}, headerLayer=[], ipLayer=[{"id": 1}])
    second_detail = next_of(first_detail, response(good(detail)))
    assert second_detail.request.path == "/v1/clip/template/detail/2"
    assert end(second_detail, response({"code": "Service.Error"})) == CatalogValue(
        (
            Template(id="s/1", title="One", cover=IMAGE, has_title=False, has_persona=True),
            Template(id="2", has_title=True, has_persona=True),
        )
    )


def test_pages_that_never_end_are_bounded() -> None:
    exchange = SHANJIAN.templates("realMan")
    assert exchange is not None
    pages = 0
    while exchange.request.path == "/v1/clip/template":
        pages += 1
        results = [{"id": pages}]
        exchange = next_of(exchange, response(good({"results": results, "sid": f"p{pages}"})))
    assert pages == PAGES_MAX


def test_template_list_that_fails() -> None:
    request = SHANJIAN.templates("realMan")
    assert request is not None
    assert end(request, response({"code": "Request.Limit"})) == Refused(status=429)
    assert end(request, response(status=503)) == Failed(status=503)
    unreadable = Failed(status=502, message="The upstream's list cannot be read.")
    assert end(request, response([])) == unreadable
    assert end(request, response(good({"results": 7}))) == unreadable


def test_template_as_a_whole() -> None:
    request = SHANJIAN.template("s1")
    assert request is not None
    detail = {
        "name": "One",
        "coverUrl": IMAGE,
        "scene": "realMan",
        **edit_info(
            canvas={"width": 1080, "height": 1920, "ratio": "9:16"},
            headerLayer=[{"id": "h", "name": "Title"}],
            ipLayer=None,
            subtitleLayer={"id": 3},
            other=[1],
        ),
    }
    whole = TemplateDetail(
        id="s1",
        title="One",
        cover=IMAGE,
        has_title=True,
        has_persona=False,
        scene="realMan",
        canvas=Canvas(width=1080, height=1920, ratio="9:16"),
        layers=(
            Layer(id="h", type="header", name="Title", editable=True),
            Layer(id="3", type="subtitle"),
        ),
    )
    assert end(request, response(good(detail))) == CatalogValue(whole)
    for result in (response(good(None)), response({"code": "Template.None"}), response(status=404)):
        refused = end(request, result)
        assert isinstance(refused, Refused)
        assert refused.status == 404
    assert end(request, response({"code": "Service.Error"})) == Failed(status=502)


def test_avatars_and_voices_that_everybody_may_use() -> None:
    avatars, voices = SHANJIAN.preset_avatars(), SHANJIAN.preset_voices()
    assert avatars is not None
    assert voices is not None
    assert avatars.request.path == "/v1/assets/virtualman/common"
    assert voices.request.path == "/v1/assets/voice/common"
    listed = [{"virtualmanId": "a", "name": "Ann"}, {"id": 7}, {"name": "no id"}, "odd"]
    assert end(avatars, response(good(listed))) == CatalogValue(
        (PresetAvatar(id="a", name="Ann"), PresetAvatar(id="7", name="7"))
    )
    listed = [{"speakerId": "v", "name": "Vi", "language": "zh-CN", "demoUrl": AUDIO}]
    assert end(voices, response(good({"results": listed}))) == CatalogValue(
        (PresetVoice(id="v", name="Vi", language="zh-CN", preview_url=AUDIO),)
    )
