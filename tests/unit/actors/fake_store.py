"""The ledger's twin with the table of processes beside it, as heartbeat and recovery see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import ujson

from actors.heartbeat import SQL, Heartbeat, ProcessIdentity
from actors.live import LiveCalls
from actors.recovery import Recovery
from actors.store.database import Database, StoreUnavailable
from actors.wallet import ledger
from actors.wallet.messages import CallFacts, Hold
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.fake_ledger import FakeLedger

ACCOUNT, KEY = "acct_a", "key_a"


@dataclass
class FakeStore(FakeLedger):
    """Several processes' view of one database."""

    clock: FakeClock = field(default_factory=FakeClock)
    processes: dict[str, tuple[str, str, int, float]] = field(default_factory=dict)
    is_away: bool = False
    lost: str | None = None  # this statement does not arrive
    frozen: asyncio.Event | None = None  # statements hang until it is set

    async def execute(self, sql: str, params: Sequence[Any] = ()) -> int:
        await self._reach()
        if self.lost is not None and sql == SQL[self.lost]:
            raise StoreUnavailable("lost")
        if sql == SQL["beat"]:
            process_id, host, boot_id, pid = params
            self.processes[process_id] = (host, boot_id, pid, self.clock.monotonic())
        elif sql == SQL["delivered"]:
            for said in ujson.loads(params[0]):
                hold = self.holds.get(UUID(said["call_id"]))
                if hold is not None:
                    hold["delivered"] = said["delivered"]
        else:
            assert sql == SQL["leave"], sql
            (process_id,) = params
            if not self.holds_of(process_id):
                self.processes.pop(process_id, None)
        return 1

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        await self._reach()
        now = self.clock.monotonic()
        if sql == SQL["others"]:
            return [
                (name, host, boot_id, pid, now - beat_at)
                for name, (host, boot_id, pid, beat_at) in self.processes.items()
                if name != params[0]
            ]
        if sql == SQL["orphans"]:
            old = {h["process_id"] for h in self.holds.values() if now - h["at"] > params[0]}
            return [(name,) for name in sorted(old - set(self.processes))]
        if sql == SQL["holds_of"]:
            return self.holds_of(params[0])
        if sql == SQL["old_holds_of"]:
            return self.holds_of(params[0], older_than=params[1])
        if sql == ledger.SQL["holds_summary"]:
            ages = [now - hold["at"] for hold in self.holds.values()]
            return [(len(ages), max(ages, default=0.0))]
        if sql == ledger.SQL["apply"]:
            answer = await super().fetch_all(sql, params)
            for hold in self.holds.values():
                hold.setdefault("process_id", params[0])
                hold.setdefault("at", now)
            return answer
        return await super().fetch_all(sql, params)

    def holds_of(self, process_id: str, *, older_than: float = -1.0) -> list[tuple[Any, ...]]:
        now = self.clock.monotonic()
        return [
            (
                call_id.hex,
                hold["account_id"],
                hold["key_id"],
                ujson.dumps(hold["call"]),
                ujson.dumps(hold["delivered"]) if "delivered" in hold else None,
                hold["at"],
            )
            for call_id, hold in self.holds.items()
            if hold["process_id"] == process_id and now - hold["at"] > older_than
        ]

    async def _reach(self) -> None:
        if self.frozen is not None:
            await self.frozen.wait()
        if self.is_away:
            raise StoreUnavailable("away")


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

    async def hold(self, number: int, amount: int = 100) -> CallFacts:
        """Begin a call."""
        made = facts(number, self.store.clock)
        await self.wallets.hold(Hold(facts=made, amount_nano_usd=amount))
        return made

    async def beat_for(self, seconds: int) -> None:
        """Live on for so many seconds."""
        for _ in range(seconds):
            self.store.clock.advance(1.0)
            await self.heartbeat.beat()


def facts(number: int, clock: FakeClock) -> CallFacts:
    return CallFacts(
        call_id=UUID(int=number),
        account_id=ACCOUNT,
        key_id=KEY,
        protocol="chat",
        model="m",
        submitted_at=clock.now(),
    )


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
    gone_pids: frozenset[int] = frozenset(),
) -> AsyncIterator[Process]:
    """A process whose writer runs; its heartbeat beats, and its recovery sweeps, when told."""
    metrics, live = Metrics(), LiveCalls()
    clock, database = store.clock, cast(Database, store)
    writer = LedgerWriter(database=database, process_id=process_id, clock=clock, metrics=metrics)
    wallets = Wallets(writer=writer, database=database, clock=clock, metrics=metrics)
    identity = ProcessIdentity(id=process_id, host=host, boot_id=boot_id, pid=pid)
    heartbeat = Heartbeat(
        identity=identity, database=database, live=live, clock=clock, metrics=metrics
    )
    recovery = Recovery(
        heartbeat=heartbeat,
        database=database,
        wallets=wallets,
        live=live,
        unsettled=writer.unsettled,
        is_pid_alive=lambda pid: pid not in gone_pids,
        clock=clock,
        metrics=metrics,
    )
    task = asyncio.create_task(writer.run())
    yield Process(identity, store, live, wallets, writer, heartbeat, recovery)
    task.cancel()
    await asyncio.wait([task])
