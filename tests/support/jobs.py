"""Jobs for tests: what a call begins, and what its upstream makes of it."""

from typing import Any
from uuid import UUID

from actors.jobs.job import Acceptance, Job
from actors.wallet.messages import NewJob
from channels.media.replies import Polled, TaskError
from channels.media.results import VideoResult

CHANNEL = "film-a"
FILM = VideoResult(url="https://cdn.example/film.mp4", expires_at=1_790_086_400.0)


def running_job(**message: Any) -> Job:
    """A film of five seconds at 0.1 USD each, which its upstream is making."""
    usual: dict[str, Any] = {
        "id": "vid_1",
        "kind": "video",
        "state": "running",
        "account_id": "acct_a",
        "key_id": "key_a",
        "call_id": UUID(int=1),
        "protocol": "videos",
        "model": "m",
        "request": {},
        "price": {"per_second": "0.1"},
        "quantity": 5000,
        "held": 5000,
        "submitted_at": 0.0,
        "deadline_at": 1.0,
        "channel_id": CHANNEL,
        "upstream_protocol": "videos",
        "upstream_model": "film",
        "upstream_id": "up_1",
    }
    unknown = ("progress", "stored_result", "error_code", "error_message", "ended_at")
    return Job(**{**usual, **dict.fromkeys(unknown), **message})


def new_job(**message: Any) -> NewJob:
    """A film of five seconds at 0.1 USD each, whose upstream has a day."""
    usual: dict[str, Any] = {
        "kind": "video",
        "price": {"per_second": "0.1"},
        "quantity": 5000,
        "deadline_seconds": 86_400.0,
    }
    return NewJob(**{**usual, **message})


def acceptance(upstream_id: str = "up_1", **message: Any) -> Acceptance:
    """An upstream that has taken it."""
    usual = {"channel_id": CHANNEL, "upstream_protocol": "videos", "upstream_model": "film"}
    return Acceptance(**{**usual, **message, "upstream_id": upstream_id})


def polled(state: Any, **message: Any) -> Polled:
    """What a poll brings; a success has a film, a failure an error."""
    if state == "succeeded":
        message.setdefault("result", FILM)
    elif state in ("failed", "cancelled", "expired"):
        message.setdefault("error", TaskError(code="blocked", message="It was blocked."))
    return Polled(state=state, word=state or "odd", **message)
