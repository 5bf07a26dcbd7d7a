"""Background work of a process: loop lag, memory, partitions, the drain, reloads, changes."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from actors.actor import Supervisor
from actors.clock import Clock
from actors.limits.accounts import Limiter
from actors.limits.shared import SharedLimits
from actors.parent import ParentBackend, ParentLink
from actors.partitions import Partitions
from actors.recovery import Heartbeat
from actors.store.connection import StoreUnavailable
from actors.store.database import Database
from actors.wallet.writer import LedgerWriter
from gw.config.config import Config, LiveConfig
from gw.http.application import DelayWatch, Overload, RequestsInFlight
from gw.http.connection import DRAIN_GRACE_SECONDS
from gw.http.server import Server
from gw.keys.cache import KeyCache, LastUse
from metrics.families import DatabaseMetrics
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from metrics.version import release

# Measures how late the event loop is: what a callback that is due has to wait.
#
# A late loop delays every call of the process at once, and shows it before anything else does.
# This measures and reports; it does not find the culprit.

INTERVAL_SECONDS = 0.2
# Half a second is felt in every stream at once, and is no accident of a busy machine any more.
WARN_SECONDS = 0.5
# Under steady overload a line each time would be noise.
LAG_QUIET_SECONDS = 10.0


class LoopClock(Protocol):
    """The two things it needs of a clock."""

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class LoopLag:
    """Measures how late a sleeping task wakes up."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        clock: LoopClock,
        interval_seconds: float = INTERVAL_SECONDS,
        warn_seconds: float = WARN_SECONDS,
        quiet_seconds: float = LAG_QUIET_SECONDS,
        log: EventLog | None = None,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._warn_seconds = warn_seconds
        self._quiet_seconds = quiet_seconds
        self._log = log or EventLog("gw.runtime")
        self._silent_until = float("-inf")
        # Since the last line.
        self._late = 0
        self._worst_seconds = 0.0

    def __repr__(self) -> str:
        return f"<LoopLag {self._late} unreported, worst {self._worst_seconds:.3f} s>"

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = self._clock.monotonic() + self._interval_seconds
            await self._clock.sleep(self._interval_seconds)
            now = self._clock.monotonic()
            self.measured(max(0.0, now - due), now=now)

    def measured(self, lag_seconds: float, *, now: float) -> None:
        """Take one measurement in; log a warning unless the last one was a moment ago."""
        self._metrics.loop_lag(lag_seconds)
        if lag_seconds >= self._warn_seconds:
            self._late += 1
            self._worst_seconds = max(self._worst_seconds, lag_seconds)
        if self._late and now >= self._silent_until:
            self._log.warning(
                "loop_lagged", worst_seconds=round(self._worst_seconds, 3), times=self._late
            )
            self._silent_until = now + self._quiet_seconds
            self._late = 0
            self._worst_seconds = 0.0


# Keeps the memory of request bodies at hand within a bound, and gives it back in quiet times.
#
# A body of a megabyte passes through several buffers of its size. By default, glibc takes each from
# the system and returns it: the system clears its pages every time, which costs as much as reading
# what is in them. What is freed between pages that are still used stays with the process in any
# case, until it is asked for. Other C libraries are left as they are.

# Of <malloc.h>.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3

# So much free memory at the end of the heap is kept.
KEPT_BYTES = 8 * 1024 * 1024
# A buffer of this size or more is taken from the system for itself, and returned at once.
LARGE_BYTES = 4 * 1024 * 1024
# Giving back takes some milliseconds, in which no call is to wait: not before so long a silence.
QUIET_SECONDS = 15.0
# After so many of them memory is given back: at first, and once every connection that was kept has
# expired, those of clients last (75 s).
QUIET_TIMES = (1, 6)


