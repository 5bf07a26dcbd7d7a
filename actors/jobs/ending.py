"""Ends a job: computes its settlement, has the ledger apply it, and detects which was first.

State, settlement or refund, release of the hold and row are one transaction of the ledger; the
first one counts. Only the first process counts, logs and sends a cancellation to the upstream.
Polls and cancellations at upstreams (`JobUpstreams`), films behind a key (`JobContent`) and the
renewal of expired links stand here, too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import structs

from actors.clock import Clock
from actors.jobs import store
from actors.jobs.job import ROW_STATUS, End, Gone, Job, Observation, TimedOut, Unreachable
from actors.jobs.store import OpenJob
from actors.store.connection import StoreError, in_time
from actors.wallet.batch import Executor
from actors.wallet.bounds import possible_film
from actors.wallet.messages import CallFacts, EndState, JobEnd, Outcome
from actors.wallet.pricing import MediaPrice, div_round_half_up
from channels.errors import UpstreamError
from channels.families import UNIT_TYPES, VIDEOS
from channels.http.interfaces import UpstreamClient, UpstreamResponse
from channels.media.canonical import (
    AvatarResult,
    MusicResult,
    Polled,
    SpeechResult,
    TaskResult,
    VideoResult,
)
from channels.media.dialects import DIALECTS
from channels.media.model import (
    Exchange,
    MediaRequest,
    MediaResponse,
    TaskKind,
    addressed,
    perform,
    send,
)
from channels.registry import ChannelSpec
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# Computes the cost and the row of a job's end, as messages to the ledger.
#
# Sans I/O. Only a success is charged: the seconds that the upstream reported or, if it reported
# none, those of the request (bounded by `actors/wallet/bounds.py`); the characters that were sent;
# or one whole (contract for media §3).

# The lifetime of a link when neither the upstream nor the link states one.
LINK_SECONDS = 7 * 24 * 3600.0


# Returns the link to a video that the gateway serves itself, valid until that instant (Unix
# seconds).
ContentLink: TypeAlias = Callable[[Job, float], str]
# Returns the operator's cost of a job with this quantity, in nano-USD; None: unknown.
UpstreamCost: TypeAlias = Callable[[OpenJob, int], int | None]


def settlement(
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
    if isinstance(result, VideoResult):
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


def _with_expiry(result: TaskResult, now: float) -> TaskResult:
    """Return the result with the instant at which its links expire."""
    if isinstance(result, AvatarResult) or result.expires_at is not None:
        return result
    return msgspec.structs.replace(result, expires_at=now + LINK_SECONDS)


def _expiry(result: TaskResult | None) -> float | None:
    return None if result is None or isinstance(result, AvatarResult) else result.expires_at


def _urls(job: Job, result: TaskResult | None, content_link: ContentLink) -> Sequence[str]:
    """Return the links of a result for its row."""
    if isinstance(result, MusicResult):
        return [track.audio_url for track in result.tracks if track.audio_url is not None]
    if isinstance(result, SpeechResult):
        return [result.url]
    if isinstance(result, VideoResult):
        assert result.expires_at is not None
        return [result.url or content_link(job, result.expires_at)]
    return ()


# One poll or one cancellation of a job at its upstream.
#
# Independent of calls: it takes no slot of the channel, does not count for its health, and is made
# even if its circuit is open.

R = TypeVar("R")


class UpstreamJob(Protocol):
    """The data that identifies a job at its upstream."""

    @property
    def kind(self) -> TaskKind: ...

    @property
    def channel_id(self) -> str | None: ...

    @property
    def upstream_protocol(self) -> str | None: ...

    @property
    def upstream_id(self) -> str | None: ...


class JobUpstreams:
    """Polls and cancels jobs at their upstreams. `seconds` is the timeout of either, with all
    requests it needs; `body_bytes_max` bounds a response's body."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        channels: Callable[[], Mapping[str, ChannelSpec]],
        seconds: float,
        body_bytes_max: int,
        clock: Clock,
    ) -> None:
        self._http = http
        self._channels = channels
        self._seconds = seconds
        self._body_bytes_max = body_bytes_max
        self._clock = clock
        self._log = EventLog("actors.jobs")

    def __repr__(self) -> str:
        return f"<JobUpstreams {self._http!r}>"

    def channel_ids(self) -> list[str]:
        """Return the ids of the configured channels."""
        return list(self._channels())

    async def poll(self, job: UpstreamJob) -> Observation:
        """Request the state of a job. Raises only when cancelled."""
        found = self._find(job)
        if found is None:
            return Gone()
        channel, upstream_id = found
        dialect = DIALECTS[channel.dialect_of(job.upstream_protocol or "")]
        try:
            async with asyncio.timeout(self._seconds):
                return await self._perform(channel, dialect.poll(job.kind, upstream_id))
        except TimeoutError:
            return TimedOut()
        except UpstreamError as error:
            return Unreachable(reason=f"{error} {error.detail}".strip())

    async def cancel(self, job: UpstreamJob) -> bool:
        """Cancel a job, if its upstream supports that; return whether it was cancelled."""
        found = self._find(job)
        if found is None:
            return False
        channel, upstream_id = found
        dialect = DIALECTS[channel.dialect_of(job.upstream_protocol or "")]
        exchange = dialect.cancel(job.kind, upstream_id)
        if exchange is None:
            return False
        try:
            async with asyncio.timeout(self._seconds):
                if await self._perform(channel, exchange):
                    return True
            reason = "refused"
        except (TimeoutError, UpstreamError) as error:
            reason = repr(error)
        self._log.info("task_not_cancelled_upstream", channel=channel.id, error=reason)
        return False

    def _find(self, job: UpstreamJob) -> tuple[ChannelSpec, str] | None:
        channel = self._channels().get(job.channel_id or "")
        if channel is None or job.upstream_id is None:
            return None
        return channel, job.upstream_id

    async def _perform(self, channel: ChannelSpec, exchange: Exchange[R]) -> R:
        async def sent(request: MediaRequest, response_bytes_max: int) -> MediaResponse:
            return await send(self._http, channel, request, response_bytes_max, now=self._clock.now)

        return await perform(exchange, sent, self._clock.sleep, body_bytes_max=self._body_bytes_max)


