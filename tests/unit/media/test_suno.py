"""The `suno` dialect: an idea or lyrics in, an envelope with two songs out."""

from __future__ import annotations

from typing import Any

from channels.media.canonical import (
    Accepted,
    Failed,
    MusicRequest,
    MusicResult,
    NotFound,
    Polled,
    RateLimited,
    Refused,
    SubmitReply,
    TaskError,
    Track,
    Trouble,
    Unknown,
)
from channels.media.suno import Suno
from tests.support.rows import cases
from tests.unit.media.wire import end, polled, response, sent, submit

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
    asked = submit(SUNO, request_).request
    assert (asked.method, asked.path, sent(asked)) == ("POST", "/suno/submit/music", body)


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
    asked = submit(SUNO, MusicRequest(model="m", prompt="x"))
    assert end(asked, response(value, status=status)) == reply


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
    told = polled(SUNO, envelope(status="SUCCESS", data=songs), kind="music")
    assert told == Polled(
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
def test_poll(value: Any, reply: Any) -> None:
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
