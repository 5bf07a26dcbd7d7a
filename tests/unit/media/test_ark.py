"""The `ark` dialect: the plain body at its own path, lengths in frames, links of a day."""

from __future__ import annotations

from typing import Any

from channels.media.ark import Ark
from channels.media.canonical import Accepted, Polled, TaskError, VideoResult
from tests.support.rows import cases
from tests.unit.media.wire import KEY, NOW, end, general, item, polled, response, sent, submit

ARK = Ark()
FILM = "https://tos.example/a.mp4"
DAY = 86_400.0


def test_submit() -> None:
    asked = submit(ARK, general(item("text", "A cat"), duration=5, resolution="1080p"))
    assert (asked.request.method, asked.request.path) == (
        "POST",
        "/api/v3/contents/generations/tasks",
    )
    assert asked.request.headers == (("Idempotency-Key", KEY),)
    assert sent(asked.request) == {
        "model": "film",
        "duration": 5,
        "resolution": "1080p",
        "content": [{"type": "text", "text": "A cat"}],
    }
    assert end(asked, response({"id": "cgt-1"})) == Accepted("cgt-1")


def test_poll_and_cancel() -> None:
    assert ARK.poll("video", "cgt-1").request.path == "/api/v3/contents/generations/tasks/cgt-1"
    cancel = ARK.cancel("video", "cgt-1")
    assert cancel is not None
    assert (cancel.request.method, cancel.request.path) == (
        "DELETE",
        "/api/v3/contents/generations/tasks/cgt-1",
    )


def success(**fields: Any) -> Any:
    return {"status": "succeeded", "content": {"video_url": FILM}, **fields}


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
    told = polled(ARK, value)
    assert isinstance(told, Polled)
    assert (told.state, told.seconds_ms) == ("succeeded", milliseconds)


@cases(
    "fields, expires_at",
    ({"updated_at": NOW - 100}, NOW - 100 + DAY),
    ({"updated_at": (NOW - 100) * 1000}, NOW - 100 + DAY),
    ({"updated_at": "soon"}, NOW + DAY),
    ({}, NOW + DAY),
)
def test_link_lives_a_day(fields: Any, expires_at: float) -> None:
    told = polled(ARK, success(**fields))
    assert isinstance(told, Polled)
    assert told.result == VideoResult(url=FILM, expires_at=expires_at)


def test_link_that_ends_earlier_says_so() -> None:
    url = f"{FILM}?X-Tos-Date=20270115T080000Z&X-Tos-Expires=3600"
    told = polled(
        ARK, {"status": "succeeded", "content": {"video_url": url}, "updated_at": 1_800_000_000}
    )
    assert isinstance(told, Polled)
    assert isinstance(told.result, VideoResult)
    assert told.result.expires_at == 1_800_000_000 + 3600


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