def keep_buffers() -> bool:
    """For the whole process; before the first request.

    False where the C library has no such setting.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(
        set_option(option, size) == 1
        for option, size in ((_MMAP_THRESHOLD, LARGE_BYTES), (_TRIM_THRESHOLD, KEPT_BYTES))
    )


def give_back() -> None:
    """Free what refers to itself, and return every free page to the system, where that can be.

    The collector also empties the interpreter's free lists, of which every small object keeps a
    page from being free.
    """
    gc.collect()
    with suppress(AttributeError, OSError):  # another C library has its own way
        ctypes.CDLL(None).malloc_trim(0)


class Requests(Protocol):
    """Those in flight, and how many there have been."""

    @property
    def entered(self) -> int: ...

    def __len__(self) -> int: ...


class Sleeper(Protocol):
    """The clock as used here."""

    async def sleep(self, seconds: float) -> None: ...


class IdleTrimmer:
    """Returns memory to the system after a while without requests, and again after longer."""

    def __init__(
        self, requests: Requests, clock: Sleeper, *, give_back: Callable[[], None] = give_back
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._give_back = give_back

    def __repr__(self) -> str:
        return f"<IdleTrimmer of {self._requests!r}>"

    async def run(self) -> None:
        """Look until cancelled."""
        seen = 0  # of the requests that have entered
        quiet = 0  # looks in a row that found nothing new and no call waiting
        while True:
            await self._clock.sleep(QUIET_SECONDS)
            entered = self._requests.entered
            quiet = quiet + 1 if entered == seen and len(self._requests) == 0 else 0
            seen = entered
            if entered and quiet in QUIET_TIMES:
                self._give_back()


async def start_partitions(
    supervisor: Supervisor, database: Database, current: LiveConfig, clock: Clock, metrics: Metrics
) -> None:
    """Create the partitions needed now, and let later ones be created and old ones dropped."""
    partitions = Partitions(
        database=database,
        retention_months=lambda: current.config.retention_months,
        ledger_retention_months=lambda: current.config.ledger_retention_months,
        clock=clock,
        metrics=metrics,
    )
    await partitions.make()
    supervisor.start("partitions", partitions.run)


def start_watches(
    supervisor: Supervisor,
    *,
    overload: Overload,
    writer: LedgerWriter,
    in_flight: RequestsInFlight,
    clock: Clock,
    metrics: Metrics,
) -> None:
    """Start each of them, and log which version runs."""
    metrics.release(release())
    lag = LoopLag(metrics=metrics, clock=clock)
    supervisor.start("loop_lag", lag.run)
    watch = DelayWatch(
        overload, ledger_seconds=lambda: writer.backlog_seconds, clock=clock, metrics=metrics
    )
    supervisor.start("overload", watch.run)
    quiet = IdleTrimmer(in_flight, clock)
    supervisor.start("quiet_times", quiet.run)


# The drain of a gateway on SIGTERM.
#
# The steps and their reasons are `ops/decisions/draining.md`; who is in flight is
# `gw/http/application.py`, connections are the listener's business. Closing what was opened is
# `serve.py`'s.

# For this share of the drain a client that could not know is still served when its stream ends: its
# next one has at least twice as long as the one before took of the drain.
DRAIN_GRACE_SHARE = 1 / 3
# How long a stopping gateway waits for a database that is away before it leaves the rest of the
# settlements to recovery.
FLUSH_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """The objects that take part in the drain."""

    in_flight: RequestsInFlight
    public: Server
    writer: LedgerWriter
    heartbeat: Heartbeat
    last_use: LastUse
    supervisor: Supervisor
    clock: Clock

    async def drain(self, seconds: float) -> bool:
        """Stop accepting, finish what is in flight, settle; at most `seconds` for the calls.

        False when a hold may still be open, which is left to recovery.
        """
        log = EventLog("gw.serve")
        deadline = self.clock.monotonic() + seconds
        self.in_flight.begin_drain()
        log.info("drain_began", in_flight=len(self.in_flight))
        await self.public.stop_accepting()
        # Each open connection without a `Connection: close` may send one more request.
        await self.public.wait_for_clients(seconds * DRAIN_GRACE_SHARE)
        self.in_flight.refuse_new()
        log.info("last_calls_ended", in_flight=len(self.in_flight))
        left = max(0.0, deadline - self.clock.monotonic())
        cut = await self.in_flight.drain(seconds=left, clock=self.clock)
        if cut:
            log.warning("calls_cut", count=cut)
        is_settled = await self._flush(log)
        # A client whose response has just ended may send another request, which is refused.
        await self.public.wait_for_clients(min(DRAIN_GRACE_SECONDS, seconds / 2))
        return is_settled

    async def _flush(self, log: EventLog) -> bool:
        """Wait until every settlement is durable; an absent database gets its ten seconds.

        True when no hold of this process is open then, by the database's count, not ours.
        """
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self.supervisor.stop_child("poller")  # others go on with what it has leased
                while not self.writer.is_idle:
                    await self.clock.sleep(0.01)
                # First the beat, or its next one would register again.
                await self.supervisor.stop_child("heartbeat")
                await self.last_use.write()
                await self.heartbeat.leave()
                count = await self.heartbeat.open_holds()
        except (TimeoutError, StoreUnavailable) as error:
            log.error("settlements_left_to_recovery", error=repr(error))
            return False
        if count:
            log.error("holds_left_to_recovery", count=count)
        return count == 0


# When Python's collector of cycles looks for them: often among what is new, hardly ever elsewhere.
#
# What a call leaves behind is freed as soon as nothing refers to it; the collector only finds what
# refers to itself, which no call makes. But it walks through whatever was made since its last look,
# and an open stream is some 130 objects. A small first generation is walked while it is still in
# the processor's cache. The second holds all that has stayed, and with ten thousand open streams a
# look at it stops the process for a third of a second: it is looked at in quiet times, and
# else only after some twenty million objects more were made than freed.

NEW_OBJECTS_MAX = 20_000
LOOKS_AT_NEW = 1_000  # for each at what has stayed
LOOKS_AT_OLD = 50  # for each at everything


def begin() -> None:
    """Once everything that lives as long as the process has been made: it is never walked again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, LOOKS_AT_NEW, LOOKS_AT_OLD)


