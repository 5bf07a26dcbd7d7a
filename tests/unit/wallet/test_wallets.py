"""Which wallets a process lets go of, and that one that waits for its ledger is not among them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from actors.wallet import wallets as module
from actors.wallet.messages import Hold, LedgerUnavailable
from actors.wallet.wallets import IDLE_SECONDS
from tests.support.ledger_values import ACCOUNT, facts, hold, outcome
from tests.unit.wallet.bank import bank


async def test_idle_wallet_is_forgotten_and_read_again() -> None:
    async with bank(balance=1000) as b:
        await b.wallets.hold(hold(1))
        b.clock.advance(IDLE_SECONDS)
        b.wallets.forget_idle()
        assert repr(b.wallets) == "<Wallets 1 accounts 0 waiting>"
        b.clock.advance(1.0)
        b.wallets.forget_idle()
        assert repr(b.wallets) == "<Wallets 0 accounts 0 waiting>"
        assert await b.wallets.available(ACCOUNT) == 900
        b.clock.advance(IDLE_SECONDS + 1.0)
        b.wallets.forget_idle()
        assert repr(b.wallets) == "<Wallets 0 accounts 0 waiting>"


async def test_account_is_funded_as_far_as_its_wallet_has_seen() -> None:
    async with bank(balance=100) as b:
        assert not b.wallets.is_funded(ACCOUNT)  # nobody has looked yet
        assert await b.wallets.available(ACCOUNT) == 100
        assert b.wallets.is_funded(ACCOUNT)
        await b.wallets.hold(hold(1))
        assert not b.wallets.is_funded(ACCOUNT)


async def test_balance_seen_elsewhere_is_for_a_wallet_that_knows_nothing() -> None:
    async with bank(balance=100) as b:
        b.wallets.note_balance(ACCOUNT, 0)
        assert repr(b.wallets) == "<Wallets 0 accounts 0 waiting>"
        b.wallets.note_balance(ACCOUNT, 100)
        assert b.wallets.is_funded(ACCOUNT)
        await b.wallets.hold(hold(1))  # takes all of it
        b.wallets.note_balance(ACCOUNT, 100)  # was read before
        assert not b.wallets.is_funded(ACCOUNT)
        assert await b.wallets.available(ACCOUNT) == 0


async def test_wallet_that_waits_for_its_ledger_stays() -> None:
    async with bank(balance=1000) as b:
        await b.wallets.hold(hold(1))
        b.ledger.gate = asyncio.Event()
        b.wallets.settle(facts(1), outcome(250))
        b.clock.advance(IDLE_SECONDS + 1.0)
        b.wallets.forget_idle()
        assert repr(b.wallets) == "<Wallets 1 accounts 0 waiting>"
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.balances[ACCOUNT] == 750


async def test_more_holds_than_may_wait_are_refused_and_rows_dropped(
    monkeypatch: pytest.MonkeyPatch, expect_log: Callable[..., None]
) -> None:
    expect_log("row_dropped")
    monkeypatch.setattr(module, "WAITING_MAX", 3)
    async with bank(balance=1000) as b:
        # Of different accounts: no single one of them has many.
        for number in range(1, 4):
            b.ledger.open_account(f"acct_{number}", f"key_{number}", 100)
        theirs = [
            facts(number, account_id=f"acct_{number}", key_id=f"key_{number}")
            for number in range(1, 4)
        ]
        waiting = [
            asyncio.ensure_future(b.wallets.hold(Hold(facts=who, amount_nano_usd=1)))
            for who in theirs
        ]
        await asyncio.sleep(0)
        with pytest.raises(LedgerUnavailable):
            await b.wallets.hold(hold(9))
        assert len(await asyncio.gather(*waiting)) == 3
        await b.wallets.hold(hold(10))
        for number in range(11, 16):
            b.wallets.record(facts(number), outcome(0, "rejected"))
        await b.wallets.settled(ACCOUNT)
        assert len(b.ledger.rows) == 3
