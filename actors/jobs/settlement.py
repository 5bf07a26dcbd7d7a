"""Computes the cost and the row of a job's end, as messages to the ledger.

Sans I/O. Only a success is charged: the seconds that the upstream reported or, if it reported
none, those of the request (bounded by `actors/wallet/bounds.py`); the characters that were sent;
or one whole (reference 5.5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from actors.jobs.job import Job
from actors.jobs.state_machine import ROW_STATUS, End
from actors.jobs.store import OpenJob
from actors.wallet.bounds import possible_film
from actors.wallet.messages import JobEnd, Outcome
from actors.wallet.money import div_round_half_up
from actors.wallet.piece_prices import MediaPrice
from channels.families import VIDEOS
from channels.media import results

# The lifetime of a link when neither the upstream nor the link states one.
LINK_SECONDS = 7 * 24 * 3600.0

# Returns the link to a video that the gateway serves itself, valid until that instant (Unix
# seconds).
ContentLink: TypeAlias = Callable[[Job, float], str]
# Returns the operator's cost of a job with this quantity, in nano-USD; None: unknown.
UpstreamCost: TypeAlias = Callable[[OpenJob, int], int | None]


def settlement_of(
    open_job: OpenJob,
    end: End,
    *,
    now: float,
    by: str,
    redact: Callable[[str], str],
    content_link: ContentLink,
    upstream_cost: UpstreamCost,
) -> tuple[Outcome, JobEnd]:
    """Return the row and the money of a job that ends at `now`, and what is kept with it.

    `by` is `JobEnd.by`; `redact` makes an upstream's message fit for clients.
    """
    job = open_job.job
    price = MediaPrice.as_stated(job.price)
    quantity, charged = job.quantity, 0
    detail: dict[str, Any] = {**open_job.detail, "price": job.price}
    if job.kind == "video" and end.seconds_ms is not None:
        quantity = _possible(open_job, end.seconds_ms)
        if quantity != end.seconds_ms:
            detail["doubted"] = {"milliseconds": end.seconds_ms}
    if end.state == "succeeded":
        charged = quantity
        detail["units"] = price.units(quantity)
        if job.kind == "video":
            detail["milliseconds"] = quantity
    result = None if end.result is None else _with_expiry(end.result, now)
    if isinstance(result, results.VideoResult):
        result = msgspec.structs.replace(result, milliseconds=quantity)
    error = end.error
    outcome = Outcome(
        status=ROW_STATUS[end.state],
        cost_nano_usd=price.cost_nano_usd(charged),
        created_at=now,
        latency_ms=max(0, round((now - job.submitted_at) * 1000)),
        error_code=None if error is None else redact(error.code),
        error_message=None if error is None else redact(error.message),
        units=_units(job, charged),
        result_urls=_urls(job, result, content_link),
        result_expires_at=_expiry(result),
        attempts=open_job.attempts,
        upstream_cost_nano_usd=upstream_cost(open_job, charged),
        channel_id=job.channel_id,
        detail=detail,
    )
    kept = None if result is None else msgspec.to_builtins(result)
    return outcome, JobEnd(state=end.state, by=by, result=kept)


def is_doubted(open_job: OpenJob, end: End) -> bool:
    """Whether the upstream reports a length that a film cannot have."""
    stated_ms = end.seconds_ms if open_job.job.kind == "video" else None
    return stated_ms is not None and _possible(open_job, stated_ms) != stated_ms


def _possible(open_job: OpenJob, stated_ms: int) -> int:
    """Return the length of a film that is charged where its upstream reports this one."""
    job, request = open_job.job, open_job.detail.get("request") or {}
    is_open = (
        "duration" not in request
        # An extension is as long as the film that it is added to makes it.
        or request.get("video_mode") == "extend"
        or any(job.model.startswith(prefix) for prefix, _ in VIDEOS.by_model)
    )
    return possible_film(stated_ms, job.held, is_open=is_open)


def _units(job: Job, charged: int) -> int:
    """Return the row's `unit_count`: whole seconds of video, at least one; characters; or one."""
    if job.kind == "video" and charged:
        return max(1, div_round_half_up(charged, 1000))
    return charged


def _with_expiry(result: results.TaskResult, now: float) -> results.TaskResult:
    """Return the result with the instant at which its links expire."""
    if isinstance(result, results.AvatarResult) or result.expires_at is not None:
        return result
    return msgspec.structs.replace(result, expires_at=now + LINK_SECONDS)


def _expiry(result: results.TaskResult | None) -> float | None:
    return None if result is None or isinstance(result, results.AvatarResult) else result.expires_at


def _urls(job: Job, result: results.TaskResult | None, content_link: ContentLink) -> Sequence[str]:
    """Return the links of a result for its row."""
    if isinstance(result, results.MusicResult):
        return [track.audio_url for track in result.tracks if track.audio_url is not None]
    if isinstance(result, results.SpeechResult):
        return [result.url]
    if isinstance(result, results.VideoResult):
        assert result.expires_at is not None
        return [result.url or content_link(job, result.expires_at)]
    return ()
