"""The `ark` dialect (Volcengine, ModelArk): general videos and their tasks.

The request body is that of the plain wire. The real length is `duration`, else computed from the
frames; a link expires a day after the task's last change.
"""

from __future__ import annotations

from collections.abc import Mapping

from channels.media import model, outcomes, replies, requests, results, values
from channels.media.plain import bodies
from channels.media.plain.polls import cancel_at
from channels.media.plain.submits import accepted, post

TASKS = "/api/v3/contents/generations/tasks"
LINK_SECONDS = 24 * 3600.0


class Ark(model.BaseDialect):
    """Serves `videos`."""

    name = "ark"

    def submit(
        self, submission: requests.Submission, *, idempotency_key: str
    ) -> model.Exchange[replies.SubmitReply]:
        if not isinstance(submission, requests.GeneralVideo):
            self.not_served(submission)
        body = bodies.encoded(bodies.video_body(submission))
        return post(TASKS, body, accepted, idempotency_key=idempotency_key)

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[replies.PollReply]:
        request = model.MediaRequest(method="GET", path=f"{TASKS}/{model.segment(upstream_id)}")
        return model.Exchange(request=request, read=_read)

    def cancel(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[bool] | None:
        return cancel_at(TASKS, upstream_id)


def _read(response: model.MediaResponse) -> replies.PollReply:
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return trouble
    value = values.json_of(response)
    if not isinstance(value, dict):
        return replies.Trouble(reason="no JSON object", status=response.status)
    return outcomes.polled(
        value.get("status"),
        result=_result(value, now=response.received_at),
        seconds_ms=_milliseconds(value),
        progress=value.get("progress"),
        error=value.get("error"),
    )


def _result(value: Mapping[str, object], *, now: float) -> results.VideoResult | None:
    url = values.link(values.member(value, "content", "video_url"))
    if url is None:
        return None
    changed = values.instant(value.get("updated_at"), now=now)
    lasts = (now if changed is None else changed) + LINK_SECONDS
    return results.VideoResult(url=url, expires_at=values.link_end(url, now=now, at_most=lasts))


def _milliseconds(value: Mapping[str, object]) -> int | None:
    return values.milliseconds(value.get("duration")) or values.milliseconds_of_frames(
        value.get("frames"), value.get("framespersecond")
    )
