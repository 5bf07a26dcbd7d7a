"""Months of the call log: made ahead, filled from the default one, dropped when they are old."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from actors.partitions import SQL, Partitions, first_kept
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.wallet import ledger
from actors.wallet.attribution import Attribution
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Hold
from actors.wallet.rows import encode_settlement
from actors.wallet.stored_values import StoredValues
from actors.wallet.verify import SQL as VERIFY
from actors.wallet.verify import verify
from metrics.prometheus import Metrics
from tests.integration.money import ACCOUNT, PROCESS, entry_guards, open_account
from tests.support.aio import eventually
from tests.support.clock import FakeClock
from tests.support.ledger_values import facts, outcome, refused
from tests.support.logs import ExpectLog, logs
from tests.support.rows import each

COST = 1000


def at(year: int, month: int, day: int = 15, hour: int = 0) -> float:
    return datetime(year, month, day, hour, tzinfo=UTC).timestamp()


async def settle(database: Database, number: int, ended_at: float, *, is_aged: bool = True) -> None:
    """A call that cost something, settled when it ended."""
    who = facts(number, submitted_at=ended_at - 1, attribution=Attribution(run="r"))
    await apply(database, PROCESS, Batch(holds=[Hold(facts=who, amount_nano_usd=COST)]))
    settled = encode_settlement(who, outcome(COST, created_at=ended_at, input_tokens=7))
    values = StoredValues(lambda: 9)
    applied = await apply(database, PROCESS, Batch(settlements=[settled]), values=values)
    assert applied.unsettled == frozenset()
    if not is_aged:
        return
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
    await apply(database, PROCESS, Batch(records=[record]))


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


def keeper(
    database: Database, now: float, months: int | None = None, ledger_months: int | None = None
) -> Partitions:
    clock = FakeClock()
    clock.advance(now - clock.now())
    return Partitions(
        database=database,
        retention_months=lambda: months,
        ledger_retention_months=lambda: ledger_months,
        clock=clock,
        metrics=Metrics(),
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
            await settle(database, number, ended, is_aged=False)
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
        await settle(database, 7, at(2032, 3), is_aged=False)
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
        for sums in ("rollups", "attributed", "attributed_spans", "attributed_built"):
            at_of = "bucket" if sums in ("rollups", "attributed") else "start"
            oldest = (
                f"SELECT to_char(min({at_of}) AT TIME ZONE 'UTC', 'YYYY-MM') FROM call_log_{sums}"
            )
            assert await database.fetch_one(oldest) == ("2024-05",), sums
        dropped = await database.fetch_all(
            "SELECT month::text, row_count, cost_nano_usd FROM call_log_dropped ORDER BY 1"
        )
        assert dropped == [("2024-03-01", 3, 2 * COST), ("2024-04-01", 2, 2 * COST)]
        assert await ledger.read_balance(database, ACCOUNT) == (94 * COST, 0)
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


async def test_nothing_is_dropped_without_a_command_nor_of_the_current_month(
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


@logs("months_not_dropped", "partitions_postponed")
async def test_reader_of_the_whole_log_delays_the_upkeep_and_no_settlement(
    database_url: str,
) -> None:
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


async def spans_a_border(database: Database) -> None:
    """An account with a month that has ended: calls settled, recovered, and one still open."""
    await open_account(database, 100 * COST)
    for number in range(1, 4):
        await settle(database, number, at(2024, 3))
    held = Hold(facts=facts(4, submitted_at=at(2024, 3)), amount_nano_usd=5)
    late = Hold(facts=facts(5, submitted_at=at(2024, 3)), amount_nano_usd=5)
    await apply(database, PROCESS, Batch(holds=[held, late]))
    recovered = encode_settlement(late.facts, outcome(1, created_at=at(2024, 5)), is_recovery=True)
    await apply(database, PROCESS, Batch(settlements=[recovered]))
    async with database.transaction() as session:
        await session.execute(entry_guards("DISABLE"))
        await session.execute("UPDATE entries SET created_at = '2024-03-15 12:00+00'")
        await session.execute(entry_guards("ENABLE"))
    # A gateway is seen to live whatever was put back.
    await keeper(database, at(2024, 5, 31)).round()


async def test_clean_proof_seals_what_has_ended_and_begins_there(database_url: str) -> None:
    async with Database(database_url) as database:
        await spans_a_border(database)
        first = await verify(database)
        assert (first.faults, first.since) == ([], None)
        assert first.counts["entries"] == 10
        assert first.sealed[0].startswith("2024-04-01")
        # The open call is settled, the truth of the recovered one comes, across the border.
        await settle_late(database, 4, 2)
        await settle_late(database, 5, 3)
        second = await verify(database)
        assert (second.faults, second.since) == ([], first.sealed[-1])
        assert second.counts["entries"] == 2
        everything = await verify(database, is_everything=True)
        assert (everything.faults, everything.since) == ([], None)
        assert everything.counts["entries"] == 12


async def settle_late(database: Database, number: int, cost: int) -> None:
    truth = encode_settlement(
        facts=facts(number, submitted_at=at(2024, 3)), outcome=outcome(cost, created_at=at(2024, 5))
    )
    await apply(database, PROCESS, Batch(settlements=[truth]))


async def test_entries_go_once_they_have_a_checkpoint_and_no_row_of_theirs_is_left(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        await spans_a_border(database)
        gone = "SELECT to_regclass('entries_2024_03') IS NULL"

        async def round_keeping(log: int | None) -> bool:
            one = keeper(database, at(2024, 12), log, 2)
            await one.round()
            (response,) = await database.fetch_one(gone) or (None,)
            return bool(response)

        assert not await round_keeping(1)  # no checkpoint
        await database.execute("UPDATE holds SET created_at = '2024-03-15'")
        await assert_proved(database)
        await settle(database, 6, at(2024, 4, 2), is_aged=False)
        await keeper(database, at(2024, 4)).round()
        assert not await round_keeping(None)  # a row is left that may be of its calls
        sums = "SELECT sum(amount_nano_usd)::int, sum(held_nano_usd)::int FROM movements('{}')"
        last = "SELECT max(ends_at)::text FROM entry_months WHERE sealed_at IS NOT NULL"
        (border,) = await database.fetch_one(last) or ("",)
        before = await database.fetch_one(sums.format(border))
        await database.execute("DELETE FROM call_logs WHERE false")
        assert await round_keeping(1)
        assert await database.fetch_one(sums.format(border)) == before
        # What was open when it was dropped is settled; a second settlement does nothing.
        await settle_late(database, 4, 2)
        await settle_late(database, 4, 2)
        assert await ledger.read_balance(database, ACCOUNT) == (100 * COST - 4 * COST - 3, 0)


LIES = {
    "a sum": "ALTER TABLE checkpoint_sums DISABLE TRIGGER USER;"
    " UPDATE checkpoint_sums SET amount_nano_usd = amount_nano_usd + 1 WHERE key_id = ''",
    "a hold that was open is forgotten": "DELETE FROM checkpoint_entries WHERE kind = 'hold'",
    "an entry of a sealed month": f"{entry_guards('DISABLE')}; UPDATE entries SET"
    " amount_nano_usd = amount_nano_usd - 1 WHERE kind = 'settle' AND amount_nano_usd = -1000",
    "an entry more": "INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd,"
    " held_nano_usd, created_at) SELECT account_id, key_id, call_id, 'correction', 0, 0,"
    " created_at FROM entries WHERE kind = 'settle'",
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_checkpoint_that_is_not_what_was_is_found_and_nothing_is_dropped(
    database_url: str, lie: str, expect_log: ExpectLog
) -> None:
    async with Database(database_url) as database:
        await spans_a_border(database)
        await assert_proved(database)
        await database.execute(lie)
        report = await verify(database, is_everything=True)
        assert "checkpoint_is_what_was_kept" in {fault["invariant"] for fault in report.faults}
        if "hold" not in lie.partition("WHERE")[2]:
            expect_log("months_not_dropped", "database_refused")
            await keeper(database, at(2024, 12), 1, 2).round()
            kept = "SELECT to_regclass('entries_2024_03') IS NOT NULL"
            assert await database.fetch_one(kept) == (True,)


async def test_clock_that_goes_back_into_a_sealed_month_books_after_it(database_url: str) -> None:
    """The same to the ledger: the month of now is sealed."""
    async with Database(database_url) as database:
        await spans_a_border(database)
        (today,) = (await database.fetch_one("SELECT extract(epoch FROM now())::float8")) or (0,)
        await keeper(database, today).round()
        first = await verify(database)
        assert first.faults == []
        ends = await database.fetch_one(
            "SELECT ends_at::text FROM entry_months WHERE ends_at > now() ORDER BY ends_at LIMIT 1"
        )
        assert ends is not None
        span = {"since": first.sealed[-1], "ends": ends[0]}
        async with database.transaction() as session:
            for statement in VERIFY["seal"].split(";"):
                await session.execute(statement, span)
        await settle_late(database, 4, 2)  # that was held before, and one that recovery settled
        await settle_late(database, 5, 3)
        await settle(database, 6, at(2024, 5), is_aged=False)
        await ledger.top_up(database, ACCOUNT, 5)
        await ledger.correct(database, ACCOUNT, -3)
        before = "SELECT count(*) FROM entries WHERE created_at >= %s::timestamptz"
        assert await database.fetch_one(before, (ends[0],)) == (6,)
        second = await verify(database)
        assert (second.faults, second.since) == ([], ends[0])
        assert (await verify(database, is_everything=True)).faults == []


async def test_faulty_month_is_not_sealed(database_url: str) -> None:
    async with Database(database_url) as database:
        await spans_a_border(database)
        await database.execute("UPDATE accounts SET balance_nano_usd = balance_nano_usd + 1")
        report = await verify(database)
        assert report.faults
        assert not report.sealed


KEPT: dict[str, tuple[Any, ...]] = {
    "one month": ((2026, 11, 21), 1, (2026, 10, 1)),
    "over the year": ((2026, 1, 31), 1, (2025, 12, 1)),
    "a year": ((2026, 12, 1), 12, (2025, 12, 1)),
    "many years": ((2026, 2, 28), 1200, (1926, 2, 1)),
}


@each("today, months, first", KEPT.values())
def test_whole_months_are_kept(
    today: tuple[int, int, int], months: int, first: tuple[int, int, int]
) -> None:
    assert first_kept(datetime(*today).date(), months) == datetime(*first).date()


async def test_row_that_waits_while_its_month_is_made_is_written_by_the_next_attempt(
    database_url: str,
) -> None:
    row = "INSERT INTO entries (account_id, kind, amount_nano_usd, held_nano_usd, created_at)"
    row += f" VALUES ('{ACCOUNT}', 'topup', 1, 0, '2031-05-05')"
    blocked = (
        "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
        " WHERE NOT l.granted AND a.query LIKE 'INSERT INTO entries%'"
        " AND a.datname = current_database()"
    )
    async with Database(database_url) as database:
        await open_account(database, COST)

        async def is_waiting() -> bool:
            return await database.fetch_one(blocked) == (1,)

        async with database.transaction() as maker:
            await maker.execute("LOCK TABLE entries_default IN ACCESS EXCLUSIVE MODE")
            late = asyncio.create_task(database.execute(row))
            await eventually(is_waiting)
            await maker.execute("SELECT entries_make_months('2031-05-01', 1)")
        with pytest.raises(StoreUnavailable, match="partition"):
            await late
        await database.execute(row)
        where = "SELECT tableoid::regclass::text FROM entries WHERE created_at >= '2031-05-05'"
        assert await database.fetch_all(where) == [("entries_2031_05",)]