# The connections of a process to its database, in pools, so that no work waits for another's.

CALL_CONNECTIONS = 4
# Who reads long call logs waits for others who do, and not for keys or balances to be read.
LOG_CONNECTIONS = 2
LOG_STATEMENT_SECONDS = 10.0
# Copies of results are found, claimed and moved on by one; readers of their links have `calls`.
MEDIA_CONNECTIONS = 2
# The poller books and claims on one of them while it ends jobs on the other.
JOB_CONNECTIONS = 2
# Searches wait for each other, and for nothing that costs money; those for a call are apart.
KNOWLEDGE_CONNECTIONS = 2
AGENT_CONNECTIONS = 2
SEARCH_SECONDS = 5.0
# Operators wait for each other, and no call for them.
ADMIN_CONNECTIONS = 2
ADMIN_STATEMENT_SECONDS = 10.0
STATEMENT_SECONDS = 30.0
# Pages of the console wait for each other, and for no call.
CONSOLE_CONNECTIONS = 3
CONSOLE_SECONDS = 8.0


class Pools:
    """`calls` is for whatever a call waits for; the ledger's writer has a session of its own."""

    def __init__(self, dsn: str, metrics: DatabaseMetrics) -> None:
        def pool(name: str, size: int, statement_seconds: float = STATEMENT_SECONDS) -> Database:
            database = Database(
                dsn,
                size=size,
                statement_seconds=statement_seconds,
                on_wait=metrics.waiting(name),
            )
            metrics.watch(name, database)
            return database

        self.calls = pool("calls", CALL_CONNECTIONS)
        self.logs = pool("logs", LOG_CONNECTIONS, LOG_STATEMENT_SECONDS)
        self.knowledge = pool("knowledge", KNOWLEDGE_CONNECTIONS, SEARCH_SECONDS)
        self.agents = pool("agents", AGENT_CONNECTIONS, SEARCH_SECONDS)
        self.jobs = pool("jobs", JOB_CONNECTIONS)
        self.admin = pool("admin", ADMIN_CONNECTIONS, ADMIN_STATEMENT_SECONDS)
        # Opened where there is a media store.
        self.media = pool("media", MEDIA_CONNECTIONS)
        # Opened where there is a console.
        self.console = pool("console", CONSOLE_CONNECTIONS, CONSOLE_SECONDS)

    def __repr__(self) -> str:
        return f"<Pools {self.calls!r} {self.logs!r} {self.jobs!r}>"

    @property
    def _all(self) -> tuple[Database, ...]:
        return (
            self.console,
            self.admin,
            self.knowledge,
            self.agents,
            self.media,
            self.jobs,
            self.logs,
            self.calls,
        )

    def open_count(self) -> int:
        """How many connections are open, sessions and listeners with them."""
        return sum(database.open_count for database in self._all)

    async def close(self) -> None:
        """Close every connection."""
        for database in self._all:
            await database.close()


# What a process does when the database pushes a change (`actors/changes.py`).


class Pushes:
    """Hands each push to whom it concerns: keys and accounts, limits, jobs, channels."""

    def __init__(
        self,
        *,
        keys: KeyCache,
        limiter: Limiter,
        jobs_changed: asyncio.Event,
        channel_changed: Callable[[str], None] = lambda channel_id: None,
    ) -> None:
        self._channel_changed = channel_changed
        self._keys = keys
        self._limiter = limiter
        self._jobs_changed = jobs_changed

    def __repr__(self) -> str:
        return f"<Pushes {self._keys!r}>"

    def take(self, payload: str) -> None:
        """A change: `key:<id>`, `account:<id>`, `agent:<id>`, `job:<id>` or `channel:<id>`."""
        kind, _, name = payload.partition(":")
        if kind == "job":
            self._jobs_changed.set()
            return
        if kind == "channel":
            self._channel_changed(name)
            return
        self._keys.invalidate(payload)
        if kind == "account":  # perhaps it has a limit now that it had not before
            self._limiter.share(name)

    def lost(self) -> None:
        """Believe nothing known so far: pushes may have been missed."""
        self._jobs_changed.set()
        self._channel_changed("")
        self._keys.clear()
        self._limiter.share_all()


# What the processes of a gateway share their limits through, as the configuration has it.


def make_shared_limits(
    config: Config, parent: ParentLink | None, *, process_id: str, clock: Clock, metrics: Metrics
) -> SharedLimits | None:
    """Over Redis, or else over the parent of this process; None where it has neither."""
    if config.redis_url:
        return SharedLimits.over_redis(
            config.redis_url, process_id=process_id, clock=clock, metrics=metrics
        )
    if parent is None:
        return None
    return SharedLimits(backend=ParentBackend(parent), clock=clock, metrics=metrics)
