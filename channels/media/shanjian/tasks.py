"""Submits and polls: everything is a task, a voice too, which is waited for."""

from __future__ import annotations

from functools import partial
from typing import Any

from channels.media.model import Exchange, MediaRequest, MediaResponse, TaskKind
from channels.media.outcomes import polled, unusable
from channels.media.plain.bodies import encoded
from channels.media.plain.submit import post
from channels.media.replies import (
    Accepted,
    AvatarResult,
    Done,
    Failed,
    Polled,
    PollReply,
    SubmitReply,
    TaskResult,
    VideoResult,
    VoiceResult,
)
from channels.media.shanjian.envelope import opened, opened_poll
from channels.media.values import identifier, link, link_end, member, milliseconds

TASK = "/v1/task/info"
LINK_SECONDS = 24 * 3600.0
# Between two looks at a voice that is being made.
VOICE_PAUSE_SECONDS = 1.0


def submit(
    path: str, body: dict[str, Any], *, waits: bool, idempotency_key: str
) -> Exchange[SubmitReply]:
    """Ask for something; `waits`: for a voice, until it is there."""
    read = partial(_submitted, waits)
    return post(path, encoded(body), read, idempotency_key=idempotency_key)


def _submitted(waits: bool, response: MediaResponse) -> SubmitReply | Exchange[SubmitReply]:
    data = opened(response)
    if not isinstance(data, dict):
        return data
    upstream_id = identifier(data.get("taskId"))
    if upstream_id is None:
        return unusable("no taskId")
    return _waiting(upstream_id) if waits else Accepted(upstream_id)


def poll(kind: TaskKind, upstream_id: str) -> Exchange[PollReply]:
    """Ask how a task is."""
    return Exchange(request=_question(upstream_id), read=partial(_read, kind))


def _question(upstream_id: str) -> MediaRequest:
    return MediaRequest(method="GET", path=TASK, query=(("taskId", upstream_id),))


def _read(kind: TaskKind, response: MediaResponse) -> PollReply:
    data = opened_poll(response)
    if not isinstance(data, dict):
        return data
    result = _result(kind, data.get("result"), now=response.received_at)
    return _polled(data, result)


def _polled(data: dict[str, Any], result: TaskResult | None) -> Polled:
    return polled(
        data.get("status"),
        result=result,
        seconds_ms=milliseconds(member(data, "result", "duration")),
        progress=data.get("progress"),
        error={"code": data.get("errorCode"), "message": data.get("errorMessage")},
    )


def _result(kind: TaskKind, result: Any, *, now: float) -> TaskResult | None:
    if kind == "avatar":
        upstream_id = identifier(member(result, "virtualmanId"))
        return None if upstream_id is None else AvatarResult(upstream_id=upstream_id)
    url = link(member(result, "videoUrl"))
    if url is None:
        return None
    return VideoResult(url=url, expires_at=link_end(url, now=now, at_most=now + LINK_SECONDS))


def _waiting(upstream_id: str) -> Exchange[SubmitReply]:
    """Poll a voice; poll again after any response that is not its end."""

    def read(response: MediaResponse) -> SubmitReply | Exchange[SubmitReply]:
        data = opened_poll(response)
        if not isinstance(data, dict):
            return waiting
        speaker = identifier(member(data, "result", "speakerId"))
        # By the same status words as any other task.
        polled = _polled(data, None if speaker is None else AvatarResult(upstream_id=speaker))
        if polled.state == "succeeded" and speaker is not None:
            return Done(VoiceResult(upstream_id=speaker))
        if polled.error is not None:
            return Failed(status=502, message=polled.error.message, is_final=True)
        return waiting

    waiting: Exchange[SubmitReply] = Exchange(
        request=_question(upstream_id),
        read=read,
        after_seconds=VOICE_PAUSE_SECONDS,
        repeats=True,
    )
    return waiting
