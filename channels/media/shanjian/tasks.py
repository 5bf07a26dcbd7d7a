"""Submits and polls: everything is a task, also a voice, which the submit awaits."""

from __future__ import annotations

from functools import partial

from channels.media import model, outcomes, replies, results, values
from channels.media.outcomes import polled
from channels.media.plain.bodies import encoded
from channels.media.plain.submits import post
from channels.media.shanjian.envelope import opened, opened_poll

TASK = "/v1/task/info"
LINK_SECONDS = 24 * 3600.0
# The pause between two polls of a voice.
VOICE_PAUSE_SECONDS = 1.0


def submit(
    path: str, body: dict[str, object], *, waits: bool, idempotency_key: str
) -> model.Exchange[replies.SubmitReply]:
    """Submit a request; `waits`: poll a voice until it is complete."""
    read = partial(_submitted, waits)
    return post(path, encoded(body), read, idempotency_key=idempotency_key)


def _submitted(
    waits: bool, response: model.MediaResponse
) -> replies.SubmitReply | model.Exchange[replies.SubmitReply]:
    data = opened(response)
    if not isinstance(data, dict):
        return data
    upstream_id = values.identifier(data.get("taskId"))
    if upstream_id is None:
        return outcomes.unusable("no taskId")
    return _waiting(upstream_id) if waits else replies.Accepted(upstream_id)


def poll(kind: model.TaskKind, upstream_id: str) -> model.Exchange[replies.PollReply]:
    """Request a task's status."""
    return model.Exchange(request=_question(upstream_id), read=partial(_read, kind))


def _question(upstream_id: str) -> model.MediaRequest:
    return model.MediaRequest(method="GET", path=TASK, query=(("taskId", upstream_id),))


def _read(kind: model.TaskKind, response: model.MediaResponse) -> replies.PollReply:
    data = opened_poll(response)
    if not isinstance(data, dict):
        return data
    result = _result(kind, data.get("result"), now=response.received_at)
    return _polled(data, result)


def _polled(data: dict[str, object], result: results.TaskResult | None) -> replies.Polled:
    return polled(
        data.get("status"),
        result=result,
        seconds_ms=values.milliseconds(values.member(data, "result", "duration")),
        progress=data.get("progress"),
        error={"code": data.get("errorCode"), "message": data.get("errorMessage")},
    )


def _result(kind: model.TaskKind, result: object, *, now: float) -> results.TaskResult | None:
    if kind == "avatar":
        upstream_id = values.identifier(values.member(result, "virtualmanId"))
        return None if upstream_id is None else results.AvatarResult(upstream_id=upstream_id)
    url = values.link(values.member(result, "videoUrl"))
    if url is None:
        return None
    return results.VideoResult(
        url=url, expires_at=values.link_end(url, now=now, at_most=now + LINK_SECONDS)
    )


def _waiting(upstream_id: str) -> model.Exchange[replies.SubmitReply]:
    """Poll a voice; poll again after any response that does not end it."""

    def read(
        response: model.MediaResponse,
    ) -> replies.SubmitReply | model.Exchange[replies.SubmitReply]:
        data = opened_poll(response)
        if isinstance(data, replies.Unusable):
            return outcomes.unusable(data.reason)
        if not isinstance(data, dict):
            return waiting
        speaker = values.identifier(values.member(data, "result", "speakerId"))
        # Its status words are those of any other task.
        polled = _polled(
            data, None if speaker is None else results.AvatarResult(upstream_id=speaker)
        )
        if polled.state == "succeeded" and speaker is not None:
            return replies.Done(results.VoiceResult(upstream_id=speaker))
        if polled.error is not None:
            return replies.Failed(status=502, message=polled.error.message, is_final=True)
        return waiting

    waiting: model.Exchange[replies.SubmitReply] = model.Exchange(
        request=_question(upstream_id),
        read=read,
        after_seconds=VOICE_PAUSE_SECONDS,
        repeats=True,
    )
    return waiting
