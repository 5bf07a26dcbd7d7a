"""A gateway process on a real database: its writer runs, it beats and sweeps when it is told.

The clock of heartbeat and recovery is the test's, so that a process may say that it has seen
minutes go by; how old others look is the database's to say, and is set by SQL.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from actors.clock import SystemClock
from actors.heartbeat import Heartbeat
from actors.process import ProcessIdentity
from actors.recovery import Recovery
from actors.store.database import Database
from actors.wallet.claims import Claim, ClaimEnd
from actors.wallet.flight_recorder.recorder import Recorder
from actors.wallet.live_calls import Delivered, LiveCalls
from actors.wallet.messages import CallFacts, Hold, NewJob, NodeHold, Outcome
from actors.wallet.neighbours import Neighbours
from actors.wallet.verify import verify
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from metrics.prometheus import Metrics
from tests.integration.money import ACCOUNT, KEY, open_account
from tests.support.clock import FakeClock
from tests.support.jobs import new_job

GONE = 4711  # the pid of a process that is no more


@dataclass
class Process:
    """One process and the verbs of a test."""

    identity: ProcessIdentity
    database: Database
    clock: FakeClock
    live: LiveCalls
    wallets: Wallets
    writer: LedgerWriter
    heartbeat: Heartbeat
    recovery: Recovery
    metrics: Metrics
    neighbours: Neighbours

    async def hold(
        self,
        amount: int = 100,
        *,
        account_id: str = ACCOUNT,
        key_id: str = KEY,
        cap: int | None = None,
        claim: Claim | None = None,
        job_id: str | None = None,
        job: NewJob | None = None,
        detail: Mapping[str, Any] | None = None,
        submitted_at: float | None = None,
        nodes: tuple[NodeHold, ...] = (),
        version: int = 0,
    ) -> CallFacts:
        """Begin a call, and a job if it has an id."""
        facts = CallFacts(
            call_id=uuid4(),
            account_id=account_id,
            key_id=key_id,
            protocol="chat" if job_id is None else "videos",
            model="m",
            submitted_at=SystemClock().now() if submitted_at is None else submitted_at,
            job_id=job_id,
        )
        if job_id is not None:
            job = job or new_job()
        hold = Hold(
            facts=facts,
            amount_nano_usd=amount,
            cap_nano_usd=cap,
            claim=claim,
            job=job,
            detail=detail,
            nodes=nodes,
            budgets_version=version,
        )
        if (waiting := self.wallets.hold(hold)) is not None:
            await waiting
        return facts

    def lives(self, facts: CallFacts, *costs: int) -> None:
        """The call is under way and has delivered this much, then this much, …"""
        message = list(costs)

        def delivered() -> Delivered | None:
            if not message:
                return None
            cost = message.pop(0) if len(message) > 1 else message[0]
            return Delivered(cost, input_tokens=cost, output_tokens=cost, cached_tokens=1)

        self.live.enter(facts.call_id, delivered)

    def settle(
        self,
        facts: CallFacts,
        cost: int,
        *,
        held: int | None = None,
        nodes: tuple[NodeHold, ...] = (),
        claim_end: ClaimEnd = None,
        **more: Any,
    ) -> None:
        """End a call, which held so much, with `more` in its outcome; see `Wallets.settle`."""
        now = SystemClock().now()
        ended = Outcome(status="success", cost_nano_usd=cost, created_at=now, latency_ms=1, **more)
        self.wallets.settle(facts, ended, held_nano_usd=held, nodes=nodes, claim_end=claim_end)
        self.live.leave(facts.call_id)

    def refuse(self, account_id: str, key_id: str, *, facts: CallFacts | None = None) -> None:
        """Write the row of a call that was refused, a new one if none is given."""
        now = SystemClock().now()
        facts = facts or CallFacts(
            call_id=uuid4(),
            account_id=account_id,
            key_id=key_id,
            protocol="chat",
            model="m",
            submitted_at=now,
        )
        self.wallets.record(
            facts, Outcome(status="rejected", cost_nano_usd=0, created_at=now, latency_ms=1)
        )

    async def beat_for(self, seconds: int) -> None:
        """Live on for so many seconds."""
        for _ in range(seconds):
            self.clock.advance(1.0)
            await self.heartbeat.beat()
        self.is_confirmed()

    def is_confirmed(self) -> None:
        """Its last beat was now, on the clock of its leases, which is not the test's."""
        self.identity.confirmed_at = SystemClock().monotonic()


