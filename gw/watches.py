"""What runs in a process beside its calls: how late its loop is, how quiet it is, partitions."""

from __future__ import annotations

from actors.clock import Clock
from actors.partitions import Partitions
from actors.store.database import Database
from actors.supervisor import Supervisor
from actors.wallet.writer import LedgerWriter
from gw.allocator import IdleTrimmer
from gw.api.delay import DelayWatch
from gw.api.overload import Overload
from gw.http.drain import RequestsInFlight
from gw.live_config import LiveConfig
from metrics.loop_lag import LoopLag
from metrics.prometheus import Metrics
from metrics.version import release


async def start_partitions(
    supervisor: Supervisor, database: Database, current: LiveConfig, clock: Clock, metrics: Metrics
) -> None:
    """Make those of the call log that are needed now, and have the others made and dropped."""
    partitions = Partitions(
        database=database,
        retention_months=lambda: current.config.retention_months,
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
    """Start each of them, and say which version runs."""
    metrics.release(release())
    lag = LoopLag(metrics=metrics, clock=clock)
    supervisor.start("loop_lag", lag.run)
    watch = DelayWatch(
        overload, ledger_seconds=lambda: writer.backlog_seconds, clock=clock, metrics=metrics
    )
    supervisor.start("overload", watch.run)
    quiet = IdleTrimmer(in_flight, clock)
    supervisor.start("quiet_times", quiet.run)
