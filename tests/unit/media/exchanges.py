"""Short ways to see what a dialect asks, and to give it an answer."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from channels.media.model import Exchange, MediaDialect, MediaRequest, MediaResponse, TaskKind
from channels.media.replies import PollReply, SubmitReply
from channels.media.requests import ContentItem, GeneralVideo, Submission

T = TypeVar("T")
NOW = 1_800_000_000.0
KEY = "vid_0123456789abcdef0123456789abcdef"


def response(
    value: Any = None,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    is_cut_off: bool = False,
) -> MediaResponse:
    return MediaResponse(
        status=status,
        headers=headers or {},
        body=body if value is None else msgspec.json.encode(value),
        received_at=NOW,
        is_cut_off=is_cut_off,
    )


def sent(request: MediaRequest) -> Any:
    """The JSON body of a request."""
    return msgspec.json.decode(request.body)


def end(exchange: Exchange[T], *responses: MediaResponse) -> T:
    """The reply after these answers, each to the request before it."""
    for reply in responses:
        outcome = exchange.read(reply)
        if not isinstance(outcome, Exchange):
            assert reply is responses[-1], "an answer too many"
            return outcome
        exchange = outcome
    raise AssertionError(f"one more is asked for: {exchange.request}")


def next_of(exchange: Exchange[T], reply: MediaResponse) -> Exchange[T]:
    """The exchange that follows an answer."""
    outcome = exchange.read(reply)
    assert isinstance(outcome, Exchange), outcome
    return outcome


def submit(dialect: MediaDialect, submission: Submission) -> Exchange[SubmitReply]:
    return dialect.submit(submission, idempotency_key=KEY)


def polled(
    dialect: MediaDialect, value: Any, *, kind: TaskKind = "video", status: int = 200
) -> PollReply:
    return end(dialect.poll(kind, "up-1"), response(value, status=status))


def item(kind: Any, value: str, **more: Any) -> ContentItem:
    inner: Any = value if kind == "text" else {"url": value}
    return ContentItem(kind, value, Raw(msgspec.json.encode({"type": kind, kind: inner, **more})))


def general(*items: ContentItem, **fields: Any) -> GeneralVideo:
    return GeneralVideo(model="film", content=items or (item("text", "A cat"),), **fields)
