"""The objects of a process, made once, in the order in which they are made, and its watches."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock, SystemClock
from actors.events.keeper import EventKeeper, Keeping
from actors.limits.limiter import Limiter
from actors.limits.shared import SharedLimits
from actors.parent.backend import ParentBackend
from actors.parent.link import ParentLink
from actors.partitions import Partitions
from actors.process import ProcessIdentity
from actors.store.database import Database
from actors.supervisor import Supervisor
from actors.wallet.budget_keeper import BudgetKeeper
from actors.wallet.flight_recorder.recorder import Recorder
from actors.wallet.live_calls import LiveCalls
from actors.wallet.neighbours import Neighbours
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from actors.webhooks.nudges import Nudges
from channels.open_files import OpenFiles
from gw.calls.served_models import ServedModels
from gw.config.config import Config
from gw.config.live import LiveConfig
from gw.http.drain import RequestsInFlight
from gw.http.overload import DelayWatch, Overload
from gw.keys.end_users import EndUserKey
from gw.keys.secret import Secret
from gw.runtime.database_pools import DatabasePools
from gw.runtime.huge_pages import HugePages, huge_page_bytes
from gw.runtime.loop_lag import LoopLag
from gw.runtime.memory import IdleTrimmer
from gw.runtime.stuck_loop import StuckLoop
from metrics.prometheus import Metrics
from metrics.version import release


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Memory:
    """The state that a process keeps in memory only."""

    parent: ParentLink | None
    shared_limits: SharedLimits | None
    limiter: Limiter
    channels: ChannelDirectory
    live: LiveCalls
    jobs_changed: asyncio.Event  # a job was, or may have been, accepted
    webhooks: Nudges  # of what sends events
    served_models: ServedModels  # of conversations with chains


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
    """The database, the secret that hashes and seals its keys, the key of end users' digests."""

    pools: DatabasePools
    secret: Secret
    end_users: EndUserKey


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
            webhooks=Nudges(),
            served_models=ServedModels(),
        ),
    )


async def start_partitions(process: Process, database: Database) -> None:
    """Create the partitions needed now; start the creation and removal of others, and the removal
    of what budgets have spent.
    """
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
    budgets = BudgetKeeper(
        database=database, run_days=lambda: current.config.budgets.run_days, clock=process.clock
    )
    process.supervisor.start("budgets", budgets.run)


async def start_events(process: Process, database: Database) -> None:
    """Put in force which events are written, and start what looks after them."""
    current = process.current

    def keeping() -> Keeping:
        events = current.config.events
        return Keeping(days=events.keep_days, are_calls_wanted=events.call_settled)

    keeper = EventKeeper(
        database=database, keeping=keeping, clock=process.clock, metrics=process.metrics
    )
    await keeper.begin()
    process.supervisor.start("events", keeper.run)


def start_watches(process: Process, writer: LedgerWriter) -> None:
    """Start the watches, and log the running version."""
    clock, metrics, supervisor = process.clock, process.metrics, process.supervisor
    metrics.release(release())
    watch = DelayWatch(
        process.overload, ledger_seconds=lambda: writer.backlog_seconds, metrics=metrics
    )
    supervisor.start("loop_lag", LoopLag(metrics=metrics, clock=clock, watch=watch).run)
    supervisor.start("stuck_loop", StuckLoop(clock=clock).run)
    quiet = IdleTrimmer(process.in_flight, clock)
    supervisor.start("quiet_times", quiet.run)
    if huge_bytes := huge_page_bytes():
        supervisor.start("huge_pages", HugePages(clock, huge_bytes).run)


def make_shared_limits(
    config: Config, parent: ParentLink | None, *, process_id: str, clock: Clock, metrics: Metrics
) -> SharedLimits | None:
    """Return the configured limits: over Redis, else over the parent of this process, or None."""
    if config.redis_url:
        return SharedLimits.over_redis(
            config.redis_url, process_id=process_id, clock=clock, metrics=metrics
        )
    if parent is None:
        return None
    return SharedLimits(backend=ParentBackend(parent), clock=clock, metrics=metrics)