EVENTS: Mapping[EndState, str] = {
    "succeeded": "task_settled",
    "failed": "task_failed",
    "expired": "task_expired",
    "cancelled": "task_cancelled",
}


class Settles(Protocol):
    """Applies a settlement durably: by `Wallets.settle_job`, or by a command."""

    async def __call__(self, facts: CallFacts, outcome: Outcome, job_end: JobEnd) -> None: ...


class CancelsJobs(Protocol):
    """Cancels a job at its upstream; returns whether it was cancelled."""

    async def cancel(self, job: UpstreamJob) -> bool: ...


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that was ended here: its state before, its hold, and its cost."""

    job: Job
    state: EndState
    held_nano_usd: int
    cost_nano_usd: int


class Endings:
    """Ends jobs. One per process; stateless."""

    def __init__(
        self,
        *,
        database: Executor,
        settle: Settles,
        upstreams: CancelsJobs,
        redact: Callable[[str], str],
        content_link: ContentLink,
        upstream_cost: UpstreamCost,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._settle = settle
        self._upstreams = upstreams
        self._redact = redact
        self._content_link = content_link
        self._upstream_cost = upstream_cost
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("actors.jobs")

    async def end(self, job_id: str, end: End) -> EndedJob | None:
        """End an open job; None if it had ended, or another process was first.

        Raises StoreUnavailable and LedgerUnavailable: it may have ended or not.
        """
        open_job = await store.read_open(self._database, job_id)
        if open_job is None:
            return None
        by = uuid.uuid4().hex
        outcome, job_end = settlement(
            open_job,
            end,
            now=self._clock.now(),
            by=by,
            redact=self._redact,
            content_link=self._content_link,
            upstream_cost=self._upstream_cost,
        )
        await self._settle(open_job.facts, outcome, job_end)
        found = await store.read_end(self._database, job_id)
        if found is None or found[0] != by:
            return None
        job = open_job.job
        self._report(job, outcome, job_end)
        if is_doubted(open_job, end):
            self._metrics.tasks.length_doubted(job.channel_id or "")
            self._log.warning("task_length_doubted", **_of(job), milliseconds=end.seconds_ms)
        if end.asks_to_cancel:
            await self._upstreams.cancel(job)
        return EndedJob(job, job_end.state, open_job.amount_nano_usd, outcome.cost_nano_usd)

    def _report(self, job: Job, outcome: Outcome, job_end: JobEnd) -> None:
        seconds = outcome.latency_ms / 1000
        self._metrics.tasks.ended(kind=job.kind, state=job_end.state, seconds=seconds)
        if outcome.cost_nano_usd or outcome.upstream_cost_nano_usd != 0:
            self._metrics.sales.settled(
                channel=job.channel_id or "",
                model=job.model,
                nano_usd=outcome.cost_nano_usd,
                upstream_nano_usd=outcome.upstream_cost_nano_usd,
                is_sold=outcome.status == "success",
            )
        if outcome.units:
            unit = UNIT_TYPES[job.protocol]
            self._metrics.units(model=job.model, unit=unit, count=outcome.units)
        self._log.info(
            EVENTS[job_end.state],
            **_of(job),
            code=outcome.error_code,
            seconds=round(seconds, 3),
        )


def _of(job: Job) -> dict[str, Any]:
    return {
        "task_id": job.id,
        "channel": job.channel_id,
        "model": job.model,
        "account": job.account_id,
    }


# Renews expired links of results: the upstream's task is polled once more.
#
# A request for a job with expired links starts the poll: at most one a minute for each job over all
# processes, and a request waits for it for `WAIT_SECONDS` at most. Links that arrive later are
# stored, for the next request.

# How long a request for a job waits for its links (contract for media §5).
WAIT_SECONDS = 2.0
# Minimum time between two polls of one job.
AGAIN_SECONDS = 60.0
# Limit of polls under way in a process; further jobs keep their old links for now.
POLLS_MAX = 256

Linked = VideoResult | MusicResult | SpeechResult


class Polls(Protocol):
    """Requests the state of a job at its upstream."""

    async def poll(self, job: UpstreamJob) -> Observation: ...


class LinkRenewal:
    """Renews links. One per process."""

    def __init__(self, *, database: Executor, upstreams: Polls, clock: Clock) -> None:
        self._database = database
        self._upstreams = upstreams
        self._clock = clock
        self._under_way: dict[str, asyncio.Task[TaskResult | None]] = {}
        self._claiming = 0  # jobs being claimed for a poll
        self._log = EventLog("actors.jobs")

    def __repr__(self) -> str:
        return f"<LinkRenewal {len(self._under_way)} under way>"

    async def renewed(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Return the same jobs, with their links renewed as far as possible in time.

        Raises StoreUnavailable.
        """
        now = self._clock.now()
        expired = {job.id: job for job in jobs if _has_expired(job, now)}
        if not expired:
            return jobs
        await self._begin(expired)
        asked = [self._under_way[name] for name in expired if name in self._under_way]
        if asked:
            await asyncio.wait(asked, timeout=WAIT_SECONDS)
        found = {task.get_name(): task.result() for task in asked if task.done()}
        return [_with(job, found.get(job.id)) for job in jobs]

    async def _begin(self, expired: dict[str, Job]) -> None:
        """Begin polls of the jobs that have not been renewed for `AGAIN_SECONDS`."""
        room = POLLS_MAX - len(self._under_way) - self._claiming
        ids = [name for name in expired if name not in self._under_way][: max(0, room)]
        if not ids:
            return
        self._claiming += len(ids)
        try:
            claimed = await in_time(store.claim_renewals(self._database, ids, AGAIN_SECONDS))
        finally:
            self._claiming -= len(ids)
        for name in claimed:
            task = asyncio.create_task(self._renew(expired[name]), name=name)
            self._under_way[name] = task
            task.add_done_callback(lambda done: self._under_way.pop(done.get_name(), None))

    async def _renew(self, job: Job) -> TaskResult | None:
        """Poll and store a changed result; None if it is unchanged. Raises only when cancelled."""
        old = job.result
        assert isinstance(old, Linked)
        new = await self._found(job, old)
        if new is None:
            return None
        try:
            await in_time(store.renew_result(self._database, job.id, new))
        except StoreError as error:
            self._log.warning("task_links_not_kept", task_id=job.id, error=str(error))
        return new

    async def _found(self, job: Job, old: Linked) -> TaskResult | None:
        until = self._clock.now() + LINK_SECONDS
        if isinstance(old, VideoResult) and old.url is None:  # our own link, which is extended
            return msgspec.structs.replace(old, expires_at=until)
        polled = await self._upstreams.poll(job)
        new = polled.result if isinstance(polled, Polled) else None
        if type(new) is not type(old) or not isinstance(new, Linked):
            return None
        if isinstance(new, VideoResult) and isinstance(old, VideoResult):
            new = msgspec.structs.replace(new, milliseconds=old.milliseconds)
        if new.expires_at is None:
            is_new = msgspec.structs.replace(new, expires_at=old.expires_at) != old
            return msgspec.structs.replace(new, expires_at=until) if is_new else None
        return new if new.expires_at > self._clock.now() else None


