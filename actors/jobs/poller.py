"""The actor of a process that polls jobs when they are due, whichever process submitted them.

Due jobs are claimed in PostgreSQL for long enough to poll them once, a few at a time. A poll that
ends a job is settled at once; others are sent by message, and written together. The claim of a dead
process expires: then any process polls that job again, and a poll under a lost claim only counts if
it ends the job, which the ledger does once.

A channel whose upstream does not respond gets few polls at a time, so that it does not delay the
others; a process whose calls wait for its loop begins few polls.

While no job is claimed, the poller sleeps until the earliest job is due, or until the database
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
from actors.jobs import state_machine, store
from actors.jobs.ending import Endings
from actors.jobs.pace import Pace
from actors.jobs.schedule import Schedule
from actors.jobs.service import Chance
from actors.jobs.store import Booked, Claimed
from actors.jobs.upstreams import UpstreamJob
from actors.store.database import Database
from actors.store.errors import ContentRefused, StoreError
from actors.wallet.messages import LedgerUnavailable
from channels.media.model import TASK_KINDS
from channels.media.replies import Polled, Trouble, Unusable
from metrics.logs import EventLog
from metrics.prometheus import Metrics

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

    async def poll(self, job: UpstreamJob) -> state_machine.Observation: ...


class PollsUnderWay:
    """The polls and endings under way, and how many more each channel may have."""

    __slots__ = ("_finished", "_of_channel", "_silent", "_tasks", "concurrency")

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self._tasks: set[asyncio.Task[None]] = set()
        self._of_channel: Counter[str] = Counter()
        self._silent: set[str] = set()  # channels that do not respond
        self._finished = 0  # since the last round

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def free(self) -> int:
        """How many more may be under way."""
        return self.concurrency - len(self._tasks)

    @property
    def is_half_done(self) -> bool:
        """Whether as many have finished since the last round as half of those that may run."""
        return 2 * self._finished >= self.concurrency

    def begin_round(self) -> None:
        """Count those that finish from here on."""
        self._finished = 0

    def shares(self, channel_ids: Collection[str], limit: int) -> dict[str, int]:
        """Return how many more polls of each channel may begin; without channels that have none."""
        shares = {name: min(limit, self._most(name)) for name in channel_ids}
        return {name: share for name, share in shares.items() if share > 0}

    def is_silent(self, channel_id: str) -> bool:
        """Whether the channel gets few polls."""
        return channel_id in self._silent

    def responded(self, channel_id: str, *, is_silent: bool) -> None:
        """Note whether the last poll of a channel took long and got no response."""
        if is_silent:
            self._silent.add(channel_id)
        else:
            self._silent.discard(channel_id)

    def add(self, channel_id: str, task: asyncio.Task[None]) -> None:
        """Add a task that polls a job of the channel, and may end it."""
        self._of_channel[channel_id] += 1
        self._tasks.add(task)

    def polled(self, channel_id: str) -> None:
        """Give the poll back to its channel; the ending of its job may follow."""
        self._of_channel[channel_id] -= 1

    def finished(self, task: asyncio.Task[None]) -> None:
        """Remove a task that is done."""
        self._tasks.discard(task)
        self._finished += 1

    def cancel(self) -> None:
        """Drop all of them; their claims expire."""
        for task in self._tasks:
            task.cancel()

    def _most(self, channel_id: str) -> int:
        most = self.concurrency
        if self.is_silent(channel_id):
            most = max(1, most // SILENT_SHARE)
        return most - self._of_channel[channel_id]


class Rounds:
    """When the next round of a poller begins, and how many polls it may begin (`pace`)."""

    __slots__ = (
        "_changed",
        "_clock",
        "_cpu_seconds",
        "_quiet_seconds",
        "_quiet_until",
        "_wake",
        "pace",
        "tick_seconds",
    )

    def __init__(
        self,
        clock: Clock,
        changed: asyncio.Event,
        *,
        tick_seconds: float,
        quiet_seconds: float,
        cpu_seconds: Callable[[], float],
    ) -> None:
        self.pace = Pace()
        self.tick_seconds = tick_seconds
        self._quiet_seconds = quiet_seconds
        self._quiet_until = float("-inf")  # no job is due before, unless something changes
        self._clock = clock
        self._changed = changed
        self._wake = asyncio.Event()
        self._cpu_seconds = cpu_seconds

    def begin(self) -> None:
        """Begin a round: what was reported before has an effect in it."""
        self._wake.clear()
        self._changed.clear()
        self._quiet_until = float("-inf")

    def be_quiet(self, seconds: float | None) -> None:
        """Sleep for so long after this round, unless something changes; None: no job is known."""
        seconds = self._quiet_seconds if seconds is None else seconds
        self._quiet_until = self._clock.monotonic() + min(seconds, self._quiet_seconds)

    def wake(self) -> None:
        """Begin the next round early."""
        self._wake.set()

    async def until_next(self) -> None:
        """Wait for the next round; a late wake-up shows how busy the loop is."""
        due = self._clock.monotonic() + GATHER_SECONDS
        await self._clock.sleep(GATHER_SECONDS)
        now = self._clock.monotonic()
        self.pace.measured(late=now - due, worked=self._cpu_seconds(), now=now)
        await _set_within(self._wake, self.tick_seconds)
        quiet_seconds = self._quiet_until - self._clock.monotonic()
        if quiet_seconds > 0 and not self._wake.is_set():
            await _set_within(self._changed, quiet_seconds)


class JobClaims:
    """Claims due jobs for one process, each time under a name of its own."""

    __slots__ = ("_database", "_names", "_seconds")

    def __init__(self, database: Database, *, name: str, seconds: float) -> None:
        self._database = database
        self._names = (f"{name}/{number}" for number in itertools.count(1))
        self._seconds = seconds

    async def claim(self, shares: dict[str, int], limit: int) -> list[Claimed]:
        """Claim due jobs: of each channel at most its share."""
        return await store.claim(
            self._database,
            shares=shares,
            limit=limit,
            claim_id=next(self._names),
            claim_seconds=self._seconds,
        )

    async def claim_overdue_elsewhere(self, known: Collection[str], limit: int) -> list[Claimed]:
        """Claim overdue jobs of channels that are not among the known ones."""
        return await store.claim_overdue_elsewhere(
            self._database,
            known=list(known),
            limit=limit,
            claim_id=next(self._names),
            claim_seconds=self._seconds,
        )


class Poller(Actor[Booked]):
    """Claims, polls and books, until it is stopped."""

    kind: ClassVar[str] = "poller"

    def __init__(
        self,
        *,
        name: str,
        database: Database,
        upstreams: PollsJobs,
        endings: Endings,
        schedule: Schedule,
        concurrency: int,
        claim_seconds: float,
        chance: Chance,
        clock: Clock,
        metrics: Metrics,
        changed: asyncio.Event,
        tick_seconds: float = TICK_SECONDS,
        quiet_seconds: float = QUIET_SECONDS,
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        """`name` is the process's, in claims. `changed` is set when a job was or may have been
        accepted in any process. `cpu_seconds` returns the CPU time of its thread.
        """
        super().__init__(clock=clock, metrics=metrics)
        self.log = EventLog("actors.jobs")
        self._database = database
        self._upstreams = upstreams
        self._endings = endings
        self._schedule = schedule
        self._chance = chance
        self._claims = JobClaims(database, name=name, seconds=claim_seconds)
        self._polls = PollsUnderWay(concurrency)
        self._rounds = Rounds(
            clock,
            changed,
            tick_seconds=tick_seconds,
            quiet_seconds=quiet_seconds,
            cpu_seconds=cpu_seconds,
        )
        self._unbooked: list[Booked] = []
        self._gone_at = self._count_at = float("-inf")

    def __repr__(self) -> str:
        polls = self._polls
        return f"<Poller {len(polls)}/{polls.concurrency} under way {self._rounds.pace!r}>"

    async def run(self) -> None:
        """Work until cancelled; polls under way are dropped, and their claims expire."""
        try:
            while True:
                try:
                    await self._round()
                except StoreError as error:
                    self.log.warning("tasks_postponed", error=str(error))
                    await self.clock.sleep(BACKOFF_SECONDS)
                await self._rounds.until_next()
        finally:
            self._polls.cancel()

    async def _round(self) -> None:
        self._polls.begin_round()
        self._rounds.begin()
        if len(self.mailbox):
            self.handle_all(await self.mailbox.take_all())
        if self._unbooked:
            await self._book()
        if await self._claim() == 0 and not (len(self._polls) or len(self.mailbox)):
            await self._look_ahead()
        now = self.clock.monotonic()
        if now - self._gone_at >= GONE_SECONDS:
            await self._claim_gone()
            self._gone_at = now
        if now - self._count_at >= COUNT_SECONDS:
            counts = await store.read_in_flight(self._database)
            self.metrics.tasks.in_flight({kind: counts.get(kind, 0) for kind in TASK_KINDS})
            self._count_at = now

    async def _book(self) -> None:
        """Write the results of polls; one that the database refuses must not stop the others."""
        try:
            await store.book(self._database, self._unbooked)
        except ContentRefused:
            for one in self._unbooked:
                try:
                    await store.book(self._database, [one])
                except ContentRefused as error:  # its claim expires, and it is polled again
                    self.log.error("task_poll_refused", **_of(one.claimed), error=str(error))
        self._unbooked = []

    # Claims

    async def _claim(self) -> int | None:
        """Claim due jobs and begin to poll them; return their number, None if none is granted."""
        pace, polls = self._rounds.pace, self._polls
        limit = pace.grant(polls.free, self.clock.monotonic())
        if limit <= 0:
            return None
        shares = polls.shares(self._upstreams.channel_ids(), limit)
        if not shares:
            return None
        claimed = await self._claims.claim(shares, limit)
        pace.began(len(claimed))
        self._start(claimed)
        return len(claimed)

    async def _look_ahead(self) -> None:
        """Find out until when no job is due on the channels here, in any process."""
        seconds = await store.read_quiet_seconds(
            self._database,
            self._upstreams.channel_ids(),
            tick_seconds=self._rounds.tick_seconds,
        )
        self._rounds.be_quiet(seconds)

    async def _claim_gone(self) -> None:
        """End overdue jobs whose channels are no longer configured."""
        known, limit = self._upstreams.channel_ids(), self._polls.concurrency
        self._start(await self._claims.claim_overdue_elsewhere(known, limit))

    def _start(self, claimed: list[Claimed]) -> None:
        for one in claimed:
            task = asyncio.create_task(self._poll(one))
            self._polls.add(one.channel_id, task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._polls.finished(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log.error("task_poll_broken", error=repr(error))
        if self._polls.is_half_done and not self._rounds.pace.is_busy:
            self._rounds.wake()

    # Polls

    async def _poll(self, claimed: Claimed) -> None:
        """Poll a job, and end it or book its next poll."""
        try:
            seen = await self._ask(claimed)
        finally:
            self._polls.polled(claimed.channel_id)
        step = state_machine.observe(
            claimed.kind, claimed.watch, seen, is_overdue=claimed.is_overdue
        )
        if step.logs is not None:
            failures = step.watch.failures
            self.log.warning(step.logs, **_of(claimed), failures=failures, reason=_reason(seen))
        if step.end is None:
            self.tell(self._booked(claimed, step))
            return
        try:
            await self._endings.end(claimed.job_id, step.end)
        except (StoreError, LedgerUnavailable) as error:
            # Its claim expires, and unless it has ended it is polled again.
            self.log.warning("tasks_postponed", error=str(error))

    async def _ask(self, claimed: Claimed) -> state_machine.Observation:
        channel = claimed.channel_id
        if claimed.taken_from is not None:
            self.metrics.tasks.taken_over()
            self.log.info("task_taken_over", **_of(claimed), claim=claimed.taken_from)
        started = self.clock.monotonic()
        seen = await self._upstreams.poll(claimed)
        seconds = self.clock.monotonic() - started
        is_silent = (
            isinstance(seen, state_machine.TimedOut | state_machine.Unreachable)
            and seconds >= SILENT_SECONDS
        )
        self._polls.responded(channel, is_silent=is_silent)
        outcome = state_machine.outcome_of(seen)
        if outcome is not None:
            lag = claimed.lag_seconds + seconds
            self.metrics.tasks.polled(channel=channel, outcome=outcome, lag_seconds=lag)
        return seen

    def _booked(self, claimed: Claimed, step: state_machine.Step) -> Booked:
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


def _reason(seen: state_machine.Observation) -> str:
    """Describe the result of a poll for the log."""
    if isinstance(seen, Polled):
        return seen.word
    if isinstance(seen, Trouble | Unusable | state_machine.Unreachable):
        return seen.reason
    return state_machine.outcome_of(seen) or "gone"


def _of(claimed: Claimed) -> dict[str, Any]:
    return {
        "task_id": claimed.job_id,
        "channel": claimed.channel_id,
        "model": claimed.model,
        "account": claimed.account_id,
    }
