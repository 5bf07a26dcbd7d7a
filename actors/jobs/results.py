"""New links for results whose links have expired: the upstream's task is polled once more.

A request that shows a job whose links have expired begins the poll: at most one a minute for each
job, of all processes, and a request waits for it for `WAIT_SECONDS` at most. Links that arrive
later are stored, for the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec
from msgspec import structs

from actors.clock import Clock
from actors.jobs import store
from actors.jobs.ending import LINK_SECONDS, UpstreamJob
from actors.jobs.job import Job, Observation
from actors.store.connection import StoreUnavailable, in_time
from actors.wallet.batch import Executor
from channels.http.interfaces import UpstreamResponse, Wire
from channels.media.dialects import DIALECTS
from channels.media.replies import (
    AvatarResult,
    MusicResult,
    Polled,
    SpeechResult,
    TaskResult,
    VideoResult,
)
from channels.media.send import addressed
from channels.registry import ChannelSpec
from metrics.logs import EventLog

# How long a request that shows a job waits for its links (contract for media §5).
WAIT_SECONDS = 2.0
# Between two polls of one job.
AGAIN_SECONDS = 60.0
# Polls under way in a process; jobs beyond that keep their old links for now.
POLLS_MAX = 256

Linked = VideoResult | MusicResult | SpeechResult


class Polls(Protocol):
    """Asks the upstream of a job for its state."""

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
        """The same jobs, with links that are good as far as they could be had in time.

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
        """Ask, and keep what is new; None where nothing is. Never raises, but when cancelled."""
        old = job.result
        assert isinstance(old, Linked)
        new = await self._found(job, old)
        if new is None:
            return None
        try:
            await in_time(store.renew_result(self._database, job.id, new))
        except StoreUnavailable as error:
            self._log.warning("task_links_not_kept", task_id=job.id, error=str(error))
        return new

    async def _found(self, job: Job, old: Linked) -> TaskResult | None:
        until = self._clock.now() + LINK_SECONDS
        if isinstance(old, VideoResult) and old.url is None:  # ours, and good for another while
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


# The films that their upstreams give to the channel's key alone: opened here, read by the client
# that has a signed link of the gateway's (contract for media §7, `openai`).
#
# As with polls, no slot is taken and the channel's health is not reported.


class ContentUnavailable(Exception):
    """There is no channel that the film could be read from."""


class JobContent:
    """Opens films. `seconds` is how long an upstream may take to begin."""

    def __init__(
        self, *, wire: Wire, channels: Callable[[], Mapping[str, ChannelSpec]], seconds: float
    ) -> None:
        self._wire = wire
        self._channels = channels
        self._seconds = seconds

    def __repr__(self) -> str:
        return f"<JobContent {self._wire!r}>"

    async def open(self, job: Job, headers: Sequence[tuple[str, str]]) -> UpstreamResponse:
        """Request a job's film with these headers; the caller closes the response.

        Raises ContentUnavailable, UpstreamError and TimeoutError.
        """
        channel = self._channels().get(job.channel_id or "")
        if channel is None or job.upstream_id is None or job.wire is None:
            raise ContentUnavailable
        request = DIALECTS[channel.dialect_of(job.wire)].content(job.upstream_id)
        if request is None:  # the channel has another dialect by now
            raise ContentUnavailable
        asked = addressed(channel, request)
        asked = structs.replace(asked, headers=(*asked.headers, *headers))
        async with asyncio.timeout(self._seconds):
            response = await self._wire.open(asked)
        asked.took_status(response.status)
        return response