def _has_expired(job: Job, now: float) -> bool:
    result = job.result
    if result is None or isinstance(result, AvatarResult) or result.expires_at is None:
        return False
    return result.expires_at <= now


def _with(job: Job, result: TaskResult | None) -> Job:
    return job if result is None else replace(job, stored_result=msgspec.to_builtins(result))


# Videos that upstreams only return with the channel's key: opened here, and read by clients with a
# signed link of the gateway (contract for media §7, `openai`).
#
# As with polls, no slot is taken and the channel's health is not reported.


class ContentUnavailable(Exception):
    """The video cannot be read from any channel."""


class JobContent:
    """Opens videos. `seconds` is the timeout until an upstream's response begins."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        channels: Callable[[], Mapping[str, ChannelSpec]],
        seconds: float,
    ) -> None:
        self._http = http
        self._channels = channels
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"<JobContent {self._http!r}>"

    async def open(self, job: Job, headers: Sequence[tuple[str, str]]) -> UpstreamResponse:
        """Request a job's video with these headers; the caller closes the response.

        Raises ContentUnavailable, UpstreamError and TimeoutError.
        """
        channel = self._channels().get(job.channel_id or "")
        if channel is None or job.upstream_id is None or job.upstream_protocol is None:
            raise ContentUnavailable
        request = DIALECTS[channel.dialect_of(job.upstream_protocol)].content(job.upstream_id)
        if request is None:  # the channel's dialect was changed
            raise ContentUnavailable
        asked = addressed(channel, request)
        asked = structs.replace(asked, headers=(*asked.headers, *headers))
        async with asyncio.timeout(self._seconds):
            response = await self._http.open(asked)
        asked.took_status(response.status)
        return response
