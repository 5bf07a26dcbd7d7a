"""Leases and claims on a real PostgreSQL."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.process import ProcessIdentity, register
from actors.store.database import Database
from actors.wallet.batch import Applied, Batch, apply, encode_settlement, encode_void
from actors.wallet.ledger import read_balance, top_up
from actors.wallet.messages import (
    Claim,
    ClaimEnd,
    Free,
    Hold,
    KeptResponse,
    Outcome,
    ResponseTooLarge,
)
from actors.wallet.verify import verify
from actors.wallet.wallets import TIMEOUT_SECONDS, HoldRefused, Neighbours
from tests.integration.actors.process import (
    GONE,
    Process,
    ledger_of,
    open_holds,
    process,
    process_ids,
    rows_of,
)
from tests.integration.money import ACCOUNT, KEY, PROCESS, open_account
from tests.support.aio import eventually, jump
from tests.support.ledger_values import facts

BALANCE, AMOUNT = 100_000, 100


async def lease(one: Process) -> None:
    """Ask for so much that part of the balance is leased."""
    for _ in range(4):
        one.settle(await one.hold(AMOUNT), 0)
    await one.wallets.settled(ACCOUNT)


async def leased_by(database: Database) -> dict[str, int]:
    rows = await database.fetch_all("SELECT process_id, amount_nano_usd FROM leases")
    return {str(process_id): int(amount) for process_id, amount in rows}


@asynccontextmanager
async def processes(url: str, count: int) -> AsyncIterator[list[Process]]:
    """Processes that call their leases back from each other."""
    async with AsyncExitStack() as stack:
        found = []
        for number in range(count):
            one = await stack.enter_async_context(process(url, f"proc_{number}"))
            neighbours = Neighbours(
                database=one.database,
                identity=one.identity,
                settled=one.wallets.settled,
                give_back=one.wallets.give_back,
            )
            await neighbours.start()
            answering = asyncio.create_task(neighbours.run())
            stack.callback(answering.cancel)
            one.wallets.call_back = neighbours.give_back
            found.append(one)
        yield found


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_hundred_callers_for_a_balance_of_seven_calls_are_seven(
    database_url: str, count: int
) -> None:
    """Each process has a lease, which is unused; the calls are for a seventh of the balance."""
    async with (
        ledger_of(database_url, BALANCE) as database,
        processes(database_url, count) as found,
    ):
        for one in found:
            await lease(one)
        assert len(await leased_by(database)) == count
        asked = [found[number % count].hold(BALANCE // 7) for number in range(100)]
        replies = await asyncio.gather(*asked, return_exceptions=True)
        refused = [reply for reply in replies if isinstance(reply, HoldRefused)]
        assert len(refused) == 93
        assert {one.reason for one in refused} == {"insufficient_funds"}
        assert await open_holds(database) == 7
        await top_up(database, ACCOUNT, BALANCE)
        assert await found[-1].hold(BALANCE // 2)  # by the next request, in every process
        assert await found[0].hold(BALANCE // 2)


async def test_calls_in_memory_and_calls_in_the_database_share_a_balance(database_url: str) -> None:
    """What one process admits in memory is not there for what the other asks for."""
    async with ledger_of(database_url, BALANCE) as database, processes(database_url, 2) as found:
        one, other = found
        await lease(one)
        mine = [await one.hold(AMOUNT) for _ in range(5)]
        with pytest.raises(HoldRefused):
            await other.hold(BALANCE - 5 * AMOUNT + 1)
        await other.hold(BALANCE - 5 * AMOUNT)
        with pytest.raises(HoldRefused):
            await one.hold(AMOUNT)
        for facts in mine:
            one.settle(facts, AMOUNT)
        await one.wallets.settled(ACCOUNT)
        assert await read_balance(database, ACCOUNT) == (BALANCE - 5 * AMOUNT, BALANCE - 5 * AMOUNT)


async def test_dead_process_leaves_its_calls_and_no_lease(
    database_url: str, tmp_path: Path
) -> None:
    """One call had been answered, one had begun: neither was ever written."""
    async with ledger_of(database_url, BALANCE) as database:
        async with process(database_url, "proc_dead", pid=GONE, data_dir=tmp_path) as dead:
            await lease(dead)
            dead.writer.leases.due = lambda count: []  # type: ignore[method-assign]
            answered, begun = await dead.hold(AMOUNT), await dead.hold(AMOUNT)
            dead.writer.tell = lambda message: None  # type: ignore[method-assign]
            dead.settle(answered, 33)
        assert await open_holds(database) == 0
        assert (await leased_by(database)).keys() == {"proc_dead"}
        async with process(database_url, gone_pids=frozenset({GONE}), data_dir=tmp_path) as judge:
            assert await judge.recovery.sweep() == 2
            assert await rows_of(database, answered.call_id) == [("success", None, 33)]
            assert await rows_of(database, begun.call_id) == [
                ("interrupted", "gateway_restarted", 0)
            ]
            assert await read_balance(database, ACCOUNT) == (BALANCE - 33, 0)
            assert await leased_by(database) == {}
            assert "proc_dead" not in await process_ids(database)
            assert await judge.recovery.sweep() == 0


async def test_process_that_ends_in_good_order_leases_nothing(database_url: str) -> None:
    async with ledger_of(database_url, BALANCE) as database, process(database_url) as one:
        await lease(one)
        assert await leased_by(database) != {}
        await one.heartbeat.leave()
        assert await leased_by(database) == {}


BODY = bytes(range(256))
KEPT = KeptResponse(status=201, headers=(("Content-Type", "audio/mpeg"), ("x-a", "é")), body=BODY)


@dataclass
class Book:
    """A ledger with one account of 1000, every hold 100 of it."""

    database: Database
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def hold(self, key: str = "k", body: bytes = b"one", *, account: str = ACCOUNT) -> Hold:
        key_id = KEY if account == ACCOUNT else f"key of {account}"
        number = next(self.numbers)
        who = facts(number, account_id=account, key_id=key_id, protocol="images")
        return Hold(facts=who, amount_nano_usd=100, claim=Claim(key=key, fingerprint=body))

    async def apply(self, **batch: Any) -> Applied:
        return await apply(self.database, PROCESS, Batch(**batch))

    async def ask(self, *holds: Hold) -> list[str]:
        """What each hold of one batch is answered."""
        applied = await self.apply(holds=holds)
        return [
            applied.taken.get(seq) or applied.refused.get(seq) or "granted"
            for seq in range(len(holds))
        ]

    async def recover(self, hold: Hold) -> Applied:
        """Others settle the call, whose process they take for dead."""
        outcome = Outcome(
            status="interrupted", cost_nano_usd=0, created_at=1_790_000_000.5, latency_ms=500
        )
        return await self.apply(
            settlements=[encode_settlement(hold.facts, outcome, is_recovery=True)]
        )

    async def settle(self, hold: Hold, end: ClaimEnd, *, cost: int = 40) -> Applied:
        outcome = Outcome(
            status="success" if cost else "error",
            cost_nano_usd=cost,
            created_at=1_790_000_001.0,
            latency_ms=1000,
        )
        return await self.apply(settlements=[encode_settlement(hold.facts, outcome, claim_end=end)])

    async def age(self, **interval: float) -> None:
        """Let so much time pass for the keys."""
        ((unit, amount),) = interval.items()
        await self.database.execute(
            "UPDATE idempotency SET expires_at = expires_at - make_interval(" + unit + " => %s)",
            (amount,),
        )


@asynccontextmanager
async def book(url: str) -> AsyncIterator[Book]:
    async with Database(url) as database:
        await open_account(database, 1000)
        await open_account(database, 1000, "acct_b", "key of acct_b")
        yield Book(database)
        assert (await verify(database)).faults == []


async def test_key_is_in_flight_until_settled_and_then_stored_for_seven_days(
    database_url: str,
) -> None:
    async with book(database_url) as b:
        first = b.hold()
        assert await b.ask(first) == ["granted"]
        assert await b.ask(b.hold()) == ["in_flight"]
        assert await b.ask(b.hold(body=b"two")) == ["in_flight"]
        await b.settle(first, KEPT)
        assert await b.ask(b.hold(), b.hold(body=b"two")) == ["stored", "reuse"]
        (row,) = await b.database.fetch_all(
            "SELECT call_id::text, status, headers, body FROM idempotency"
        )
        assert row[:3] == (
            str(first.facts.call_id),
            201,
            [["Content-Type", "audio/mpeg"], ["x-a", "é"]],
        )
        assert bytes(row[3]) == BODY
        await b.age(mins=7 * 24 * 60 - 1)
        assert await b.ask(b.hold()) == ["stored"]
        await b.age(mins=1)
        assert await b.ask(b.hold()) == ["granted"]
        (row,) = await b.database.fetch_all("SELECT state, body FROM idempotency")
        assert row == ("executing", None)


async def test_failed_call_frees_its_key_with_the_settlement(database_url: str) -> None:
    async with book(database_url) as b:
        first, second = b.hold(), b.hold(body=b"two")
        await b.ask(first)
        outcome = Outcome(status="error", cost_nano_usd=0, created_at=1_790_000_001.0, latency_ms=1)
        settled = encode_settlement(first.facts, outcome, claim_end=Free())
        applied = await b.apply(settlements=[settled], holds=[second])
        assert (applied.taken, applied.refused) == ({}, {})
        assert await b.ask(b.hold()) == ["in_flight"]
        await b.apply(settlements=[encode_void(second.facts, has_claim=True)])
        assert await b.ask(b.hold()) == ["granted"]


async def test_key_of_a_call_that_was_cut_off_frees_itself_after_ten_minutes(
    database_url: str,
) -> None:
    async with book(database_url) as b:
        first = b.hold()
        await b.ask(first)
        await b.settle(first, None, cost=0)
        await b.age(secs=590)
        assert await b.ask(b.hold()) == ["in_flight"]
        await b.age(secs=10)
        assert await b.ask(b.hold()) == ["granted"]


async def test_first_in_a_batch_gets_the_key_and_only_with_the_money(database_url: str) -> None:
    async with book(database_url) as b:
        rich = b.hold()
        poor = Hold(facts=b.hold().facts, amount_nano_usd=5000, claim=rich.claim)
        stranger = b.hold(account="acct_b")  # another account's keys are its own
        asked = [poor, stranger, rich, b.hold(), b.hold(body=b"two"), b.hold("other")]
        granted = ["insufficient_funds", "granted", "granted"]
        assert await b.ask(*asked) == [*granted, "in_flight", "in_flight", "granted"]


async def test_batch_sent_again_finds_its_own_claim(database_url: str) -> None:
    async with book(database_url) as b:
        holds = [b.hold(), b.hold()]
        assert await b.ask(*holds) == ["granted", "in_flight"]
        assert await b.ask(*holds) == ["granted", "in_flight"]
        await b.settle(holds[0], KEPT)
        again = await b.settle(holds[0], Free())
        assert again.unsettled == {holds[0].facts.call_id}
        assert await b.ask(b.hold()) == ["stored"]


@pytest.mark.parametrize(
    ("end", "cost", "then"), [(KEPT, 40, "stored"), (Free(), 0, "granted"), (None, 0, "in_flight")]
)
async def test_true_settlement_of_a_recovered_call_ends_its_claim(
    end: ClaimEnd, cost: int, then: str, database_url: str
) -> None:
    async with book(database_url) as b:
        first = b.hold()
        await b.ask(first)
        await b.recover(first)
        assert await b.ask(b.hold()) == ["in_flight"]
        await b.settle(first, end, cost=cost)
        await b.settle(first, ResponseTooLarge())  # a third one changes nothing
        assert await b.ask(b.hold()) == [then]


async def test_key_of_a_call_that_was_given_up_after_its_recovery_is_free(
    database_url: str,
) -> None:
    async with book(database_url) as b:
        first = b.hold()
        await b.ask(first)
        await b.recover(first)
        await b.apply(settlements=[encode_void(first.facts, has_claim=True)])
        assert await b.ask(b.hold()) == ["granted"]


async def test_key_that_ran_out_and_was_claimed_anew_is_not_the_late_calls(
    database_url: str,
) -> None:
    async with book(database_url) as b:
        first, second = b.hold(), b.hold()
        await b.ask(first)
        await b.recover(first)
        await b.age(mins=10)
        assert await b.ask(second) == ["granted"]
        await b.settle(first, KEPT)  # charged, as it was answered; its key has another answer
        assert await b.ask(b.hold()) == ["in_flight"]
        await b.settle(second, KEPT)
        assert await b.ask(b.hold()) == ["stored"]


@pytest.mark.parametrize("processes", [8])
async def test_claims_from_many_processes_at_once_grant_one(
    database_url: str, processes: int
) -> None:
    async with book(database_url) as b:
        batches = [[b.hold(), b.hold(), b.hold("mine")] for _ in range(processes)]
        databases = [Database(database_url, size=1) for _ in batches]
        for seq in range(processes):
            await register(b.database, ProcessIdentity(f"p{seq}", "h", "", seq))
        applied = await asyncio.gather(
            *(
                apply(database, f"p{seq}", Batch(holds=holds))
                for seq, (database, holds) in enumerate(zip(databases, batches, strict=True))
            )
        )
        for database in databases:
            await database.close()
        taken = [one.taken for one in applied]
        assert sum(0 not in one for one in taken) == 1
        assert sum(1 not in one for one in taken) == 0
        assert sum(2 not in one for one in taken) == 1
        assert {standing for one in taken for standing in one.values()} == {"in_flight"}


# --- Processes that wait for each other's settlements, on a real database ---


@dataclass
class Neighbour:
    """A neighbour that lives; what it knows of any account is written once `written` is set."""

    neighbours: Neighbours
    asked: list[str]
    written: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def neighbour(url: str, process_id: str, *, answers: bool = True) -> AsyncIterator[Neighbour]:
    async with Database(url) as database:

        async def settled(account_id: str) -> None:
            found.asked.append(account_id)
            await found.written.wait()

        who = ProcessIdentity(process_id, "host", "boot", 1)
        neighbours = Neighbours(database=database, identity=who, settled=settled, give_back=settled)
        found = Neighbour(neighbours, [])
        await found.neighbours.start()
        await register(database, who)
        answering = asyncio.create_task(found.neighbours.run() if answers else asyncio.sleep(0))
        try:
            yield found
        finally:
            answering.cancel()
            await asyncio.wait([answering])


async def test_every_process_is_waited_for(database_url: str) -> None:
    async with (
        neighbour(database_url, "proc_a") as a,
        neighbour(database_url, "proc_b") as b,
        neighbour(database_url, "proc_c") as c,
    ):
        a.written.set()
        waiting = [
            asyncio.create_task(a.neighbours.settled(name)) for name in ("one", "two", "one")
        ]
        await eventually(lambda: bool(b.asked and c.asked), what="both asked")
        c.written.set()
        await eventually(lambda: set(c.asked) == {"one", "two"}, what="all asked")
        assert not any(task.done() for task in waiting)
        b.written.set()
        await asyncio.gather(*waiting)
        assert sorted(a.asked) == ["one", "one", "two"]  # for itself; nobody asks itself


async def test_one_process_alone_waits_for_itself_only(database_url: str) -> None:
    async with neighbour(database_url, "proc_a") as a:
        waiting = asyncio.create_task(a.neighbours.settled("one"))
        await eventually(lambda: a.asked == ["one"], what="its own")
        assert not waiting.done()
        a.written.set()
        await waiting


async def test_one_that_has_just_died_is_waited_for_a_moment(database_url: str) -> None:
    async with (
        neighbour(database_url, "proc_a") as a,
        neighbour(database_url, "proc_b", answers=False),
    ):
        a.written.set()
        waiting = asyncio.create_task(a.neighbours.settled("one"))
        await eventually(lambda: "1 asked" in repr(a.neighbours), what="the question")
        jump(TIMEOUT_SECONDS)
        await waiting
        assert "0 asked" in repr(a.neighbours)
