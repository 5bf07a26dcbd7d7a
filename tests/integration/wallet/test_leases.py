"""Leases and claims on a real PostgreSQL."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.process import SQL, ProcessIdentity, register
from actors.store.database import Database
from actors.wallet import neighbours, wallets
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.claims import Claim, ClaimEnd, Free, KeptResponse, ResponseTooLarge
from actors.wallet.leases import CONFIRMED_SECONDS
from actors.wallet.ledger import read_balance, top_up
from actors.wallet.messages import CallFacts, Hold, LeaseChange
from actors.wallet.rows import encode_settlement, encode_void
from actors.wallet.verify import verify
from actors.wallet.wallets import BalanceLeased, HoldRefused
from loadtests.rig.waiting import PATIENCE_SECONDS
from tests.integration.actors.process import (
    GONE,
    Process,
    lease,
    leased_by,
    ledger_of,
    open_holds,
    process,
    process_ids,
    rows_of,
    silence,
)
from tests.integration.money import ACCOUNT, KEY, PROCESS, open_account
from tests.support.aio import eventually
from tests.support.ledger_values import facts, outcome
from tests.support.logs import logs

BALANCE, AMOUNT = 100_000, 100


@asynccontextmanager
async def processes(url: str, count: int) -> AsyncIterator[list[Process]]:
    """Processes that call their leases back from each other."""
    async with AsyncExitStack() as stack:
        found = []
        for number in range(count):
            one = await stack.enter_async_context(
                process(url, f"proc_{number}", patience_seconds=PATIENCE_SECONDS)
            )
            await one.neighbours.start()
            answering = asyncio.create_task(one.neighbours.run())
            stack.callback(answering.cancel)
            one.wallets.call_back = one.neighbours.give_back
            found.append(one)
        await silence(found[0].database, PROCESS, 2 * PATIENCE_SECONDS)  # a row that never replies
        yield found


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that stands still for seconds no hold times out, and all processes reply.

    They beat once, when they begin.
    """
    for module, limits in (
        (wallets, ("HOLD_SECONDS", "COVER_SECONDS")),
        (neighbours, ("RECENT_SECONDS", "TIMEOUT_SECONDS")),
    ):
        for limit in limits:
            monkeypatch.setattr(module, limit, PATIENCE_SECONDS)


