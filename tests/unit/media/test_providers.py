"""The dialects of MiniMax and Suno: what is sent, what a response means."""

from typing import Any

import msgspec

from channels.json.lenient import BYTE_ORDER_MARK
from channels.media.minimax import MiniMax
from channels.media.replies import (
    Accepted,
    Done,
    Failed,
    NotFound,
    Polled,
    RateLimited,
    Refused,
    SubmitReply,
    TaskError,
    Trouble,
    Unknown,
)
from channels.media.requests import AudioFormat, MusicRequest, SpeechRequest
from channels.media.results import MusicResult, SpeechAudio, SpeechResult, Track
from channels.media.suno import Suno
from tests.support.rows import cases
from tests.unit.media.exchanges import NOW, end, next_of, polled, response, sent, submit

MINIMAX = MiniMax()
GOOD = {"status_code": 0, "status_msg": "success"}
AT_ONCE = SpeechRequest(model="speech", input="Hi", voice="v", response_format="flac", speed=1.2)
AS_TASK = SpeechRequest(model="speech", input="Hi", voice="v", is_async=True)


def bad(code: int | str, message: str = "No.") -> Any:
    return {"base_resp": {"status_code": code, "status_msg": message}}


def test_submit_at_once() -> None:
    requested = submit(MINIMAX, AT_ONCE).request
    assert (requested.method, requested.path) == ("POST", "/v1/t2a_v2")
    assert sent(requested) == {
        "model": "speech",
        "text": "Hi",
        "stream": False,
        "output_format": "hex",
        "voice_setting": {"voice_id": "v", "speed": 1.2},
        "audio_setting": {"format": "flac"},
    }


def test_submit_as_a_task() -> None:
    requested = submit(MINIMAX, AS_TASK)
    assert requested.request.path == "/v1/t2a_async_v2"
    assert sent(requested.request) == {
        "model": "speech",
        "text": "Hi",
        "voice_setting": {"voice_id": "v"},
        "audio_setting": {"format": "mp3"},
    }
    assert end(requested, response({"task_id": 95157322514444, "base_resp": GOOD})) == Accepted(
        "95157322514444"
    )
    assert end(requested, response({"base_resp": GOOD})) == Unknown(status=502, reason="no id")
    assert end(requested, response(bad(1002))) == Refused(status=429, message="No.")


@cases(
    "response_format, content_type",
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("flac", "audio/flac"),
    ("pcm", "audio/pcm"),
    ("opus", "audio/ogg"),
    ("aac", "audio/aac"),
)
def test_sound_comes_as_digits(response_format: AudioFormat, content_type: str) -> None:
    request = SpeechRequest(model="m", input="x", voice="v", response_format=response_format)
    value = {"data": {"audio": "00fFA5", "status": 2}, "extra_info": {}, "base_resp": GOOD}
    body = BYTE_ORDER_MARK + msgspec.json.encode(value)
    reply = end(submit(MINIMAX, request), response(body=body))
    assert isinstance(reply, Done)
    assert isinstance(reply.result, SpeechAudio)
    assert reply.result.content_type == content_type
    assert b"".join(reply.result.pieces()) == b"\x00\xff\xa5"


@cases(
    "value, reply",
    (bad(1002), Refused(status=429, message="No.")),
    (bad(1039), Refused(status=429, message="No.")),
    (bad("1039"), Refused(status=429, message="No.")),
    (bad(2013), Refused(status=400, message="No.")),
    (bad(1004), Failed(status=502, message="No.")),
    ({"data": {"audio": "ab"}, **bad(1000)}, Failed(status=502, message="No.")),
    ({"data": None, "base_resp": GOOD}, Unknown(status=502, reason="no sound")),
    ({"data": {"audio": ""}}, Unknown(status=502, reason="no sound")),
    ({"data": {"audio": "abc"}}, Unknown(status=502, reason="no sound")),
    ({"data": {"audio": "zz"}}, Unknown(status=502, reason="no sound")),
    ({"data": {"audio": 1234}}, Unknown(status=502, reason="no sound")),
    ({"data": ["ab"]}, Unknown(status=502, reason="no sound")),
    ("ab", Unknown(status=502, reason="no sound")),
)
def test_answer_without_sound(value: Any, reply: SubmitReply) -> None:
    assert end(submit(MINIMAX, AT_ONCE), response(value)) == reply


def test_answer_that_is_too_long_is_not_decoded() -> None:
    cut = response({"data": {"audio": "abab"}}, is_cut_off=True)
    assert end(submit(MINIMAX, AT_ONCE), cut) == Unknown(status=502, reason="too much sound")


def test_file_of_a_task_is_requested() -> None:
    poll = MINIMAX.poll("speech", "7")
    assert (poll.request.path, poll.request.query) == (
        "/v1/query/t2a_async_query_v2",
        (("task_id", "7"),),
    )
    file = next_of(poll, response({"status": "Success", "file_id": 99, "base_resp": GOOD}))
    assert (file.request.path, file.request.query) == ("/v1/files/retrieve", (("file_id", "99"),))
    url = "https://cdn.example/a.mp3"
    found = end(file, response({"file": {"download_url": url}, "base_resp": GOOD}))
    assert found == Polled(
        state="succeeded", word="Success", result=SpeechResult(url=url, expires_at=NOW + 9 * 3600)
    )
    signed = f"{url}?Expires={int(NOW) + 60}"
    ends_earlier = end(file, response({"file": {"download_url": signed}}))
    assert isinstance(ends_earlier, Polled)
    assert ends_earlier.result == SpeechResult(url=signed, expires_at=NOW + 60)


