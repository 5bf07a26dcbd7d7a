"""Renews expired links of results: the upstream's task is polled once more.

A request for a job with expired links starts the poll: at most one a minute for each job over all
processes, and a request waits for it for `WAIT_SECONDS` at most. Links that arrive later are
stored, for the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from actors.clock import Clock
from actors.jobs import store
from actors.jobs.job import Job
from actors.jobs.settlement import LINK_SECONDS
from actors.jobs.state_machine import Observation
from actors.jobs.upstreams import UpstreamJob
from actors.store.connection import Executor
from actors.store.errors import StoreError
from actors.store.waits import in_time
from channels.media import replies, results
from metrics.logs import EventLog

# How long a request for a job waits for its links (reference 7.11).
WAIT_SECONDS = 2.0
# Minimum time between two polls of one job.
AGAIN_SECONDS = 60.0
# Limit of polls under way in a process; further jobs keep their old links for now.
POLLS_MAX = 256

Linked = results.VideoResult | results.MusicResult | results.SpeechResult


class Polls(Protocol):
    """Requests the state of a job at its upstream."""

    async def poll(self, job: UpstreamJob) -> Observation: ...


class LinkRenewal:
    """Renews links. One per process."""

    def __init__(self, *, database: Executor, upstreams: Polls, clock: Clock) -> None:
        self._database = database
        self._upstreams = upstreams
        self._clock = clock
        self._under_way: dict[str, asyncio.Task[results.TaskResult | None]] = {}
        self._claiming = 0  # jobs being claimed for a poll
        self._log = EventLog("actors.jobs")

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

    async def _renew(self, job: Job) -> results.TaskResult | None:
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

    async def _found(self, job: Job, old: Linked) -> results.TaskResult | None:
        until = self._clock.now() + LINK_SECONDS
        if (
            isinstance(old, results.VideoResult) and old.url is None
        ):  # our own link, which is extended
            return msgspec.structs.replace(old, expires_at=until)
        polled = await self._upstreams.poll(job)
        new = polled.result if isinstance(polled, replies.Polled) else None
        if type(new) is not type(old) or not isinstance(new, Linked):
            return None
        if isinstance(new, results.VideoResult) and isinstance(old, results.VideoResult):
            new = msgspec.structs.replace(new, milliseconds=old.milliseconds)
        if new.expires_at is None:
            is_new = msgspec.structs.replace(new, expires_at=old.expires_at) != old
            return msgspec.structs.replace(new, expires_at=until) if is_new else None
        return new if new.expires_at > self._clock.now() else None


def _has_expired(job: Job, now: float) -> bool:
    result = job.result
    if result is None or isinstance(result, results.AvatarResult) or result.expires_at is None:
        return False
    return result.expires_at <= now


def _with(job: Job, result: results.TaskResult | None) -> Job:
    return job if result is None else replace(job, stored_result=msgspec.to_builtins(result))
