"""The `openai` dialect: general videos from a prompt and a first image.

The upstream has no links: a video is read from `/v1/videos/{id}/content` with the channel's key, so
the gateway makes a link of its own and streams the video (`content`).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

from channels.media import model, outcomes, replies, requests, results, values
from channels.media.plain.bodies import encoded
from channels.media.plain.polls import cancel_at
from channels.media.plain.submits import accepted, post

VIDEOS = "/v1/videos"
_MADE = results.VideoResult(url=None)

# Sizes by resolution and ratio; other pairs have none.
SIZES: Mapping[tuple[str | None, str | None], str] = MappingProxyType(
    {
        ("720p", "16:9"): "1280x720",
        ("720p", "9:16"): "720x1280",
        ("1080p", "16:9"): "1920x1080",
        ("1080p", "9:16"): "1080x1920",
    }
)


class OpenAI(model.BaseDialect):
    """Serves `videos`."""

    name = "openai"

    def submit(
        self, submission: requests.Submission, *, idempotency_key: str
    ) -> model.Exchange[replies.SubmitReply]:
        if not isinstance(submission, requests.GeneralVideo):
            self.not_served(submission)
        body = encoded(_body(submission))
        return post(VIDEOS, body, accepted, idempotency_key=idempotency_key)

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[replies.PollReply]:
        request = model.MediaRequest(method="GET", path=f"{VIDEOS}/{model.segment(upstream_id)}")
        return model.Exchange(request=request, read=_read)

    def cancel(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[bool] | None:
        return cancel_at(VIDEOS, upstream_id)

    def content(self, upstream_id: str) -> model.MediaRequest | None:
        return model.MediaRequest(
            method="GET", path=f"{VIDEOS}/{model.segment(upstream_id)}/content"
        )


def _body(request: requests.GeneralVideo) -> dict[str, object]:
    body: dict[str, object] = {"model": request.model, "prompt": "\n".join(request.texts())}
    if request.duration is not None:
        body["seconds"] = _digits(request.duration)
    if (size := SIZES.get((request.resolution, request.ratio))) is not None:
        body["size"] = size
    if images := request.images():
        body["input_reference"] = {"image_url": images[0]}
    return body


def _digits(seconds: int | float) -> str:
    """Return a number as plain digits: 8 and 8.0 become "8"."""
    return f"{Decimal(str(seconds)):f}".removesuffix(".0")


def _read(response: model.MediaResponse) -> replies.PollReply:
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return trouble
    value = values.json_of(response)
    if not isinstance(value, dict):
        return replies.Trouble(reason="no JSON object", status=response.status)
    return outcomes.polled(
        value.get("status"),
        result=_MADE,
        seconds_ms=values.milliseconds(value.get("seconds")),
        progress=value.get("progress"),
        error=value.get("error"),
    )
