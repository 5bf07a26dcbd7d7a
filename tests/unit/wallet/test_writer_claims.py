"""What the writer does with idempotency keys: who is told, what goes back, what is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from actors.wallet import writer
from actors.wallet.messages import Claim, Hold, KeptResponse, LedgerUnavailable
from actors.wallet.wallets import KeyTaken
from actors.wallet.writer import GATHER_MAX_SECONDS
from tests.support.aio import eventually
from tests.support.ledger_values import ACCOUNT, facts, hold, outcome
from tests.unit.wallet.bank import Bank, bank


def claiming(number: int, key: str = "k", fingerprint: bytes = b"one") -> Hold:
    return replace(hold(number), claim=Claim(key=key, fingerprint=fingerprint))


def kept(body: bytes = b"{}") -> KeptResponse:
    return KeptResponse(status=200, headers=(("Content-Type", "application/json"),), body=body)


async def state(b: Bank, number: int, **claim: Any) -> str:
    with pytest.raises(KeyTaken) as taken:
        await b.wallets.hold(claiming(number, **claim))
    return taken.value.state


async def test_hundred_claims_of_one_key_hold_once() -> None:
    async with bank() as b:
        answers = await asyncio.gather(
            *(b.wallets.hold(claiming(n)) for n in range(100)), return_exceptions=True
        )
        taken = [a.state for a in answers if isinstance(a, KeyTaken)]
        assert taken == ["in_flight"] * 99
        assert b.ledger.held[ACCOUNT] == 100
        b.clock.advance(GATHER_MAX_SECONDS)
        b.wallets.settle(facts(0), outcome(40), claim_end=kept())
        assert await state(b, 100) == "stored"
        assert await state(b, 101, fingerprint=b"two") == "reuse"
        assert b.ledger.faults() == []


async def test_key_claimed_for_a_client_that_left_is_free_again() -> None:
    async with bank() as b:
        b.ledger.gate = asyncio.Event()
        asked = asyncio.create_task(b.wallets.hold(claiming(1)))
        await eventually(lambda: not b.writer.is_idle)
        asked.cancel()
        await asyncio.wait([asked])
        b.ledger.gate.set()
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.claims.rows == {}
        await b.wallets.hold(claiming(2))


async def test_key_claimed_unseen_by_a_lost_database_is_free_again(
    expect_log: Callable[..., None],
) -> None:
    expect_log("ledger_unreachable")

    async with bank() as b:
        b.ledger.lose_after = 1  # committed, and nobody heard of it
        asked = asyncio.create_task(b.wallets.hold(claiming(1)))
        await eventually(lambda: bool(b.ledger.claims.rows))
        b.ledger.lose_before = 1
        b.clock.advance(6.0)
        with pytest.raises(LedgerUnavailable):
            await asked
        while b.ledger.claims.rows:
            b.clock.advance(1.0)
            await asyncio.sleep(0)
        await b.wallets.hold(claiming(2))
        assert b.ledger.faults() == []


async def test_answer_that_the_database_refuses_does_not_keep_the_call_from_being_settled(
    expect_log: Callable[..., None],
) -> None:
    expect_log("ledger_batch_failed")

    async with bank() as b:
        await b.wallets.hold(claiming(1))
        b.ledger.refuses_answers = True
        b.wallets.settle(facts(1), outcome(40), claim_end=kept())
        assert await state(b, 2) == "too_large"
        assert (b.ledger.balances[ACCOUNT], b.ledger.held[ACCOUNT]) == (960, 0)
        assert b.ledger.faults() == []


async def test_batch_takes_only_so_many_bytes_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RESPONSE_BYTES_MAX", 100)

    async with bank() as b:
        for number in range(5):
            await b.wallets.hold(claiming(number, key=f"k{number}"))
        b.ledger.batches.clear()
        for number in range(5):
            b.wallets.settle(facts(number), outcome(1), claim_end=kept(b"x" * 60))
        await b.wallets.settled(ACCOUNT)
        assert b.ledger.batches == [2, 2, 1]


def test_answers_stay_out_of_the_log() -> None:
    assert "secret picture" not in repr(kept(b"secret picture"))