async def test_leases_are_counted_and_those_that_do_not_add_up_are_found(database_url: str) -> None:
    async with ledger_of(database_url, BALANCE) as database, process(database_url, "proc_0") as one:
        await lease(one)
        assert (await verify(database)).counts["leases"] == 1
        for change, invariant in (
            ("leases SET amount_nano_usd = amount_nano_usd + %s", "leased_is_sum_of_leases"),
            ("accounts SET leased_nano_usd = leased_nano_usd + %s", "leased_is_sum_of_leases"),
            (
                "processes SET heartbeat_at = heartbeat_at - %s * interval '31 s'",
                "lease_has_a_live_process",
            ),
            ("leases SET process_id = 'proc_' || (1 + %s) / 2", "lease_has_a_live_process"),
        ):
            for sign in (1, -1):
                await database.execute(f"UPDATE {change}", (sign,))
                found = {fault["invariant"] for fault in (await verify(database)).faults}
                assert found == ({invariant} if sign == 1 else set()), change


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("reason", "amount", "cap"),
    [("insufficient_funds", BALANCE // 7, None), ("spend_cap", AMOUNT, 7 * AMOUNT + 50)],
)
async def test_hundred_callers_for_a_balance_or_a_cap_of_seven_calls_are_seven(
    database_url: str, count: int, reason: str, amount: int, cap: int | None
) -> None:
    """Each process has a lease, which is unused; balance or cap are for seven of the calls."""
    async with (
        ledger_of(database_url, BALANCE) as database,
        processes(database_url, count) as found,
    ):
        for one in found:
            await lease(one)
        assert len(await leased_by(database)) == count
        requested = [found[number % count].hold(amount, cap=cap) for number in range(100)]
        replies = await asyncio.gather(*requested, return_exceptions=True)
        refused = [reply for reply in replies if isinstance(reply, HoldRefused)]
        assert len(refused) == 93
        assert {one.reason for one in refused} == {reason}
        assert await open_holds(database) == 7
        await top_up(database, ACCOUNT, BALANCE)
        assert await found[-1].hold(BALANCE // 2)  # by the next request, in every process
        assert await found[0].hold(BALANCE // 2)


@pytest.mark.usefixtures("patience")
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


USD = 10**9
CALL = USD // 100


async def granted(requested: Iterable[Coroutine[Any, Any, Any]]) -> int:
    """How many of these holds are granted; the others are refused as the balance is spent."""
    replies = await asyncio.gather(*requested, return_exceptions=True)
    refused = [reply for reply in replies if isinstance(reply, BaseException)]
    assert all(isinstance(one, HoldRefused) for one in refused), refused
    assert {one.reason for one in refused} <= {"insufficient_funds"}  # type: ignore[attr-defined]
    return len(replies) - len(refused)


# As `leases_call_back`, whose notification comes too late.
CALLED_BACK_UNHEARD = """
    CREATE OR REPLACE FUNCTION leases_call_back(p_account text) RETURNS void LANGUAGE sql AS $$
        UPDATE leases SET called_at = clock_timestamp()
        WHERE account_id = p_account AND called_at IS NULL;
        UPDATE accounts SET unleased_until = clock_timestamp() + interval '3 seconds'
        WHERE id = p_account
    $$
"""


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("count", [2, 3])
async def test_after_a_call_a_little_above_its_hold_as_many_are_admitted_as_the_rest_covers(
    database_url: str, count: int
) -> None:
    """Its process has no lease, and what the balance has beside the leases of others is held."""
    async with (
        ledger_of(database_url, USD) as database,
        processes(database_url, count) as (mine, *others),
    ):
        dear = await mine.hold(CALL)
        for one in others:
            await lease(one, CALL, calls=40)
        await asyncio.gather(*(one.wallets.settled(ACCOUNT) for one in others))
        balance, held = await read_balance(database, ACCOUNT) or (0, 0)
        leased = sum((await leased_by(database)).values())
        await mine.hold(balance - held - leased, cap=USD)
        await database.execute(CALLED_BACK_UNHEARD)
        excess = leased % CALL + 1  # one call less
        assert excess < leased // 16
        mine.settle(dear, CALL + excess, held=CALL)
        await mine.wallets.covered(ACCOUNT)  # then its client has the last byte
        requested = (others[number % len(others)].hold(CALL) for number in range(100))
        assert await granted(requested) == (leased - excess) // CALL


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_what_a_call_costs_above_its_hold_keeps_no_client_waiting_where_its_lease_has_room(
    database_url: str, count: int, is_written: bool
) -> None:
    """The balance has nothing beside the leases: they are called back, and none is passed."""
    async with (
        ledger_of(database_url, USD) as database,
        processes(database_url, count) as found,
    ):
        mine = found[0]
        for one in found:
            await lease(one, CALL, calls=12)
        dear = await mine.hold(CALL)
        if is_written:
            await eventually(lambda: is_held(database, dear), what="the hold")
        await asyncio.gather(*(one.wallets.settled(ACCOUNT) for one in found))
        balance, held = await read_balance(database, ACCOUNT) or (0, 0)
        rest = balance - held - sum((await leased_by(database)).values())
        await mine.hold(rest, cap=USD)
        mine.settle(dear, CALL + CALL // 2, held=CALL)
        with pytest.raises(StopIteration):  # at once
            mine.wallets.covered(ACCOUNT).send(None)
        requested = (found[number % count].hold(CALL) for number in range(100))
        assert await granted(requested) == (balance - rest - CALL - CALL // 2) // CALL


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("left", [-USD // 10, 4 * USD // 1000, USD // 10, 6 * USD // 10])
async def test_after_a_call_far_above_its_hold_as_many_are_admitted_as_the_rest_covers(
    database_url: str, left: int, count: int, is_written: bool
) -> None:
    """Each process has a lease of its own, and most of them have nothing to do with that call."""
    async with (
        ledger_of(database_url, USD) as database,
        processes(database_url, count) as found,
    ):
        for one in found:
            await lease(one, CALL, calls=12)
        assert sum((await leased_by(database)).values()) > count * 14 * CALL
        dear = await found[0].hold(CALL)
        if is_written:
            await eventually(lambda: is_held(database, dear), what="the hold")
        found[0].settle(dear, USD - left, held=CALL)
        await found[0].wallets.covered(ACCOUNT)  # then its client has the last byte
        requested = (found[(number + 1) % count].hold(CALL) for number in range(100))
        assert await granted(requested) == max(0, left) // CALL


async def test_leases_that_a_balance_no_longer_covers_are_called_back_whatever_took_it(
    database_url: str,
) -> None:
    """By a notification, and by the next heartbeat of a process that missed it."""
    async with (
        ledger_of(database_url, USD) as database,
        processes(database_url, 1) as found,
        process(database_url, "proc_deaf") as deaf,
        process(database_url, "proc_other") as other,
    ):
        for one in (*found, deaf):
            await lease(one, CALL)
        other.settle(await other.hold(CALL), USD - CALL)  # what it held is not known, as here
        await eventually(lambda: is_unleased(database, "proc_0"), what="the first lease is back")
        assert await leased_by(database) != {}
        answering = asyncio.create_task(deaf.neighbours.run())
        await deaf.heartbeat.beat()
        await eventually(lambda: is_unleased(database, "proc_deaf"), what="the other, too")
        assert await granted(one.hold(CALL) for one in (found[0], deaf) for _ in range(5)) == 1
        answering.cancel()


async def test_lease_that_is_called_back_does_not_grow(database_url: str) -> None:
    """Not even when the time is over in which nothing is leased; its end is its process's."""
    async with ledger_of(database_url, USD) as database, process(database_url, "proc_0") as one:
        await lease(one, CALL)
        before = await leased_by(database)
        await database.fetch_all("SELECT leases_call_back(%s)", (ACCOUNT,))
        await database.execute("UPDATE accounts SET unleased_until = NULL")
        grown = await apply(database, "proc_0", Batch(changes=[LeaseChange(ACCOUNT, CALL)]), 1000)
        assert (grown.leases, grown.called) == ({ACCOUNT: before["proc_0"]}, [ACCOUNT])
        assert await leased_by(database) == before


async def test_batches_confirm_no_lease(database_url: str) -> None:
    """Least of all those of a process that others have declared dead: settlements alone."""
    async with ledger_of(database_url, USD), process(database_url, "proc_0") as one:
        await lease(one, CALL)
        held = await one.hold(CALL, job_id="job_1")
        before = one.identity.confirmed_at
        await one.database.fetch_one(SQL["declare_dead"], ("proc_0", "proc_1", None))
        one.settle(held, 1)
        await one.wallets.settled(ACCOUNT)
        assert one.identity.confirmed_at == before


@logs("lease_taken")
async def test_balance_that_another_process_leases_is_unavailable_and_never_spent(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still, and is not dead. Its lease is taken when it admits nothing from it."""
    monkeypatch.setattr(wallets, "HOLD_SECONDS", 2.0)
    async with (
        ledger_of(database_url, USD) as database,
        processes(database_url, 1) as (one,),
        process(database_url, "proc_still") as still,
    ):
        await lease(still, CALL, calls=12)
        admitted = await still.hold(CALL)
        await eventually(lambda: is_held(database, admitted), what="the hold")
        await silence(database, "proc_still", 5)
        requested = [one.hold(9 * USD // 10) for _ in range(3)]
        replies = await asyncio.gather(*requested, return_exceptions=True)
        assert [type(reply) for reply in replies] == [BalanceLeased] * 3
        for _ in range(4):
            await one.recovery.sweep()
            assert (await leased_by(database))["proc_still"] > 0
            await one.beat_for(3)
        await one.recovery.sweep()
        await one.hold(USD - 2 * CALL)
        # By its own clock it admits nothing any more, until a beat tells it what is gone.
        still.identity.confirmed_at -= CONFIRMED_SECONDS
        with pytest.raises(HoldRefused):
            await still.hold(2 * CALL)
        await still.heartbeat.beat()
        still.is_confirmed()
        with pytest.raises(HoldRefused):
            await still.hold(2 * CALL)
        answering = asyncio.create_task(still.neighbours.run())
        await eventually(lambda: has_no_lease(database, "proc_still"), what="the end of its lease")
        still.settle(admitted, CALL)
        await still.wallets.settled(ACCOUNT)
        assert await read_balance(database, ACCOUNT) == (USD - CALL, USD - 2 * CALL)
        answering.cancel()


async def is_held(database: Database, call: CallFacts) -> bool:
    sql = "SELECT EXISTS (SELECT FROM holds WHERE call_id = %s)"
    return bool((await database.fetch_all(sql, (str(call.call_id),)))[0][0])


async def is_unleased(database: Database, process_id: str) -> bool:
    return not (await leased_by(database)).get(process_id)


async def has_no_lease(database: Database, process_id: str) -> bool:
    return process_id not in await leased_by(database)


@logs("calls_recovered")
async def test_dead_process_leaves_calls_and_no_lease(database_url: str, tmp_path: Path) -> None:
    """One call had been answered, one had begun: neither was ever written."""
    async with ledger_of(database_url, BALANCE) as database:
        async with process(database_url, "proc_dead", pid=GONE, data_dir=tmp_path) as dead:
            await lease(dead)
            dead.writer.leases.due = lambda count: []  # type: ignore[method-assign]
            served, begun = await dead.hold(AMOUNT), await dead.hold(AMOUNT)
            dead.writer.tell = lambda message: None  # type: ignore[method-assign]
            dead.settle(served, 33)
        assert await open_holds(database) == 0
        assert (await leased_by(database)).keys() == {"proc_dead"}
        async with process(database_url, gone_pids=frozenset({GONE}), data_dir=tmp_path) as judge:
            assert await judge.recovery.sweep() == 2
            assert await rows_of(database, served.call_id) == [("success", None, 33)]
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

    async def settle(self, hold: Hold, end: ClaimEnd, *, cost: int = 40) -> Applied:
        ended = outcome(cost, "success" if cost else "error")
        return await self.apply(settlements=[encode_settlement(hold.facts, ended, claim_end=end)])

    async def age(self, **interval: float) -> None:
        """Let so much time pass for the keys."""
        ((unit, amount),) = interval.items()
        await self.database.execute(
            "UPDATE idempotency SET expires_at = expires_at - make_interval(" + unit + " => %s)",
            (amount,),
        )


Step = Callable[[Book, list[Hold]], Awaitable[Any]]


@asynccontextmanager
async def book(url: str) -> AsyncIterator[Book]:
    async with Database(url) as database:
        await open_account(database, 1000)
        await open_account(database, 1000, "acct_b", "key of acct_b")
        yield Book(database)
        assert (await verify(database)).faults == []


async def test_key_is_in_flight_until_settled_then_stored_for_seven_days(database_url: str) -> None:
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
        settled = encode_settlement(first.facts, outcome(0, "error"), claim_end=Free())
        applied = await b.apply(settlements=[settled], holds=[second])
        assert (applied.taken, applied.refused) == ({}, {})
        assert await b.ask(b.hold()) == ["in_flight"]
        await b.apply(settlements=[encode_void(second.facts, has_claim=True)])
        assert await b.ask(b.hold()) == ["granted"]


def ends(end: ClaimEnd, cost: int = 40, of: int = 0) -> Step:
    return lambda b, calls: b.settle(calls[of], end, cost=cost)


def passes(**interval: float) -> Step:
    return lambda b, _: b.age(**interval)


def is_recovered(b: Book, calls: list[Hold]) -> Awaitable[Any]:
    ended = outcome(0, "interrupted")
    return b.apply(settlements=[encode_settlement(calls[0].facts, ended, is_recovery=True)])


def is_given_up(b: Book, calls: list[Hold]) -> Awaitable[Any]:
    return b.apply(settlements=[encode_void(calls[0].facts, has_claim=True)])


# What happens to a call with a key, each step with how the key stands for the next call; None: not
# asked. Of several settlements the first that is applied counts.
WAYS: list[list[tuple[Step, str | None]]] = [
    [(ends(None, 0), "in_flight"), (passes(secs=590), "in_flight"), (passes(secs=10), "granted")],
    [(ends(KEPT), None), (ends(Free()), "stored")],
    [(is_recovered, "in_flight"), (ends(KEPT), None), (ends(ResponseTooLarge()), "stored")],
    [(is_recovered, None), (ends(Free(), 0), None), (ends(ResponseTooLarge()), "granted")],
    [(is_recovered, None), (ends(None, 0), None), (ends(ResponseTooLarge()), "in_flight")],
    [(is_recovered, None), (is_given_up, "granted")],
    # It ran out, and is another call's: the late response is not its.
    [
        (is_recovered, None),
        (passes(mins=10), "granted"),
        (ends(KEPT), "in_flight"),
        (ends(KEPT, of=1), "stored"),
    ],
]


@pytest.mark.parametrize("way", WAYS)
async def test_key_is_its_calls_until_that_ends_or_it_runs_out(
    way: list[tuple[Step, str | None]], database_url: str
) -> None:
    async with book(database_url) as b:
        calls = [b.hold()]
        assert await b.ask(*calls) == ["granted"]
        assert await b.ask(*calls) == ["granted"]  # sent again
        for step, then in way:
            await step(b, calls)
            if then is not None:
                calls.append(b.hold())
                assert await b.ask(calls[-1]) == [then]


async def test_first_in_a_batch_gets_the_key_and_only_with_the_money(database_url: str) -> None:
    async with book(database_url) as b:
        rich = b.hold()
        poor = Hold(facts=b.hold().facts, amount_nano_usd=5000, claim=rich.claim)
        stranger = b.hold(account="acct_b")  # another account's keys are its own
        requested = [poor, stranger, rich, b.hold(), b.hold(body=b"two"), b.hold("other")]
        granted = ["insufficient_funds", "granted", "granted"]
        assert await b.ask(*requested) == [*granted, "in_flight", "in_flight", "granted"]


async def test_claims_from_many_processes_at_once_grant_one(database_url: str) -> None:
    async with book(database_url) as b:
        batches = [[b.hold(), b.hold(), b.hold("mine")] for _ in range(8)]
        databases = [Database(database_url, size=1) for _ in batches]
        for seq in range(8):
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
