"""Ends a job: works its settlement out, has the ledger apply it, and finds out who was first.

State, settlement or refund, release of the hold and row are one transaction of the ledger's; the
first one counts. Only the first caller counts, logs and asks the upstream to cancel.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from actors.clock import Clock
from actors.jobs import store
from actors.jobs.exchange import UpstreamJob
from actors.jobs.job import Job
from actors.jobs.settlement import ContentLink, settlement
from actors.jobs.states import End
from actors.wallet.jobs import EndState, JobEnd
from actors.wallet.ledger import Executor
from actors.wallet.messages import CallFacts, Outcome
from channels.families import UNIT_TYPES
from metrics.logs import EventLog
from metrics.prometheus import Metrics

EVENTS: Mapping[EndState, str] = {
    "succeeded": "task_settled",
    "failed": "task_failed",
    "expired": "task_expired",
    "cancelled": "task_cancelled",
}


class Settles(Protocol):
    """Has a settlement applied, and returns when it is: the ledger writer's, or a command's own."""

    async def __call__(self, facts: CallFacts, outcome: Outcome, job_end: JobEnd) -> None: ...


class CancelsJobs(Protocol):
    """Asks the upstream of a job to give it up; whether it did so."""

    async def cancel(self, job: UpstreamJob) -> bool: ...


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that was ended here: as it was before, what was held for it, and what it cost."""

    job: Job
    state: EndState
    held_nano_usd: int
    cost_nano_usd: int


class Endings:
    """Ends jobs. One per process; holds no state of its own."""

    def __init__(
        self,
        *,
        database: Executor,
        settle: Settles,
        upstreams: CancelsJobs,
        redact: Callable[[str], str],
        content_link: ContentLink,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._settle = settle
        self._upstreams = upstreams
        self._redact = redact
        self._content_link = content_link
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("actors.jobs")

    async def end(self, job_id: str, end: End) -> EndedJob | None:
        """End an open job; None when it has ended by then, or when another was quicker.

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
        )
        await self._settle(open_job.facts, outcome, job_end)
        found = await store.read_end(self._database, job_id)
        if found is None or found[0] != by:
            return None
        job = open_job.job
        self._report(job, outcome, job_end)
        if end.asks_to_cancel:
            await self._upstreams.cancel(job)
        return EndedJob(job, job_end.state, open_job.amount_nano_usd, outcome.cost_nano_usd)

    def _report(self, job: Job, outcome: Outcome, job_end: JobEnd) -> None:
        seconds = outcome.latency_ms / 1000
        self._metrics.tasks.ended(kind=job.kind, state=job_end.state, seconds=seconds)
        if outcome.cost_nano_usd:
            self._metrics.cost(model=job.model, nano_usd=outcome.cost_nano_usd)
        if outcome.units:
            unit = UNIT_TYPES[job.protocol]
            self._metrics.units(model=job.model, unit=unit, count=outcome.units)
        self._log.info(
            EVENTS[job_end.state],
            task_id=job.id,
            channel=job.channel_id,
            model=job.model,
            account=job.account_id,
            code=outcome.error_code,
            seconds=round(seconds, 3),
        )
