"""What the end of a job costs and what its row holds: from a job and its end to the ledger's
messages.

Sans I/O. Only what succeeded is paid for: the seconds that the upstream reported or, where it
reported none, those of the request; the characters that were sent; or one whole (contract for
media §3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from actors.jobs.job import Job
from actors.jobs.states import ROW_STATUS, End
from actors.jobs.store import OpenJob
from actors.wallet.jobs import JobEnd
from actors.wallet.messages import Outcome
from actors.wallet.money import div_round_half_up
from actors.wallet.unit_pricing import MediaPrice
from channels.media.replies import AvatarResult, MusicResult, SpeechResult, TaskResult, VideoResult

# How long a link is taken to be good when neither the upstream nor the link states its end.
LINK_SECONDS = 7 * 24 * 3600.0


# The link to a film that the gateway serves itself, good until that instant (Unix seconds).
ContentLink: TypeAlias = Callable[[Job, float], str]


def settlement(
    open_job: OpenJob,
    end: End,
    *,
    now: float,
    by: str,
    redact: Callable[[str], str],
    content_link: ContentLink,
) -> tuple[Outcome, JobEnd]:
    """The row and the money of a job that ends at `now`, and what is kept with it.

    `by` is `JobEnd.by`; `redact` makes an upstream's message fit for clients.
    """
    job = open_job.job
    price = MediaPrice.as_stated(job.price)
    quantity, charged = job.quantity, 0
    if job.kind == "video" and end.seconds_ms is not None:
        quantity = end.seconds_ms
    detail: dict[str, Any] = {**open_job.detail, "price": job.price}
    if end.state == "succeeded":
        charged = quantity
        detail["units"] = price.units(quantity)
        if job.kind == "video":
            detail["milliseconds"] = quantity
    result = None if end.result is None else _with_expiry(end.result, now)
    if isinstance(result, VideoResult):
        result = msgspec.structs.replace(result, milliseconds=quantity)
    error = end.error
    outcome = Outcome(
        status=ROW_STATUS[end.state],
        cost_nano_usd=price.cost_nano_usd(charged),
        created_at=now,
        latency_ms=max(0, round((now - job.submitted_at) * 1000)),
        error_code=None if error is None else error.code,
        error_message=None if error is None else redact(error.message),
        units=_units(job, charged),
        task_id=job.id,
        result_urls=_urls(job, result, content_link),
        result_expires_at=_expiry(result),
        attempts=open_job.attempts,
        detail=detail,
    )
    kept = None if result is None else msgspec.to_builtins(result)
    return outcome, JobEnd(state=end.state, by=by, result=kept)


def _units(job: Job, charged: int) -> int:
    """The row's `unit_count`: whole seconds of video, at least one; characters; or one."""
    if job.kind == "video" and charged:
        return max(1, div_round_half_up(charged, 1000))
    return charged


def _with_expiry(result: TaskResult, now: float) -> TaskResult:
    """The result with the instant at which its links expire."""
    if isinstance(result, AvatarResult) or result.expires_at is not None:
        return result
    return msgspec.structs.replace(result, expires_at=now + LINK_SECONDS)


def _expiry(result: TaskResult | None) -> float | None:
    return None if result is None or isinstance(result, AvatarResult) else result.expires_at


def _urls(job: Job, result: TaskResult | None, content_link: ContentLink) -> Sequence[str]:
    """The links of a result as its row keeps them."""
    if isinstance(result, MusicResult):
        return [track.audio_url for track in result.tracks if track.audio_url is not None]
    if isinstance(result, SpeechResult):
        return [result.url]
    if isinstance(result, VideoResult):
        assert result.expires_at is not None
        return [result.url or content_link(job, result.expires_at)]
    return ()
