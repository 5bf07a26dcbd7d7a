"""The ledger's twin with the table of processes beside it, as heartbeat and recovery see them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import ujson

from actors.heartbeat import Heartbeat
from actors.process import SQL, ProcessIdentity
from actors.recovery import Recovery
from actors.store.database import Database
from actors.store.errors import StoreError, StoreUnavailable
from actors.wallet import ledger
from actors.wallet.live_calls import LiveCalls
from actors.wallet.messages import CallFacts, Hold, Outcome
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.fake_ledger import FakeLedger
from tests.support.ledger_values import facts

ACCOUNT, KEY = "acct_a", "key_a"


@dataclass
class FakeStore(FakeLedger):
    """Several processes' view of one database."""

    clock: FakeClock = field(default_factory=FakeClock)
    # Host, boot, pid, start, last heartbeat; `buried` has those that were declared dead.
    processes: dict[str, tuple[str, str, int, int, float]] = field(default_factory=dict)
    is_away: bool = False
    refuses_with: StoreError | None = None  # every statement
    lost: str | None = None  # this statement does not arrive
    frozen: asyncio.Event | None = None  # statements hang until it is set

    async def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        await self._reach()
        if self.lost is not None and sql == SQL[self.lost]:
            raise StoreUnavailable("lost")
        if sql == SQL["register"]:
            process_id, host, boot_id, pid, started = params
            now = self.clock.monotonic()
            self.processes.setdefault(process_id, (host, boot_id, pid, started, now))
        elif sql == SQL["delivered"]:
            for message in ujson.loads(params[0]):
                hold = self.holds.get(UUID(message["call_id"]))
                if hold is not None:
                    hold["delivered"] = message["delivered"]
        else:
            assert sql == SQL["leave"], sql
            (process_ids,) = params
            for process_id in process_ids:
                if not self.holds_of(process_id):
                    self.processes.pop(process_id, None)
                    self.end_leases(process_id)
        return 1

    def may_hold(self, process_id: str) -> bool:
        return process_id in self.processes and process_id not in self.buried

    def beat(self, process_id: str) -> None:
        who = self.processes[process_id][:4]
        self.processes[process_id] = (*who, self.clock.monotonic())

    def bury(self, process_id: str, beat_at: float | None) -> bool:
        who = self.processes.get(process_id)
        if who is not None and beat_at in (None, who[-1]):
            self.buried.add(process_id)
        return who is not None and process_id in self.buried

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        await self._reach()
        now = self.clock.monotonic()
        if self.lost is not None and sql == SQL[self.lost]:
            raise StoreUnavailable("lost")
        if sql == SQL["beat"]:
            (process_id,) = params
            if not self.may_hold(process_id):
                return []
            self.beat(process_id)
            return [(self.called_of(process_id),)]
        if sql == SQL["called_back"]:
            return [*self.called_of_others(params[0])]
        if sql == SQL["take_lease"]:
            return [(self.take_lease(*params),)]
        if sql == SQL["others"]:
            return [
                (name, *who, name in self.buried)
                for name, who in self.processes.items()
                if name != params[0]
            ]
        if sql == SQL["declare_dead"]:
            process_id, _, beat_at = params
            return [(self.bury(process_id, beat_at),)]
        if sql == SQL["orphans"]:
            old = {h["process_id"] for h in self.holds.values() if now - h["at"] > params[0]}
            return [(name,) for name in sorted(old - set(self.processes))]
        if sql == SQL["holds_of"]:
            return self.holds_of(params[0])
        if sql == SQL["old_holds_of"]:
            return self.holds_of(params[0], older_than=params[1])
        if sql == SQL["unknown_of"]:
            calls = [UUID(one) for one in params[0]]
            return [(c.hex,) for c in calls if c not in self.holds and not self._knows(c)]
        if sql == SQL["recovered_of"]:
            calls = [UUID(one) for one in params[0]]
            return [(c.hex,) for c in calls if c in self.recovered and c not in self.corrections]
        if sql == ledger.SQL["holds_summary"]:
            ages = [now - hold["at"] for hold in self.holds.values()]
            return [(len(ages), max(ages, default=0.0), 0.0, 0.0, 0, len(self.quarantine), 0)]
        if sql == ledger.SQL["apply"]:
            response = await super().fetch_all(sql, params)
            for hold in self.holds.values():
                hold.setdefault("process_id", params[0])
                hold.setdefault("at", now)
            return response
        return await super().fetch_all(sql, params)

    def holds_of(self, process_id: str, *, older_than: float = -1.0) -> list[tuple[Any, ...]]:
        now = self.clock.monotonic()
        return [
            (
                call_id.hex,
                hold["account_id"],
                hold["key_id"],
                hold.get("job_id"),
                ujson.dumps(hold["call"]),
                ujson.dumps(hold["delivered"]) if "delivered" in hold else None,
            )
            for call_id, hold in self.holds.items()
            if hold["process_id"] == process_id and now - hold["at"] > older_than
        ]

    async def _reach(self) -> None:
        if self.frozen is not None:
            await self.frozen.wait()
        if self.is_away:
            raise StoreUnavailable("away")
        if self.refuses_with is not None:
            raise self.refuses_with


