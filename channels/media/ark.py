"""The `ark` dialect (Volcengine, ModelArk): general videos and their tasks.

The request body is that of the plain wire. The real length is `duration`, else computed from the
frames; a link expires a day after the task's last change.
"""

from __future__ import annotations

from typing import Any

from channels.media import canonical, model, outcomes, plain_submit
from channels.media.plain import cancel_at
from channels.media.plain_submit import accepted, post

TASKS = "/api/v3/contents/generations/tasks"
LINK_SECONDS = 24 * 3600.0


class Ark(model.BaseDialect):
    """Serves `videos`."""

    name = "ark"

    def submit(
        self, submission: canonical.Submission, *, idempotency_key: str
    ) -> model.Exchange[canonical.SubmitReply]:
        if not isinstance(submission, canonical.GeneralVideo):
            self.not_served(submission)
        body = plain_submit.encoded(plain_submit.video_body(submission))
        return post(TASKS, body, accepted, idempotency_key=idempotency_key)

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[canonical.PollReply]:
        request = model.MediaRequest(method="GET", path=f"{TASKS}/{model.segment(upstream_id)}")
        return model.Exchange(request=request, read=_read)

    def cancel(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[bool] | None:
        return cancel_at(TASKS, upstream_id)


def _read(response: model.MediaResponse) -> canonical.PollReply:
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return trouble
    value = outcomes.json_of(response)
    if not isinstance(value, dict):
        return canonical.Trouble(reason="no JSON object", status=response.status)
    return outcomes.polled(
        value.get("status"),
        result=_result(value, now=response.received_at),
        seconds_ms=_milliseconds(value),
        progress=value.get("progress"),
        error=value.get("error"),
    )


def _result(value: Any, *, now: float) -> canonical.VideoResult | None:
    url = outcomes.link(outcomes.member(value, "content", "video_url"))
    if url is None:
        return None
    changed = outcomes.instant(value.get("updated_at"), now=now)
    lasts = (now if changed is None else changed) + LINK_SECONDS
    return canonical.VideoResult(url=url, expires_at=outcomes.link_end(url, now=now, at_most=lasts))


def _milliseconds(value: Any) -> int | None:
    return outcomes.milliseconds(value.get("duration")) or outcomes.milliseconds_of_frames(
        value.get("frames"), value.get("framespersecond")
    )