@cases(
    "answer, reply",
    (response(status=404), Trouble(reason="no file")),
    (response(status=429), RateLimited()),
    (response(bad(1039)), RateLimited()),
    (response(bad(1000)), Trouble(reason="No.", status=200)),
    (response([]), Trouble(reason="no JSON object", status=200)),
)
def test_file_that_cannot_be_had_now_does_not_end_the_task(answer: Any, reply: Any) -> None:
    poll = MINIMAX.poll("speech", "7")
    assert end(poll, response({"status": "Success", "file_id": 99}), answer) == reply


def test_file_without_a_link_ends_it() -> None:
    poll = MINIMAX.poll("speech", "7")
    result = end(poll, response({"status": "Success", "file_id": 99}), response({"file": {}}))
    assert isinstance(result, Polled)
    assert result.error is not None
    assert result.error.code == "no_result"


@cases(
    "value, reply",
    ({"status": "Processing", "base_resp": GOOD}, Polled(state="running", word="Processing")),
    (
        {"status": "Failed", **bad(0, "success")},
        Polled(
            state="failed",
            word="Failed",
            error=TaskError(code="generation_failed", message="The generation failed."),
        ),
    ),
    (bad(1002), RateLimited()),
    (bad(1004), Trouble(reason="No.", status=200)),
    ({}, Polled(state=None, word="")),
    ([], Trouble(reason="no JSON object", status=200)),
)
def test_poll(value: Any, reply: Any) -> None:
    assert polled(MINIMAX, value, kind="speech") == reply
    assert MINIMAX.cancel("speech", "7") is None


SUNO = Suno()
AUDIO = "https://cdn.example/1.mp3"


@cases(
    "request_, body",
    (
        MusicRequest(model="chirp", prompt="A song"),
        {"mv": "chirp", "gpt_description_prompt": "A song"},
    ),
    (
        MusicRequest(
            model="chirp",
            lyrics="La",
            title="T",
            tags="pop",
            negative_tags="metal",
            instrumental=False,
        ),
        {
            "mv": "chirp",
            "prompt": "La",
            "title": "T",
            "tags": "pop",
            "negative_tags": "metal",
            "make_instrumental": False,
        },
    ),
    (
        MusicRequest(model="chirp", prompt="Waves", instrumental=True),
        {"mv": "chirp", "gpt_description_prompt": "Waves", "make_instrumental": True},
    ),
)
def test_submit(request_: MusicRequest, body: Any) -> None:
    requested = submit(SUNO, request_).request
    assert (requested.method, requested.path, sent(requested)) == (
        "POST",
        "/suno/submit/music",
        body,
    )


@cases(
    "status, value, reply",
    (200, {"code": "success", "data": "u-1"}, Accepted("u-1")),
    (
        200,
        {"code": "invalid_request", "message": "Too long."},
        Refused(status=400, message="Too long."),
    ),
    (200, {"code": 7}, Refused(status=400)),
    (200, {"code": "success"}, Unknown(status=502, reason="no id")),
    (200, {"data": "u-1"}, Unknown(status=502, reason="no code")),
    (200, [], Unknown(status=502, reason="no code")),
    (429, {"message": "Slow."}, Refused(status=429, message="Slow.")),
    (500, None, Failed(status=500)),
)
def test_answer_to_a_submit(status: int, value: Any, reply: SubmitReply) -> None:
    requested = submit(SUNO, MusicRequest(model="m", prompt="x"))
    assert end(requested, response(value, status=status)) == reply


def envelope(**data: Any) -> Any:
    return {"code": "success", "data": data}


def test_songs() -> None:
    songs = [
        {
            "id": "a",
            "title": "One",
            "audio_url": AUDIO,
            "image_url": "https://cdn.example/1.png",
            "metadata": {"duration": 180.5, "prompt": "La la"},
        },
        {"id": "b", "metadata": None},
    ]
    result = polled(SUNO, envelope(status="SUCCESS", data=songs), kind="music")
    assert result == Polled(
        state="succeeded",
        word="SUCCESS",
        result=MusicResult(
            tracks=(
                Track(
                    clip_id="a",
                    title="One",
                    duration_sec=180.5,
                    audio_url=AUDIO,
                    image_url="https://cdn.example/1.png",
                    lyrics="La la",
                ),
                Track(clip_id="b"),
            )
        ),
    )


@cases(
    "value, reply",
    (envelope(status="NOT_START"), Polled(state="queued", word="NOT_START")),
    (envelope(status="IN_PROGRESS", progress="30%"), Polled(state="running", word="IN_PROGRESS")),
    (
        envelope(status="FAILURE", fail_reason="Bad words."),
        Polled(
            state="failed",
            word="FAILURE",
            error=TaskError(code="generation_failed", message="Bad words."),
        ),
    ),
    ({"code": "oops", "message": "Later."}, Trouble(reason="Later.", status=200)),
    ({}, Trouble(reason="no task", status=200)),
)
def test_poll_of_songs(value: Any, reply: Any) -> None:
    assert SUNO.poll("music", "a/b").request.path == "/suno/fetch/a%2Fb"
    assert SUNO.cancel("music", "a") is None
    assert polled(SUNO, value, kind="music") == reply


@cases(
    "status, code, reply",
    (400, "task_not_exist", NotFound()),
    (200, "task_not_exist", NotFound()),
    (404, "anything", NotFound()),
    (400, "oops", Trouble(reason="status 400", status=400)),
    (503, "task_not_exist", Trouble(reason="status 503", status=503)),
    (429, "task_not_exist", RateLimited()),
)
def test_task_that_the_upstream_does_not_know(status: int, code: str, reply: Any) -> None:
    value = {"code": code, "message": "No such task.", "data": None}
    assert end(SUNO.poll("music", "a"), response(value, status=status)) == reply
