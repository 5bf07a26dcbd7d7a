"""The `ark` dialect (Volcengine, ModelArk): general videos and their tasks.

The request body is that of the plain wire. The real length is `duration`, else computed from the
frames; a link expires a day after the task's last change.
"""

from __future__ import annotations

from typing import Any

from channels.media import plain_submit
from channels.media.canonical import (
    GeneralVideo,
    PollReply,
    Submission,
    SubmitReply,
    Trouble,
    VideoResult,
)
from channels.media.model import (
    BaseDialect,
    Exchange,
    MediaRequest,
    MediaResponse,
    TaskKind,
    segment,
)
from channels.media.outcomes import (
    instant,
    json_of,
    link,
    link_end,
    member,
    milliseconds,
    milliseconds_of_frames,
    poll_trouble,
    polled,
)
from channels.media.plain import cancel_at
from channels.media.plain_submit import accepted, post

TASKS = "/api/v3/contents/generations/tasks"
LINK_SECONDS = 24 * 3600.0


class Ark(BaseDialect):
    """Serves `videos`."""

    name = "ark"

    def submit(self, submission: Submission, *, idempotency_key: str) -> Exchange[SubmitReply]:
        if not isinstance(submission, GeneralVideo):
            self.not_served(submission)
        body = plain_submit.encoded(plain_submit.video_body(submission))
        return post(TASKS, body, accepted, idempotency_key=idempotency_key)

    def poll(self, kind: TaskKind, upstream_id: str) -> Exchange[PollReply]:
        request = MediaRequest(method="GET", path=f"{TASKS}/{segment(upstream_id)}")
        return Exchange(request=request, read=_read)

    def cancel(self, kind: TaskKind, upstream_id: str) -> Exchange[bool] | None:
        return cancel_at(TASKS, upstream_id)


def _read(response: MediaResponse) -> PollReply:
    if (trouble := poll_trouble(response)) is not None:
        return trouble
    value = json_of(response)
    if not isinstance(value, dict):
        return Trouble(reason="no JSON object", status=response.status)
    return polled(
        value.get("status"),
        result=_result(value, now=response.received_at),
        seconds_ms=_milliseconds(value),
        progress=value.get("progress"),
        error=value.get("error"),
    )


def _result(value: Any, *, now: float) -> VideoResult | None:
    url = link(member(value, "content", "video_url"))
    if url is None:
        return None
    changed = instant(value.get("updated_at"), now=now)
    lasts = (now if changed is None else changed) + LINK_SECONDS
    return VideoResult(url=url, expires_at=link_end(url, now=now, at_most=lasts))


def _milliseconds(value: Any) -> int | None:
    return milliseconds(value.get("duration")) or milliseconds_of_frames(
        value.get("frames"), value.get("framespersecond")
    )