@asynccontextmanager
async def ledger_of(url: str, balance: int = 10_000) -> AsyncIterator[Database]:
    """A funded account; in the end the ledger must verify."""
    async with Database(url) as database:
        await open_account(database, balance)
        yield database
        assert (await verify(database)).faults == []


@asynccontextmanager
async def process(
    url: str,
    process_id: str = "proc_judge",
    *,
    host: str = "here",
    boot_id: str = "boot",
    pid: int = 1,
    gone_pids: frozenset[int] = frozenset(),
    data_dir: Path | None = None,
    patience_seconds: float = 5.0,
) -> AsyncIterator[Process]:
    """A process that has registered and whose writer runs; it vanishes without signing off.

    With a folder it has a flight recorder, and reads those of others. Its writer refuses a hold
    that has waited for `patience_seconds` when a batch fails.
    """
    clock, live, metrics = FakeClock(), LiveCalls(), Metrics()
    recorder = Recorder(metrics)
    if data_dir is not None:
        assert recorder.open(data_dir, process_id, slots=8)
    async with Database(url) as database:
        identity = ProcessIdentity(process_id, host, boot_id, pid)
        writer = LedgerWriter(
            database=database,
            identity=identity,
            clock=SystemClock(),
            metrics=metrics,
            data_dir=data_dir,
            timeout_seconds=patience_seconds,
        )
        wallets = Wallets(
            writer=writer,
            database=database,
            clock=SystemClock(),
            metrics=metrics,
            recorder=recorder,
        )
        neighbours = Neighbours(
            database=database,
            identity=identity,
            settled=wallets.settled,
            give_back=wallets.give_back,
            stop_leasing=wallets.stop_leasing,
        )
        heartbeat = Heartbeat(
            identity=identity,
            database=database,
            live=live,
            clock=clock,
            metrics=metrics,
            called_back=neighbours.called_back,
        )
        recovery = Recovery(
            heartbeat=heartbeat,
            database=database,
            wallets=wallets,
            live=live,
            unsettled=writer.unsettled,
            is_process_alive=lambda pid, _: pid not in gone_pids,
            clock=clock,
            metrics=metrics,
            data_dir=data_dir,
        )
        task = asyncio.create_task(writer.run())
        await heartbeat.beat()
        made = Process(
            identity=identity,
            database=database,
            clock=clock,
            live=live,
            wallets=wallets,
            writer=writer,
            heartbeat=heartbeat,
            recovery=recovery,
            metrics=metrics,
            neighbours=neighbours,
        )
        made.is_confirmed()
        try:
            yield made
        finally:
            task.cancel()
            await asyncio.wait([task])
            recorder.close()


async def lease(one: Process, amount: int = 100, *, calls: int = 4) -> None:
    """Ask for so much that part of the balance is leased."""
    for _ in range(calls):
        one.settle(await one.hold(amount), 0)
    await one.wallets.settled(ACCOUNT)


async def leased_by(database: Database) -> dict[str, int]:
    rows = await database.fetch_all("SELECT process_id, amount_nano_usd FROM leases")
    return {str(process_id): int(amount) for process_id, amount in rows}


async def silence(database: Database, process_id: str, seconds: float) -> None:
    """The process last beat so long ago."""
    await database.execute(
        "UPDATE processes SET heartbeat_at = now() - make_interval(secs => %s) WHERE id = %s",
        (seconds, process_id),
    )


async def age_holds(database: Database, seconds: float) -> None:
    """Every open hold was made so long ago."""
    await database.execute(
        "UPDATE holds SET created_at = now() - make_interval(secs => %s)", (seconds,)
    )


async def rows_of(database: Database, call_id: UUID) -> list[tuple[str, str | None, int]]:
    """Status, error code and cost of each row of a call."""
    found = await database.fetch_all(
        "SELECT status, error_code, cost_nano_usd FROM call_logs WHERE request_id = %s",
        (str(call_id),),
    )
    return [(str(status), code, int(cost)) for status, code, cost in found]


async def process_ids(database: Database) -> set[str]:
    """Processes that are registered."""
    return {str(row[0]) for row in await database.fetch_all("SELECT id FROM processes")}


async def open_holds(database: Database) -> int:
    """How many holds are open."""
    row = await database.fetch_one("SELECT count(*) FROM holds")
    assert row is not None
    return int(row[0])
