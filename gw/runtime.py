"""The objects of a process, and its background work: loop lag, memory, partitions, the drain."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock, SystemClock
from actors.heartbeat import Heartbeat
from actors.limits.limiter import Limiter
from actors.limits.shared import SharedLimits
from actors.parent.backend import ParentBackend
from actors.parent.link import ParentLink
from actors.partitions import Partitions
from actors.process import ProcessIdentity
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.supervisor import Supervisor
from actors.wallet.flight_recorder.recorder import Recorder
from actors.wallet.live_calls import LiveCalls
from actors.wallet.neighbours import Neighbours
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from channels.resources import OpenFiles
from gw.config.config import Config, LiveConfig
from gw.http.connection import DRAIN_GRACE_SECONDS
from gw.http.drain import RequestsInFlight
from gw.http.overload import DelayWatch, Overload
from gw.http.server import Server
from gw.keys.cache import KeyCache
from gw.keys.last_use import LastUse
from gw.keys.secret import Secret
from gw.memory import HugePages, IdleTrimmer, huge_page_bytes
from metrics.groups.database import DatabaseMetrics
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from metrics.version import release

# The objects of a process, made once, in the order in which they are made.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """The state that a process keeps in memory only."""

    parent: ParentLink | None
    shared_limits: SharedLimits | None
    limiter: Limiter
    channels: ChannelDirectory
    live: LiveCalls
    jobs_changed: asyncio.Event  # a job was, or may have been, accepted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Process:
    """The objects of a process before anything is started. `stack` closes what was started."""

    current: LiveConfig
    environ: Mapping[str, str]
    shares_port: bool
    identity: ProcessIdentity
    clock: Clock
    metrics: Metrics
    files: OpenFiles
    stack: AsyncExitStack
    supervisor: Supervisor
    in_flight: RequestsInFlight
    overload: Overload
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Store:
    """The database, and the secret that hashes and seals its keys."""

    pools: Pools
    secret: Secret


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ledger:
    """The wallets, their writer, and those of other processes."""

    writer: LedgerWriter
    wallets: Wallets
    neighbours: Neighbours
    recorder: Recorder


def make_process(
    config: Config,
    environ: Mapping[str, str],
    *,
    shares_port: bool,
    parent_socket: socket.socket | None,
) -> Process:
    """Return the objects that are made without the database."""
    clock, metrics = SystemClock(), Metrics()
    identity = ProcessIdentity.of_this_process(f"proc_{uuid.uuid4().hex[:20]}")
    supervisor = Supervisor(clock=clock, metrics=metrics)
    parent = None if parent_socket is None else ParentLink(parent_socket)
    shared = make_shared_limits(
        config, parent, process_id=identity.id, clock=clock, metrics=metrics
    )
    return Process(
        current=LiveConfig(config),
        environ=environ,
        shares_port=shares_port,
        identity=identity,
        clock=clock,
        metrics=metrics,
        files=OpenFiles(metrics.files),
        stack=AsyncExitStack(),
        supervisor=supervisor,
        in_flight=RequestsInFlight(),
        overload=Overload(config.shed_delay_ms / 1000 if config.shed_delay_ms else None),
        memory=Memory(
            parent=parent,
            shared_limits=shared,
            limiter=Limiter(clock=clock, shared=shared),
            channels=ChannelDirectory(supervisor=supervisor, clock=clock, metrics=metrics),
            live=LiveCalls(),
            jobs_changed=asyncio.Event(),
        ),
    )


# Measures the lag of the event loop: the delay of a due callback.
#
# A lagging loop delays every call of the process, and is the first symptom of many causes. This
# measures and reports the lag, not its cause.

INTERVAL_SECONDS = 0.2
# Half a second delays every stream noticeably, and exceeds the jitter of a busy machine.
WARN_SECONDS = 0.5
# The interval of warnings under steady overload.
LAG_QUIET_SECONDS = 10.0


class LoopClock(Protocol):
    """The part of a clock that is used here."""

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
        # Since the last warning.
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
        """Record one measurement; log a warning unless the last one is recent."""
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


async def start_partitions(process: Process, database: Database) -> None:
    """Create the partitions needed now, and start the creation and removal of others."""
    current = process.current
    partitions = Partitions(
        database=database,
        retention_months=lambda: current.config.retention_months,
        ledger_retention_months=lambda: current.config.ledger_retention_months,
        clock=process.clock,
        metrics=process.metrics,
    )
    await partitions.make()
    process.supervisor.start("partitions", partitions.run)


def start_watches(process: Process, writer: LedgerWriter) -> None:
    """Start the watches, and log the running version."""
    clock, metrics, supervisor = process.clock, process.metrics, process.supervisor
    metrics.release(release())
    lag = LoopLag(metrics=metrics, clock=clock)
    supervisor.start("loop_lag", lag.run)
    watch = DelayWatch(
        process.overload,
        ledger_seconds=lambda: writer.backlog_seconds,
        clock=clock,
        metrics=metrics,
    )
    supervisor.start("overload", watch.run)
    quiet = IdleTrimmer(process.in_flight, clock)
    supervisor.start("quiet_times", quiet.run)
    if huge_bytes := huge_page_bytes():
        supervisor.start("huge_pages", HugePages(clock, huge_bytes).run)


# The drain of a gateway on SIGTERM.
#
# The steps and their reasons are in `ops/decisions/processes.md`; `gw/http/application.py` counts
# requests in flight, the listener handles connections, `serve.py` closes the resources.

# The share of the drain in which an uninformed client is still served after its stream ends: its
# next stream has at least twice the time that the previous one took.
DRAIN_GRACE_SHARE = 1 / 3
# How long a stopping gateway waits for an unreachable database before it leaves the remaining
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
        """Stop accepting, finish calls within `seconds`, and settle.

        Returns False when a hold may still be open, which is left to recovery.
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
        """Wait until every settlement is durable, or ten seconds for an unreachable database.

        Returns True when the database counts no open hold of this process.
        """
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self.supervisor.stop_child("poller")  # other processes continue its jobs
                while not self.writer.is_idle:
                    await self.clock.sleep(0.01)
                # The heartbeat first: its next beat would register the process again.
                await self.supervisor.stop_child("heartbeat")
                await self.last_use.write_all()
                await self.heartbeat.leave()
                count = await self.heartbeat.open_holds()
        except (TimeoutError, StoreUnavailable) as error:
            log.error("settlements_left_to_recovery", error=repr(error))
            return False
        if count:
            log.error("holds_left_to_recovery", count=count)
        return count == 0


