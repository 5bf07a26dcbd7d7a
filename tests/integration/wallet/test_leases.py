"""Leases of real processes on one database: their races, and their deaths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from actors.store.database import Database
from actors.wallet.ledger import read_balance, top_up
from actors.wallet.wallets import HoldRefused, Neighbours
from tests.integration.actors.process import (
    GONE,
    Process,
    ledger_of,
    open_holds,
    process,
    process_ids,
    rows_of,
)
from tests.integration.money import ACCOUNT

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


async def test_calls_in_memory_and_calls_in_the_database_share_a_balance(
    database_url: str,
) -> None:
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
        assert await read_balance(database, ACCOUNT) == (
            BALANCE - 5 * AMOUNT,
            BALANCE - 5 * AMOUNT,
        )


async def test_dead_process_leaves_its_calls_and_no_lease(
    database_url: str, expect_log: Callable[..., None], tmp_path: Path
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
