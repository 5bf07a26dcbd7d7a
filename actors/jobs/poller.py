"""The actor of a process that polls jobs when they are due, whichever process submitted them.

Due jobs are leased in PostgreSQL for long enough to poll them once, a few at a time. A poll that
ends a job is settled at once; others are sent by message, and written together. The lease of a dead
process expires: then any process polls that job again, and a poll under a lost lease only counts if
it ends the job, which the ledger does once.

A channel whose upstream does not respond gets few polls at a time, so that it does not delay the
others; a process whose calls wait for its loop begins few polls.

While no job is leased, the poller sleeps until the earliest job is due, or until the database
notifies it of a new one.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, ClassVar, Protocol

from actors.actor import Actor
from actors.clock import Clock
from actors.jobs import store
from actors.jobs.ending import EndedJob, UpstreamJob
from actors.jobs.job import (
    End,
    Observation,
    Schedule,
    Step,
    TimedOut,
    Unreachable,
    observe,
    outcome_of,
)
from actors.jobs.store import Booked, Chance, Claimed
from actors.store.connection import StoreError
from actors.store.database import Database
from actors.wallet.messages import LedgerUnavailable
from channels.media.canonical import Polled, Trouble, Unusable
from channels.media.model import TASK_KINDS
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# How many polls a process may begin: all that are due, or few while its calls need it.
#
# Polls can wait and calls cannot. A process is busy when timers are late in its loop, or when its
# loop's thread works for a large part of the time, which polls alone never cause. Pure:
# measurements are arguments, in seconds.

# A loop with a larger average lag, or a larger share of work, is busy.
LATE_SECONDS = 0.003
WORKING_SHARE = 0.2
# Weight of one measurement in the averages; there are some tens a second.
WEIGHT = 0.1
# Limit for a busy process: some hundredths of what it can do.
BUSY_POLLS_PER_SECOND = 100.0
# Burst after a pause.
BUSY_POLLS_MAX = 25.0


class Pace:
    """Grants polls to one poller."""

    __slots__ = ("_granted_at", "_late", "_left", "_measured_at", "_share", "_worked")

    def __init__(self) -> None:
        self._late = 0.0
        self._share = 0.0
        self._worked = 0.0  # CPU time of the thread at that moment
        self._measured_at: float | None = None
        self._left = BUSY_POLLS_MAX
        self._granted_at: float | None = None

    def __repr__(self) -> str:
        state = "busy" if self.is_busy else "free"
        return f"<Pace {state} {self._late:.4f} s late, at work {self._share:.0%}>"

    @property
    def is_busy(self) -> bool:
        """Whether calls need this process."""
        return self._late > LATE_SECONDS or self._share > WORKING_SHARE

    def measured(self, *, late: float, worked: float, now: float) -> None:
        """Add a measurement: the lag of the loop, and the CPU time of its thread so far."""
        self._late += WEIGHT * (late - self._late)
        if self._measured_at is not None and now > self._measured_at:
            share = (worked - self._worked) / (now - self._measured_at)
            self._share += WEIGHT * (share - self._share)
        self._worked, self._measured_at = worked, now

    def grant(self, wanted: int, now: float) -> int:
        """Return how many of these polls may begin at `now` (monotonic seconds)."""
        if self._granted_at is not None:
            more = (now - self._granted_at) * BUSY_POLLS_PER_SECOND
            self._left = min(BUSY_POLLS_MAX, self._left + more)
        self._granted_at = now
        if not self.is_busy:
            return wanted
        return min(wanted, int(self._left))

    def began(self, count: int) -> None:
        """Count polls that were begun."""
        self._left = max(0.0, self._left - count)


# Interval of rounds; they start earlier when half of the polls are done.
TICK_SECONDS = 0.25
# Longest sleep while no job is due, in case a push was lost.
QUIET_SECONDS = 5.0
# Shortest interval: results of polls are written together, some tens at a time under load.
GATHER_SECONDS = 0.02
# Pause between attempts while the database is unreachable.
BACKOFF_SECONDS = 1.0
# A channel whose last poll took so long without a response gets an eighth of the polls.
SILENT_SECONDS = 1.0
SILENT_SHARE = 8
# Interval of the search for jobs of channels that were removed from the configuration.
GONE_SECONDS = 10.0
# Interval of counting open jobs, which reads all of `job_polls`.
COUNT_SECONDS = 15.0


class PollsJobs(Protocol):
    """Requests the state of a job at its upstream."""

    def channel_ids(self) -> Collection[str]: ...

    async def poll(self, job: UpstreamJob) -> Observation: ...


class Ends(Protocol):
    """Ends jobs (`ending.py`)."""

    async def end(self, job_id: str, end: End) -> EndedJob | None: ...


class Poller(Actor[Booked]):
    """Leases, polls and books, until it is stopped."""

    kind: ClassVar[str] = "poller"

    def __init__(
        self,
        *,
        name: str,
        database: Database,
        upstreams: PollsJobs,
        endings: Ends,
        schedule: Schedule,
        concurrency: int,
        lease_seconds: float,
        chance: Chance,
        clock: Clock,
        metrics: Metrics,
        changed: asyncio.Event,
        tick_seconds: float = TICK_SECONDS,
        quiet_seconds: float = QUIET_SECONDS,
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        """`name` is the process's, in leases. `changed` is set when a job was or may have been
        accepted in any process. `cpu_seconds` returns the CPU time of its thread.
        """
        super().__init__(clock=clock, metrics=metrics)
        self.log = EventLog("actors.jobs")
        self._leases = (f"{name}/{number}" for number in itertools.count(1))
        self._database = database
        self._upstreams = upstreams
        self._endings = endings
        self._schedule = schedule
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._chance = chance
        self._changed = changed
        self._tick_seconds = tick_seconds
        self._quiet_seconds = quiet_seconds
        self._quiet_until = float("-inf")  # no job is due before, unless something changes
        self._cpu_seconds = cpu_seconds
        self._pace = Pace()
        self._wake = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()  # polls and endings
        self._polls: Counter[str] = Counter()  # under way, by channel
        self._silent: set[str] = set()  # channels that do not respond
        self._finished = 0  # polls and endings since the last round
        self._unbooked: list[Booked] = []
        self._gone_at = self._count_at = float("-inf")

    def __repr__(self) -> str:
        return f"<Poller {len(self._under_way)}/{self._concurrency} under way {self._pace!r}>"

    async def run(self) -> None:
        """Work until cancelled; polls under way are dropped, and their leases expire."""
        try:
            while True:
                try:
                    await self._round()
                except StoreError as error:
                    self.log.warning("tasks_postponed", error=str(error))
                    await self.clock.sleep(BACKOFF_SECONDS)
                await self._until_next()
        finally:
            for task in self._under_way:
                task.cancel()

    async def _round(self) -> None:
        self._finished = 0
        self._wake.clear()
        self._changed.clear()
        self._quiet_until = float("-inf")
        if len(self.mailbox):
            self.handle_all(await self.mailbox.take_all())
        if self._unbooked:
            await store.book(self._database, self._unbooked)
            self._unbooked = []
        if await self._claim() == 0 and not (self._under_way or len(self.mailbox)):
            await self._look_ahead()
        now = self.clock.monotonic()
        if now - self._gone_at >= GONE_SECONDS:
            await self._claim_gone()
            self._gone_at = now
        if now - self._count_at >= COUNT_SECONDS:
            counts = await store.read_in_flight(self._database)
            self.metrics.tasks.in_flight({kind: counts.get(kind, 0) for kind in TASK_KINDS})
            self._count_at = now

    async def _until_next(self) -> None:
        """Wait for the next round; a late wake-up shows how busy the loop is."""
        due = self.clock.monotonic() + GATHER_SECONDS
        await self.clock.sleep(GATHER_SECONDS)
        now = self.clock.monotonic()
        self._pace.measured(late=now - due, worked=self._cpu_seconds(), now=now)
        await _set_within(self._wake, self._tick_seconds)
        quiet_seconds = self._quiet_until - self.clock.monotonic()
        if quiet_seconds > 0 and not self._wake.is_set():
            await _set_within(self._changed, quiet_seconds)

    # Leases

    async def _claim(self) -> int | None:
        """Lease due jobs and begin to poll them; return their number, None if none is granted."""
        free = self._concurrency - len(self._under_way)
        limit = self._pace.grant(free, self.clock.monotonic())
        if limit <= 0:
            return None
        shares = {name: self._share(name, limit) for name in self._upstreams.channel_ids()}
        shares = {name: share for name, share in shares.items() if share > 0}
        if not shares:
            return None
        claimed = await store.claim(
            self._database,
            shares=shares,
            limit=limit,
            lease=next(self._leases),
            lease_seconds=self._lease_seconds,
        )
        self._pace.began(len(claimed))
        self._start(claimed)
        return len(claimed)

    async def _look_ahead(self) -> None:
        """Find out until when no job is due on the channels here, in any process."""
        seconds = await store.read_quiet_seconds(
            self._database, self._upstreams.channel_ids(), tick_seconds=self._tick_seconds
        )
        quiet_seconds = self._quiet_seconds if seconds is None else seconds
        now = self.clock.monotonic()
        self._quiet_until = now + min(quiet_seconds, self._quiet_seconds)

    def _share(self, channel_id: str, limit: int) -> int:
        """Return how many more polls of a channel may be under way."""
        most = self._concurrency
        if channel_id in self._silent:
            most = max(1, most // SILENT_SHARE)
        return min(limit, most - self._polls[channel_id])

    async def _claim_gone(self) -> None:
        """End overdue jobs whose channels are no longer configured."""
        claimed = await store.claim_overdue_elsewhere(
            self._database,
            known=list(self._upstreams.channel_ids()),
            limit=self._concurrency,
            lease=next(self._leases),
            lease_seconds=self._lease_seconds,
        )
        self._start(claimed)

    def _start(self, claimed: list[Claimed]) -> None:
        for one in claimed:
            self._polls[one.channel_id] += 1
            task = asyncio.create_task(self._poll(one))
            self._under_way.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._finished += 1
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log.error("task_poll_broken", error=repr(error))
        if 2 * self._finished >= self._concurrency and not self._pace.is_busy:
            self._wake.set()

    # Polls

    async def _poll(self, claimed: Claimed) -> None:
        """Poll a job, and end it or book its next poll."""
        try:
            seen = await self._ask(claimed)
        finally:
            self._polls[claimed.channel_id] -= 1
        step = observe(claimed.kind, claimed.watch, seen, is_overdue=claimed.is_overdue)
        if step.logs is not None:
            failures = step.watch.failures
            self.log.warning(step.logs, **_of(claimed), failures=failures, reason=_reason(seen))
        if step.end is None:
            self.tell(self._booked(claimed, step))
            return
        try:
            await self._endings.end(claimed.job_id, step.end)
        except (StoreError, LedgerUnavailable) as error:
            # Its lease expires, and unless it has ended it is polled again.
            self.log.warning("tasks_postponed", error=str(error))

    async def _ask(self, claimed: Claimed) -> Observation:
        channel = claimed.channel_id
        if claimed.taken_from is not None:
            self.metrics.tasks.taken_over()
            self.log.info("task_taken_over", **_of(claimed), lease=claimed.taken_from)
        started = self.clock.monotonic()
        seen = await self._upstreams.poll(claimed)
        seconds = self.clock.monotonic() - started
        if isinstance(seen, TimedOut | Unreachable) and seconds >= SILENT_SECONDS:
            self._silent.add(channel)
        else:
            self._silent.discard(channel)
        outcome = outcome_of(seen)
        if outcome is not None:
            lag = claimed.lag_seconds + seconds
            self.metrics.tasks.polled(channel=channel, outcome=outcome, lag_seconds=lag)
        return seen

    def _booked(self, claimed: Claimed, step: Step) -> Booked:
        pause = self._schedule.pause_seconds(
            claimed.polls + 1, self._chance(), retry_after_seconds=step.retry_after_seconds
        )
        return Booked(claimed=claimed, watch=step.watch, pause_seconds=pause)

    def handle(self, message: Booked) -> None:
        """Queue the result of a poll that did not end its job, to be written in this round."""
        self._unbooked.append(message)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, or for so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass  # the next round begins


def _reason(seen: Observation) -> str:
    """Describe the result of a poll for the log."""
    if isinstance(seen, Polled):
        return seen.word
    if isinstance(seen, Trouble | Unusable | Unreachable):
        return seen.reason
    return outcome_of(seen) or "gone"


def _of(claimed: Claimed) -> dict[str, Any]:
    return {
        "task_id": claimed.job_id,
        "channel": claimed.channel_id,
        "model": claimed.model,
        "account": claimed.account_id,
    }