# The connections of a process to its database, in pools, so that kinds of work do not wait for each
# other. An account has at most all but one of a pool's connections, and accounts take turns; three
# leave it two.

CALL_CONNECTIONS = 4
# Readers of long call logs wait for each other; reads of keys and balances do not wait for them.
LOG_CONNECTIONS = 3
LOG_STATEMENT_SECONDS = 10.0
# One finds, claims and records copies of results; reads of their links use `calls`.
MEDIA_CONNECTIONS = 2
# The poller records and claims on one of them while it ends jobs on the other.
JOB_CONNECTIONS = 2
# Searches wait for each other, and no billed work does; retrieval for a call has its own pool.
KNOWLEDGE_CONNECTIONS = 3
AGENT_CONNECTIONS = 3
SEARCH_SECONDS = 5.0
# Requests of operators wait for each other, and calls do not wait for them.
ADMIN_CONNECTIONS = 2
ADMIN_STATEMENT_SECONDS = 10.0
STATEMENT_SECONDS = 30.0
# Pages of the console wait for each other, and calls do not wait for them.
CONSOLE_CONNECTIONS = 3
CONSOLE_SECONDS = 8.0


class Pools:
    """`calls` is for the queries of calls; the ledger's writer has a session of its own."""

    def __init__(self, dsn: str, metrics: DatabaseMetrics) -> None:
        def pool(name: str, size: int, statement_seconds: float = STATEMENT_SECONDS) -> Database:
            database = Database(
                dsn,
                size=size,
                statement_seconds=statement_seconds,
                on_wait=metrics.waiting(name),
                on_refused=metrics.refused,
            )
            metrics.watch(name, database)
            return database

        self.calls = pool("calls", CALL_CONNECTIONS)
        self.logs = pool("logs", LOG_CONNECTIONS, LOG_STATEMENT_SECONDS)
        self.knowledge = pool("knowledge", KNOWLEDGE_CONNECTIONS, SEARCH_SECONDS)
        self.agents = pool("agents", AGENT_CONNECTIONS, SEARCH_SECONDS)
        self.jobs = pool("jobs", JOB_CONNECTIONS)
        self.admin = pool("admin", ADMIN_CONNECTIONS, ADMIN_STATEMENT_SECONDS)
        # Opened if there is a media store.
        self.media = pool("media", MEDIA_CONNECTIONS)
        # Opened if there is a console.
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
        """Return the number of open connections, including sessions and listeners."""
        return sum(database.open_count for database in self._all)

    async def close(self) -> None:
        """Close every connection."""
        for database in self._all:
            await database.close()


# Handles the database's pushes of changes (`actors/changes.py`).


class Pushes:
    """Passes each push to its consumers: keys and accounts, limits, jobs, channels."""

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
        """Handle a change: `key:<id>`, `account:<id>`, `agent:<id>`, `job:<id>`, `channel:<id>`."""
        kind, _, name = payload.partition(":")
        if kind == "job":
            self._jobs_changed.set()
            return
        if kind == "channel":
            self._channel_changed(name)
            return
        self._keys.invalidate(payload)
        if kind == "account":  # perhaps its limits changed
            self._limiter.share(name)

    def lost(self) -> None:
        """Invalidate all cached state: pushes may have been missed."""
        self._jobs_changed.set()
        self._channel_changed("")
        self._keys.clear()
        self._limiter.share_all()


# The limits shared by the processes of a gateway, as configured.


def make_shared_limits(
    config: Config, parent: ParentLink | None, *, process_id: str, clock: Clock, metrics: Metrics
) -> SharedLimits | None:
    """Return limits over Redis, else over the parent of this process; None without both."""
    if config.redis_url:
        return SharedLimits.over_redis(
            config.redis_url, process_id=process_id, clock=clock, metrics=metrics
        )
    if parent is None:
        return None
    return SharedLimits(backend=ParentBackend(parent), clock=clock, metrics=metrics)
