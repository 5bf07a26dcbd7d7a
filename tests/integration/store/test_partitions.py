"""Months of the call log: made ahead, filled from the default one, dropped when they are old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from actors.partitions import SQL, Partitions, first_kept
from actors.store.database import Database, StoreUnavailable
from actors.wallet import ledger
from actors.wallet.ledger import Batch
from actors.wallet.messages import Hold, Settle
from actors.wallet.verify import verify
from metrics.prometheus import Metrics
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.clock import FakeClock
from tests.support.ledger_values import facts, outcome, refused

ExpectLog = Callable[..., None]
COST = 1000


def at(year: int, month: int, day: int = 15, hour: int = 0) -> float:
    return datetime(year, month, day, hour, tzinfo=UTC).timestamp()


async def settle(database: Database, number: int, ended_at: float) -> None:
    """A call that cost something, settled when it ended."""
    who = facts(number, submitted_at=ended_at - 1)
    await ledger.apply(database, PROCESS, Batch(holds=[Hold(facts=who, amount_nano_usd=COST)]))
    settled = Settle(facts=who, outcome=outcome(COST, created_at=ended_at, input_tokens=7))
    applied = await ledger.apply(database, PROCESS, Batch(settlements=[settled]))
    assert applied.settled == {who.call_id}
    # The entry is as old as its call; only a test may say so.
    async with database.transaction() as session:
        await session.execute("ALTER TABLE entries DISABLE TRIGGER entries_append_only")
        await session.execute(
            "UPDATE entries SET created_at = to_timestamp(%s) WHERE call_id = %s::uuid",
            (ended_at, str(who.call_id)),
        )
        await session.execute("ALTER TABLE entries ENABLE TRIGGER entries_append_only")


async def refuse(database: Database, number: int, ended_at: float) -> None:
    record = refused(number, created_at=ended_at)
    await ledger.apply(database, PROCESS, Batch(records=[record]))


async def rows_of(database: Database) -> dict[str, int]:
    """How many rows are in each partition that has any."""
    found = await database.fetch_all(
        "SELECT tableoid::regclass::text, count(*) FROM call_logs GROUP BY 1 ORDER BY 1"
    )
    return dict(found)


async def partitions_of(database: Database) -> list[str]:
    found = await database.fetch_all(
        "SELECT inhrelid::regclass::text FROM pg_inherits"
        " WHERE inhparent = 'call_logs'::regclass ORDER BY 1"
    )
    return [name for (name,) in found]


def keeper(database: Database, now: float, months: int | None = None) -> Partitions:
    clock = FakeClock()
    clock.advance(now - clock.now())
    return Partitions(
        database=database, retention_months=lambda: months, clock=clock, metrics=Metrics()
    )


async def assert_proved(database: Database) -> None:
    assert (await verify(database)).faults == []


async def test_this_month_and_the_next_two_are_made_once_by_whoever_comes_first(
    database_url: str,
) -> None:
    async with Database(database_url, size=5) as database:
        before = set(await partitions_of(database))
        several = [keeper(database, at(2031, 11, 30, 23)) for _ in range(5)]
        assert all(await asyncio.gather(*(one.make() for one in several)))
        made = ["call_logs_2031_11", "call_logs_2031_12", "call_logs_2032_01"]
        assert sorted({*await partitions_of(database)} - before) == made
        # An hour later it is another month.
        await keeper(database, at(2031, 12, 1, 0)).round()
        assert "call_logs_2032_02" in await partitions_of(database)


async def test_rows_before_their_month_move_into_it_and_are_counted_once(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 100 * COST)
        border = at(2032, 3, 1)
        for number, ended in enumerate(
            (at(2032, 2), border - 0.001, border, at(2032, 3), at(2032, 9)), start=1
        ):
            await settle(database, number, ended)
        await refuse(database, 6, at(2032, 3, 2))
        assert await rows_of(database) == {"call_logs_default": 6}
        before = await database.fetch_all("SELECT * FROM call_logs ORDER BY id")
        await keeper(database, at(2032, 3)).round()
        assert await rows_of(database) == {
            "call_logs_2032_02": 2,
            "call_logs_2032_03": 3,
            "call_logs_2032_09": 1,
        }
        assert await database.fetch_all("SELECT * FROM call_logs ORDER BY id") == before
        await settle(database, 7, at(2032, 3))
        assert (await rows_of(database))["call_logs_2032_03"] == 4
        await assert_proved(database)


async def test_months_before_the_kept_ones_go_and_the_ledger_is_still_proved(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 100 * COST)
        for number, month in enumerate((3, 3, 4, 5, 6), start=1):
            await settle(database, number, at(2024, month))
        await refuse(database, 6, at(2024, 3))
        # Within a minute of the border, and by the database's clock after it.
        await settle(database, 7, at(2024, 5, 1) - 1)
        await keeper(database, at(2024, 6)).round()
        assert (await rows_of(database)).keys() == {
            f"call_logs_2024_0{month}" for month in (3, 4, 5, 6)
        }
        await keeper(database, at(2024, 6, 30), months=1).round()
        assert await rows_of(database) == {"call_logs_2024_05": 1, "call_logs_2024_06": 1}
        oldest = "SELECT to_char(min(bucket) AT TIME ZONE 'UTC', 'YYYY-MM') FROM call_log_rollups"
        assert await database.fetch_one(oldest) == ("2024-05",)
        dropped = await database.fetch_all(
            "SELECT month::text, row_count, cost_nano_usd FROM call_log_dropped ORDER BY 1"
        )
        assert dropped == [("2024-03-01", 3, 2 * COST), ("2024-04-01", 2, 2 * COST)]
        assert await ledger.read_balance(database, ACCOUNT) == (94 * COST, 0)
        await assert_proved(database)
        # A row of such a month that comes late goes the same way, and is not forgotten.
        await settle(database, 8, at(2024, 3, 31, 23))
        await keeper(database, at(2024, 6, 30), months=1).round()
        await keeper(database, at(2024, 6, 30), months=1).round()
        assert "call_logs_2024_03" not in await rows_of(database)
        await assert_proved(database)


HIDDEN = {
    "row of a kept month": "DELETE FROM call_logs WHERE request_id = '{2}'",
    "cost of a dropped month": "UPDATE call_log_dropped SET cost_nano_usd = cost_nano_usd - 1",
}


@pytest.mark.parametrize("tampering", HIDDEN.values(), ids=HIDDEN)
async def test_missing_row_is_not_excused_by_a_dropped_month(
    database_url: str, tampering: str
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 100 * COST)
        await settle(database, 1, at(2024, 3))
        await settle(database, 2, at(2024, 5))
        await keeper(database, at(2024, 5), months=1).round()
        await assert_proved(database)
        numbers = {f"{{{n}}}": str(UUID(int=n)) for n in (1, 2)}
        await database.execute(tampering.replace("{2}", numbers["{2}"]))
        broken = {fault["invariant"] for fault in (await verify(database)).faults}
        assert "dropped_months_add_up" in broken


async def test_nothing_is_dropped_without_being_asked_nor_of_the_current_month(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 100 * COST)
        (today,) = (await database.fetch_one("SELECT extract(epoch FROM now())::float8")) or (0,)
        await settle(database, 1, at(2020, 1))
        await settle(database, 2, today)
        await keeper(database, today).round()
        assert sum((await rows_of(database)).values()) == 2
        # A clock that runs years ahead drops nothing that is young by the database's own.
        await keeper(database, at(2099, 1), months=1).round()
        assert sum((await rows_of(database)).values()) == 1
        await assert_proved(database)


async def test_several_processes_drop_each_month_once(database_url: str) -> None:
    async with Database(database_url, size=5) as database:
        await open_account(database, 100 * COST)
        for number in range(1, 7):
            await settle(database, number, at(2024, number))
        await keeper(database, at(2024, 6)).round()
        several = [keeper(database, at(2024, 12), months=1) for _ in range(5)]
        await asyncio.gather(*(one.round() for one in several))
        await several[0].round()  # whoever found another at it left the rest to it
        sums = "SELECT sum(row_count)::int, sum(cost_nano_usd)::int FROM call_log_dropped"
        assert await database.fetch_one(sums) == (6, 6 * COST)
        await assert_proved(database)


async def test_reader_of_the_whole_log_delays_the_upkeep_and_no_settlement(
    database_url: str, expect_log: ExpectLog
) -> None:
    expect_log("months_not_dropped")
    expect_log("partitions_postponed")

    async with Database(database_url, size=5) as database:
        await open_account(database, 100 * COST)
        await settle(database, 1, at(2024, 3))
        await settle(database, 2, at(2024, 8))
        await keeper(database, at(2024, 3)).round()
        async with database.transaction() as reader:
            await reader.fetch_all("SELECT count(*) FROM call_logs")
            late = keeper(database, at(2024, 8, 20), months=1)
            upkeep = asyncio.ensure_future(late.round())
            for number in range(3, 20):  # while it waits for the reader, and after
                await settle(database, number, at(2024, 4))
            await upkeep
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                await database.fetch_all(SQL["drop"], ("2024-07-01",))
        assert (await rows_of(database))["call_logs_2024_03"] == 1
        await late.round()
        assert await rows_of(database) == {"call_logs_2024_08": 1}
        await assert_proved(database)


KEPT: dict[str, tuple[Any, ...]] = {
    "one month": ((2026, 11, 21), 1, (2026, 10, 1)),
    "over the year": ((2026, 1, 31), 1, (2025, 12, 1)),
    "a year": ((2026, 12, 1), 12, (2025, 12, 1)),
    "many years": ((2026, 2, 28), 1200, (1926, 2, 1)),
}


@pytest.mark.parametrize(("today", "months", "first"), KEPT.values(), ids=KEPT)
def test_whole_months_are_kept(
    today: tuple[int, int, int], months: int, first: tuple[int, int, int]
) -> None:
    assert first_kept(datetime(*today).date(), months) == datetime(*first).date()
