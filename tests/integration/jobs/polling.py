"""Jobs on a real database, and pollers of several processes that ask upstreams by script."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.ending import Endings
from actors.jobs.job import Job
from actors.jobs.poller import Poller
from actors.jobs.schedule import Schedule
from actors.store.database import Database
from actors.wallet.messages import CallFacts, JobEnd, Outcome
from metrics.prometheus import Metrics
from tests.integration.actors.process import Process
from tests.integration.actors.process import process as gateway_process
from tests.support.jobs import CHANNEL, acceptance, new_job
from tests.support.upstreams import ScriptedUpstreams

# Polled again at once; a day, where a test asks for the next poll itself.
EAGER = Schedule(first_seconds=0.02, factor=1.0, max_seconds=0.02)
NEVER = Schedule(first_seconds=86_400.0, factor=1.0, max_seconds=86_400.0)
_numbers = itertools.count(1)


class Watched:
    """A process with its poller, and its verbs."""

    def __init__(
        self, process: Process, upstreams: ScriptedUpstreams, schedule: Schedule, **how: Any
    ) -> None:
        self.process = process
        self.database = process.database
        self.upstreams = upstreams
        self.schedule = schedule
        self.metrics = Metrics()
        endings = Endings(
            database=process.database,
            settle=self._settle,
            upstreams=upstreams,
            redact=str,
            content_link=lambda job, _: f"https://gateway.example/{job.id}",
            upstream_cost=lambda *_: None,
            clock=SystemClock(),
            metrics=self.metrics,
        )
        usual = {"concurrency": 8, "claim_seconds": 15.0, "endings": endings, "tick_seconds": 0.02}
        usual["quiet_seconds"] = 0.02  # unless a test is about it
        self.endings = endings
        self.changed = asyncio.Event()
        self.poller = Poller(
            name=process.identity.id,
            database=process.database,
            upstreams=upstreams,
            schedule=schedule,
            chance=lambda: 0.5,
            clock=SystemClock(),
            metrics=self.metrics,
            changed=self.changed,
            **{**usual, **how},
        )

    async def submit(
        self,
        *,
        amount: int = 1_000_000_000,
        channel: str = CHANNEL,
        submitted_at: float | None = None,
        **message: Any,
    ) -> Job:
        """A job that an upstream has accepted, under its own number."""
        number = next(_numbers)
        job_id = f"vid_{number:032x}"
        facts = await self.process.hold(
            amount, job_id=job_id, job=new_job(**message), submitted_at=submitted_at
        )
        pause = self.schedule.pause_seconds(0, 0.5)
        accepted = acceptance(f"up_{number}", channel_id=channel)
        assert await store.accept(self.database, facts, accepted, pause_seconds=pause)
        return await self.read(job_id)

    async def read(self, job_id: str) -> Job:
        found = await store.read(self.database, job_id, account_id=None)
        assert found is not None
        return found

    async def until(self, job: Job, is_so: Callable[[Job], bool]) -> Job:
        """Wait until a job is as it should be."""
        while not is_so(found := await self.read(job.id)):
            await asyncio.sleep(0.01)
        return found

    async def ended(self, job: Job) -> Job:
        return await self.until(job, lambda one: one.has_ended)

    @asynccontextmanager
    async def polling(self) -> AsyncIterator[Watched]:
        """Its poller runs."""
        task = asyncio.create_task(self.poller.run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _settle(self, facts: CallFacts, outcome: Outcome, job_end: JobEnd) -> None:
        self.process.wallets.settle(facts, outcome, job_end=job_end)
        await self.process.wallets.settled(facts.account_id)


@asynccontextmanager
async def watched(
    url: str,
    upstreams: ScriptedUpstreams | None = None,
    *,
    name: str = "proc_a",
    schedule: Schedule = EAGER,
    **how: Any,
) -> AsyncIterator[Watched]:
    """A process on the database, whose poller does not run yet."""
    async with gateway_process(url, name) as process:
        yield Watched(process, upstreams or ScriptedUpstreams(), schedule, **how)


async def is_due(database: Database, *jobs: Job) -> None:
    """These jobs are to be polled now, whoever has claimed them."""
    ids = [job.id for job in jobs]
    await database.execute("UPDATE job_polls SET due_at = now() WHERE job_id = ANY (%s)", (ids,))