@dataclass
class Process:
    """One gateway process: its writer, its heartbeat, its recovery."""

    identity: ProcessIdentity
    store: FakeStore
    live: LiveCalls
    wallets: Wallets
    writer: LedgerWriter
    heartbeat: Heartbeat
    recovery: Recovery

    async def hold(self, number: int, amount: int = 100, **more: Any) -> CallFacts:
        """Begin a call; `more` are facts of it."""
        made = facts(number, submitted_at=self.store.clock.now(), **more)
        hold = Hold(facts=made, amount_nano_usd=amount)
        if (waiting := self.wallets.hold(hold)) is not None:
            await waiting
        return made

    def settle(self, call: CallFacts, cost: int) -> None:
        """End a call, answered in full."""
        now = self.store.clock.now()
        self.wallets.settle(
            call, Outcome(status="success", cost_nano_usd=cost, created_at=now, latency_ms=1)
        )
        self.live.leave(call.call_id)

    async def beat_for(self, seconds: int) -> None:
        """Live on for so many seconds."""
        for _ in range(seconds):
            self.store.clock.advance(1.0)
            await self.heartbeat.beat()


def make_store(balance: int = 10_000) -> FakeStore:
    store = FakeStore()
    store.open_account(ACCOUNT, KEY, balance)
    return store


@asynccontextmanager
async def process(
    store: FakeStore,
    process_id: str = "proc_judge",
    *,
    host: str = "here",
    boot_id: str = "boot",
    pid: int = 1,
    pid_started: int = 5,
    gone_pids: frozenset[int] = frozenset(),
) -> AsyncIterator[Process]:
    """A process that has registered and whose writer runs; it beats and sweeps when it is told.

    Each pid that is not gone is that of a process begun at 5.
    """
    metrics, live = Metrics(), LiveCalls()
    clock, database = store.clock, cast(Database, store)
    identity = ProcessIdentity(process_id, host, boot_id, pid, pid_started)
    writer = LedgerWriter(database=database, identity=identity, clock=clock, metrics=metrics)
    wallets = Wallets(writer=writer, database=database, clock=clock, metrics=metrics)
    heartbeat = Heartbeat(
        identity=identity, database=database, live=live, clock=clock, metrics=metrics
    )
    recovery = Recovery(
        heartbeat=heartbeat,
        database=database,
        wallets=wallets,
        live=live,
        unsettled=writer.unsettled,
        is_process_alive=lambda pid, started: pid not in gone_pids and started == 5,
        clock=clock,
        metrics=metrics,
    )
    task = asyncio.create_task(writer.run())
    await heartbeat.beat()
    yield Process(identity, store, live, wallets, writer, heartbeat, recovery)
    task.cancel()
    await asyncio.wait([task])
