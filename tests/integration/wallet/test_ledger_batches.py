"""What one batch may hold without spoiling the others in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from actors.store.database import Database
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Settle, Void
from actors.wallet.verify import verify
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.ledger_values import facts, hold, settle


@asynccontextmanager
async def held(url: str, *numbers: int) -> AsyncIterator[Database]:
    """A ledger on which these calls hold 100 of 1000 each."""
    async with Database(url) as database:
        await open_account(database, 1000)
        holds = [hold(number) for number in numbers]
        applied = await apply(database, PROCESS, Batch(holds=holds))
        assert applied.refused == {}
        yield database
        assert (await verify(database)).faults == []


ODD: dict[str, Mapping[str, Any]] = {
    "NUL in the detail": {"detail": {"upstream_id": "a\x00b"}},
    "half a character in the detail": {"detail": {"finish_reason": "a\ud800b"}},
    "the other half as a name": {"detail": {"\udc00": [1, {"deep": "\x00"}]}},
    "NUL in an attempt": {"attempts": [{"error_message": "\x00", "seq": 1}]},
    "an emoji": {"detail": {"finish_reason": "😀"}, "error_message": "😀"},
    "NUL and half a character in the message": {"error_message": "\x00\udfff"},
    "more than a machine word": {"detail": {"estimate": [10**30, 1]}},
    "backslashes": {"detail": {"path": "\\u0000 \\ud800"}},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
async def test_odd_text_never_keeps_a_call_from_being_settled(
    odd: Mapping[str, Any], database_url: str
) -> None:
    async with held(database_url, 1, 2) as database:
        settlements = [
            settle(1, 10, **odd),
            settle(2, 20),
        ]
        applied = await apply(database, PROCESS, Batch(settlements=settlements))
        assert applied.settled == {UUID(int=1), UUID(int=2)}
        assert applied.balances == {ACCOUNT: (970, 0)}


async def test_call_settled_twice_in_one_batch_is_settled_once_by_the_first(
    database_url: str,
) -> None:
    async with held(database_url, 1, 2) as database:
        settlements: list[Settle | Void] = [
            settle(1, 10),
            settle(1, 50),
            Void(facts=facts(2)),
            settle(2, 50),
        ]
        applied = await apply(database, PROCESS, Batch(settlements=settlements))
        assert applied.balances == {ACCOUNT: (990, 0)}
        rows = await database.fetch_all("SELECT request_id::text, cost_nano_usd FROM call_logs")
        assert rows == [(str(UUID(int=1)), 10)]


async def test_what_is_held_is_not_there_for_the_next_batch(database_url: str) -> None:
    async with held(database_url) as database:
        for number, amount, refused in ((1, 600, {}), (2, 600, {0: "insufficient_funds"})):
            batch = Batch(holds=[hold(number, amount)])
            applied = await apply(database, PROCESS, batch)
            assert applied.refused == refused
        assert await ledger.read_balance(database, ACCOUNT) == (1000, 600)


async def test_holds_of_one_batch_share_one_balance(database_url: str) -> None:
    async with held(database_url) as database:
        batch = Batch(holds=[hold(1, 600), hold(2, 600), hold(3, 300)])
        applied = await apply(database, PROCESS, batch)
        assert applied.refused == {1: "insufficient_funds"}
        batch = Batch(holds=[hold(4, 60, 970), hold(5, 30, 970), hold(6, 5, 970)])
        applied = await apply(database, PROCESS, batch)
        assert applied.refused == {1: "spend_cap"}


async def test_free_delivery_is_no_refund(database_url: str) -> None:
    async with held(database_url, 1, 2) as database:
        free = [settle(1, 0, "success"), settle(2, 0, "error")]
        await apply(database, PROCESS, Batch(settlements=free))
        kinds = await database.fetch_all(
            "SELECT kind::text FROM entries WHERE kind IN ('settle', 'refund') ORDER BY call_id"
        )
        assert kinds == [("settle",), ("refund",)]
