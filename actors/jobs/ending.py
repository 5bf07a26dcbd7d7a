"""Ends a job: computes its settlement, has the ledger apply it, and detects which was first.

State, settlement or refund, release of the hold and row are one transaction of the ledger; the
first one counts. Only the first process counts, logs and sends a cancellation to the upstream.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from actors.clock import Clock
from actors.jobs import settlement, store
from actors.jobs.job import Job
from actors.jobs.state_machine import End
from actors.jobs.upstreams import UpstreamJob
from actors.store.connection import Executor
from actors.wallet import messages
from channels.families import UNIT_TYPES
from metrics.logs import EventLog
from metrics.prometheus import Metrics

EVENTS: Mapping[messages.EndState, str] = {
    "succeeded": "task_settled",
    "failed": "task_failed",
    "expired": "task_expired",
    "cancelled": "task_cancelled",
}


class Settles(Protocol):
    """Applies a settlement durably: by `Wallets.settle_job`, or by a command."""

    async def __call__(
        self, facts: messages.CallFacts, outcome: messages.Outcome, job_end: messages.JobEnd
    ) -> None: ...


class CancelsJobs(Protocol):
    """Cancels a job at its upstream; returns whether it was cancelled."""

    async def cancel(self, job: UpstreamJob) -> bool: ...


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that was ended here: its state before, its hold, and its cost."""

    job: Job
    state: messages.EndState
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
        content_link: settlement.ContentLink,
        upstream_cost: settlement.UpstreamCost,
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
        outcome, job_end = settlement.settlement_of(
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
        if settlement.is_doubted(open_job, end):
            self._metrics.tasks.length_doubted(job.channel_id or "")
            self._log.warning("task_length_doubted", **_of(job), milliseconds=end.seconds_ms)
        if end.asks_to_cancel:
            await self._upstreams.cancel(job)
        return EndedJob(job, job_end.state, open_job.amount_nano_usd, outcome.cost_nano_usd)

    def _report(self, job: Job, outcome: messages.Outcome, job_end: messages.JobEnd) -> None:
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
