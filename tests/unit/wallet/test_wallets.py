"""Wallets and their leases, and a machine over the ledger."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from actors.wallet import leases, messages, writer
from actors.wallet import wallets as module
from actors.wallet.demand import SILENT_SECONDS
from actors.wallet.leases import (
    CALLED_BACK_SECONDS,
    CONFIRMED_SECONDS,
    WRITE_SECONDS,
)
from actors.wallet.messages import Hold, LedgerUnavailable
from actors.wallet.wallets import (
    HOLD_SECONDS,
    IDLE_SECONDS,
    LEASED_MAX_SECONDS,
    BalanceLeased,
    HoldRefused,
)
from tests.support.aio import eventually, waited
from tests.support.ledger_values import ACCOUNT, facts, hold, outcome
from tests.support.logs import logs
from tests.unit.wallet.bank import Bank, bank


async def test_idle_wallet_is_forgotten_and_read_again() -> None:
    async with bank(balance=1000) as b:
        await b.hold(hold(1))
        b.clock.advance(IDLE_SECONDS)
        b.wallets.forget_idle()
        assert repr(b.wallets) == "<Wallets 1 accounts 0 waiting>"
        b.clock.advance(1.0)
        b.wallets.forget_idle()
        assert repr(b.wallets) == "<Wallets 0 accounts 0 waiting>"
        assert await waited(b.wallets.available(ACCOUNT)) == 900
        b.clock.advance(IDLE_SECONDS + 1.0)
        b.wallets.forget_idle()
        assert repr(b.wallets) == "<Wallets 0 accounts 0 waiting>"


def is_funded(b: Bank) -> bool:
    """Whether a check finds money without a read."""
    found = b.wallets.available(ACCOUNT)
    if isinstance(found, Coroutine):
        found.close()
        return False
    return found > 0


async def test_account_is_funded_as_far_as_its_wallet_has_seen() -> None:
    async with bank(balance=100) as b:
        assert not is_funded(b)  # nobody has looked yet
        assert await waited(b.wallets.available(ACCOUNT)) == 100
        assert is_funded(b)
        await b.hold(hold(1))
        assert not is_funded(b)


async def test_balance_seen_elsewhere_is_for_a_wallet_that_knows_nothing() -> None:
    async with bank(balance=100) as b:
        b.wallets.note_balance(ACCOUNT, 0)
        assert repr(b.wallets) == "<Wallets 0 accounts 0 waiting>"
        b.wallets.note_balance(ACCOUNT, 100)
        assert is_funded(b)
        await b.hold(hold(1))  # takes all of it
        b.wallets.note_balance(ACCOUNT, 100)  # was read before
        assert not is_funded(b)
        assert await waited(b.wallets.available(ACCOUNT)) == 0


async def test_wallet_that_waits_for_its_ledger_stays() -> None:
    async with bank(balance=1000) as b:
        await b.hold(hold(1))
        b.ledger.gate = asyncio.Event()
        b.wallets.settle(facts(1), outcome(250))
        b.clock.advance(IDLE_SECONDS + 1.0)
        b.wallets.forget_idle()
        assert repr(b.wallets) == "<Wallets 1 accounts 0 waiting>"
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.balances[ACCOUNT] == 750


@logs("row_dropped")
async def test_more_holds_than_may_wait_are_refused_and_rows_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    async with bank(balance=1000) as b:
        # Of different accounts: no single one of them has many.
        for number in range(1, 4):
            b.ledger.open_account(f"acct_{number}", f"key_{number}", 100)
        theirs = [
            facts(number, account_id=f"acct_{number}", key_id=f"key_{number}")
            for number in range(1, 4)
        ]
        request = (b.hold(Hold(facts=who, amount_nano_usd=1)) for who in theirs)
        waiting = list(map(asyncio.ensure_future, request))
        await asyncio.sleep(0)
        with pytest.raises(LedgerUnavailable):
            await b.hold(hold(9))
        assert len(await asyncio.gather(*waiting)) == 3
        await b.hold(hold(10))
        for number in range(11, 16):
            b.wallets.record(facts(number), outcome(0, "rejected"))
        await b.wallets.settled(ACCOUNT)
        assert len(b.ledger.rows) == 3


BALANCE = 100_000
FIRST = 10  # the number of the first call that no test needs by itself


@asynccontextmanager
async def leased(balance: int = BALANCE) -> AsyncIterator[Bank]:
    """An account that asks for so much that part of it is leased."""
    async with bank(balance) as b:
        for number in (1, 2, 3):
            await b.hold(hold(number))
            b.wallets.settle(facts(number), outcome(7))
        await b.wallets.settled(ACCOUNT)
        assert lease_of(b) > 0
        b.ledger.batches.clear()
        yield b


def lease_of(b: Bank) -> int:
    return b.ledger.leases.get(("p", ACCOUNT), 0)


def is_held_in_ledger(b: Bank, number: int) -> bool:
    return UUID(int=number) in b.ledger.holds


async def test_leased_account_waits_for_nothing_and_its_hold_is_written_with_its_settlement() -> (
    None
):
    async with leased() as b:
        before = len(b.ledger.entries)
        b.ledger.gate = asyncio.Event()  # the database stands still
        for number in range(FIRST, FIRST + 5):
            await b.hold(hold(number))
            b.wallets.settle(facts(number), outcome(30))
        assert b.ledger.batches == []
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        kinds = [entry[3] for entry in b.ledger.entries[before:]]
        assert sorted(kinds) == ["hold"] * 5 + ["settle"] * 5
        assert b.ledger.balances[ACCOUNT] == BALANCE - 3 * 7 - 5 * 30
        assert (b.ledger.held[ACCOUNT], b.ledger.faults()) == (0, [])


async def test_what_a_lease_covers_waits_for_a_reader_or_for_what_frees_a_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messages, "LINGER_SECONDS", 0.0)
    monkeypatch.setattr(messages, "COVERED_LINGER_SECONDS", 3600.0)
    async with leased() as b:
        number = iter(range(FIRST, 1000))

        async def call() -> UUID:
            who = facts(next(number))
            await b.hold(hold(who.call_id.int))
            b.wallets.settle(who, outcome(30))
            return who.call_id

        read = [await call(), await call()]
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.rows.keys() >= set(read)
        written = next(number)
        await b.hold(hold(written))
        b.clock.advance(WRITE_SECONDS * 2)
        await eventually(lambda: is_held_in_ledger(b, written), what="the hold")
        covered = await call()
        b.wallets.record(facts(next(number)), outcome(0, "rejected"))
        for _ in range(10):  # turns of the loop, in the first of which no time would be over
            await asyncio.sleep(0)
        assert covered not in b.ledger.rows
        b.wallets.settle(facts(written), outcome(30))
        await eventually(lambda: b.writer.is_idle, what="the batch")
        assert {covered, UUID(int=written)} <= b.ledger.rows.keys()
        assert b.ledger.faults() == []


async def test_full_batch_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for linger in ("LINGER_SECONDS", "COVERED_LINGER_SECONDS"):
        monkeypatch.setattr(messages, linger, 3600.0)
    async with leased() as b:
        for number in range(FIRST, FIRST + writer.BATCH_FULL):
            await b.hold(hold(number))
            b.wallets.settle(facts(number), outcome(1))
        await eventually(lambda: b.writer.is_idle, what="the batch")
        assert b.ledger.balances[ACCOUNT] == BALANCE - 3 * 7 - writer.BATCH_FULL


async def test_call_that_lasts_is_written_while_it_is_under_way() -> None:
    async with leased() as b:
        await b.hold(hold(FIRST))
        assert not is_held_in_ledger(b, FIRST)
        assert FIRST in b.writer.unsettled()
        b.clock.advance(WRITE_SECONDS * 2)
        await eventually(lambda: is_held_in_ledger(b, FIRST), what="the hold")
        b.wallets.settle(facts(FIRST), outcome(30))
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.faults() == []
        assert b.writer.is_idle


async def test_no_more_is_admitted_than_is_leased() -> None:
    async with leased() as b:
        room = lease_of(b)
        b.ledger.gate = asyncio.Event()
        admitted = [b.writer.leases.admit(hold(n)) for n in range(FIRST, FIRST + room // 100 + 5)]
        assert sum(one is not None for one in admitted) == room // 100
        b.wallets.settle(facts(FIRST), outcome(40))  # and what a call did not cost is there again
        b.wallets.settle(facts(FIRST + 1), outcome(40))
        assert b.writer.leases.admit(hold(1000)) is not None
        assert b.writer.leases.admit(hold(1001)) is None
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.faults() == []


@logs("ledger_unreachable")
async def test_reply_that_is_lost_repeats_nothing() -> None:
    async with leased() as b:
        await b.hold(hold(FIRST))
        b.wallets.settle(facts(FIRST), outcome(30))
        b.ledger.lose_after = 1
        waiting = asyncio.ensure_future(b.wallets.settled(ACCOUNT))
        await eventually(lambda: b.clock.sleepers > 0, what="the pause")
        b.clock.advance(1.0)
        await waiting
        assert b.ledger.balances[ACCOUNT] == BALANCE - 3 * 7 - 30
        assert len(b.writer.leases) == 0
        assert b.ledger.faults() == []


async def test_identity_that_is_not_confirmed_admits_nothing() -> None:
    async with leased() as b:
        b.clock.advance(CONFIRMED_SECONDS + 0.1)
        assert b.writer.leases.admit(hold(FIRST)) is None
        await b.hold(hold(FIRST + 1))
        b.wallets.settle(
            facts(FIRST + 1), outcome(1)
        )  # batches report no lease that is called back
        await b.wallets.settled(ACCOUNT)
        assert b.writer.leases.admit(hold(FIRST + 2)) is None
        b.identity.confirmed_at = b.clock.monotonic()  # as a heartbeat does
        assert b.writer.leases.admit(hold(FIRST + 3)) is not None


@pytest.mark.parametrize("is_written", [False, True])
async def test_call_far_above_its_hold_counts_before_the_ledger_knows_of_it(
    is_written: bool,
) -> None:
    """Out of the lease, or written while it was under way: nothing is admitted after it."""
    async with leased() as b:
        await b.hold(hold(FIRST))
        if is_written:
            b.clock.advance(WRITE_SECONDS * 2)
            await eventually(lambda: is_held_in_ledger(b, FIRST), what="the hold")
        b.ledger.gate = asyncio.Event()  # the database stands still
        b.wallets.settle(facts(FIRST), outcome(BALANCE - 100), held_nano_usd=100)
        assert b.writer.leases.admit(hold(FIRST + 1)) is None
        b.ledger.gate.set()
        await b.wallets.covered(ACCOUNT)
        assert (lease_of(b), b.ledger.faults()) == (0, [])
        for number in range(FIRST + 2, FIRST + 10):
            with pytest.raises(HoldRefused):
                await b.hold(hold(number))


@pytest.mark.parametrize("is_written", [False, True])
async def test_call_little_above_its_hold_counts_with_its_cost_and_calls_nothing_back(
    is_written: bool,
) -> None:
    async with leased() as b:
        room = lease_of(b)
        await b.hold(hold(FIRST))
        if is_written:
            b.clock.advance(WRITE_SECONDS * 2)
            await eventually(lambda: is_held_in_ledger(b, FIRST), what="the hold")
        b.ledger.gate = asyncio.Event()  # the database stands still
        b.wallets.settle(facts(FIRST), outcome(550), held_nano_usd=100)
        counted = 450 if is_written else 550
        numbers = range(FIRST + 1, FIRST + 1 + room // 100)
        admitted = [b.writer.leases.admit(hold(number)) for number in numbers]
        assert sum(one is not None for one in admitted) == (room - counted) // 100
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        assert lease_of(b) > 0
        b.ledger.gate = asyncio.Event()
        numbers = range(FIRST + 1000, FIRST + 1001 + lease_of(b) // 100)
        admitted = [b.writer.leases.admit(hold(number)) for number in numbers]
        assert sum(one is not None for one in admitted) == lease_of(b) // 100
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.faults() == []


async def test_lease_that_the_balance_does_not_cover_is_called_back_by_the_ledger() -> None:
    """Whatever took the money: here a call of another process, which this one learns by a batch."""
    async with leased() as b:
        b.ledger.balances[ACCOUNT] -= BALANCE - 200
        b.ledger.entries.append((ACCOUNT, "key_a", None, "settle", 200 - BALANCE, 0))
        b.ledger.spent_by_key["key_a"] += BALANCE - 200
        b.ledger._look_uncovered([ACCOUNT])
        await b.wallets.ask_ledger(hold(FIRST, 0))
        assert b.writer.leases.admit(hold(FIRST + 1)) is None
        await b.wallets.give_back(ACCOUNT)  # which the notification or the next beat asks for
        assert (lease_of(b), b.ledger.called) == (0, {})
        await b.hold(hold(FIRST + 2))
        with pytest.raises(HoldRefused):
            await b.hold(hold(FIRST + 3))
        assert b.ledger.faults() == []


async def test_lease_that_is_returned_while_the_ledger_is_away_is_used_no_more() -> None:
    async with leased() as b:
        b.ledger.gate = asyncio.Event()
        returning = asyncio.ensure_future(b.wallets.give_back(ACCOUNT))
        await asyncio.sleep(0)
        b.clock.advance(CALLED_BACK_SECONDS * 2)
        b.identity.confirmed_at = b.clock.monotonic()
        assert b.writer.leases.admit(hold(FIRST)) is None
        b.ledger.gate.set()
        await returning
        assert lease_of(b) == 0


async def test_balance_that_silent_processes_lease_is_waited_for_and_then_unavailable() -> None:
    """Never refused as if it were spent; and granted as soon as it is there."""
    async with leased() as b:
        b.ledger.leases["silent", ACCOUNT] = b.ledger.available(ACCOUNT)
        asking = asyncio.ensure_future(b.hold(hold(FIRST, BALANCE // 2)))
        for _ in range(100):
            await eventually(lambda: asking.done() or b.clock.sleepers > 0, what="a pause")
            if asking.done():
                break
            b.clock.advance(LEASED_MAX_SECONDS)
        with pytest.raises(BalanceLeased):
            await asking
        assert b.clock.monotonic() <= 1000.0 + HOLD_SECONDS + 1.0
        asking = asyncio.ensure_future(b.hold(hold(FIRST + 1, BALANCE // 2)))
        await eventually(lambda: b.clock.sleepers > 0, what="a pause")
        called = b.ledger.called["silent", ACCOUNT]
        assert b.ledger.take_lease("silent", ACCOUNT, called) > 0
        b.clock.advance(LEASED_MAX_SECONDS)
        await asking
        assert b.ledger.faults() == []


@logs("taken_for_dead")
async def test_call_of_an_identity_that_was_taken_for_dead_is_written_all_the_same() -> None:
    async with leased() as b:
        await b.hold(hold(FIRST))
        await b.hold(hold(FIRST + 1))
        b.ledger.buried.add("p")
        b.ledger.end_leases("p")
        b.wallets.settle(facts(FIRST), outcome(30))
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.rows[UUID(int=FIRST)]["cost"] == 30
        assert is_held_in_ledger(b, FIRST + 1)
        assert b.ledger.held[ACCOUNT] == 100
        assert b.ledger.faults() == []


async def test_silent_account_gets_its_lease_back() -> None:
    async with leased() as b:
        b.wallets.forget_idle()
        b.clock.advance(SILENT_SECONDS + 0.1)
        b.wallets.forget_idle()
        await b.wallets.settled(ACCOUNT)
        assert lease_of(b) == 0


async def test_lease_is_called_back_before_a_call_is_refused() -> None:
    async with leased() as b:
        wanted = b.ledger.available(ACCOUNT) + 1
        await b.hold(hold(FIRST, wanted))
        assert lease_of(b) == 0
        assert b.writer.leases.admit(hold(FIRST + 1)) is None
        with pytest.raises(HoldRefused) as refused:
            await b.hold(hold(FIRST + 2, wanted))
        assert refused.value.reason == "insufficient_funds"
        b.clock.advance(CALLED_BACK_SECONDS)
        assert b.ledger.faults() == []


async def test_balance_for_few_calls_is_not_leased() -> None:
    async with bank(1_500) as b:
        for number in range(1, 8):
            await b.hold(hold(number))
            b.wallets.settle(facts(number), outcome(1))
        await b.wallets.settled(ACCOUNT)
        assert lease_of(b) == 0


async def test_calls_that_are_not_written_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "UNWRITTEN_MAX", 2)

    async with leased() as b:
        admitted = [b.writer.leases.admit(hold(n)) for n in range(FIRST, FIRST + 4)]
        assert [one is not None for one in admitted] == [True, True, False, False]
        await b.wallets.settled(ACCOUNT)
        assert b.writer.leases.admit(hold(FIRST + 5)) is not None
