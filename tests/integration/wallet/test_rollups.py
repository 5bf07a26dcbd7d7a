"""Sums over the ledger on a real PostgreSQL: rollups, margins, costs, repair."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from actors.store.database import Database
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Hold, Outcome, Record, Settle
from actors.wallet.piece_prices import ImagePrice
from actors.wallet.repair import repair
from actors.wallet.rows import encode_settlement
from actors.wallet.sheets import token_price
from actors.wallet.verify import verify
from channels.families import TOKEN_PRICES
from channels.prices import PriceSpec
from tests.integration.cli.command import Gw
from tests.integration.money import ACCOUNT, PROCESS, entry_guards, open_account
from tests.support.aio import run
from tests.support.ledger_values import facts, hold, outcome, refused, settle
from tests.support.logs import logs
from tests.support.prices import kept_of, spec_of, usage_of

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


def settled(number: int, at: float, cost: int = 5) -> Settle:
    tokens = {"input_tokens": 7, "output_tokens": 3, "cached_tokens": 2}
    return settle(number, cost, created_at=at, **tokens)


def unknown(number: int, at: float, code: str) -> Record:
    return refused(number, model="unknown", created_at=at, error_code=code)


async def buckets(database: Database) -> list[tuple[int, str, str, str, int, int, int]]:
    found = await database.fetch_all(
        "SELECT hours, to_char(bucket AT TIME ZONE 'UTC', 'MM-DD HH24'), status, error_code,"
        " requests, cost_nano_usd, input_tokens + output_tokens + cached_tokens"
        " FROM call_log_rollups ORDER BY hours, bucket, status, error_code"
    )
    return [tuple(row) for row in found]


async def test_a_batch_is_counted_by_hour_and_day_of_utc(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        await database.execute("SET TIME ZONE 'Asia/Kolkata'")
        holds = [hold(n, 9) for n in (1, 2, 3)]
        await apply(database, PROCESS, Batch(holds=holds))
        batch = Batch(
            settlements=[
                settled(1, MIDNIGHT - 0.000001),
                settled(2, MIDNIGHT),
                settled(3, MIDNIGHT + 3599.999),
            ],
            records=[unknown(4, MIDNIGHT + 3600, "a"), unknown(5, MIDNIGHT + 3600, "b")],
        )
        await apply(database, PROCESS, batch)
        expected = [
            (1, "02-28 23", "success", "", 1, 5, 12),
            (1, "03-01 00", "success", "", 2, 10, 24),
            (1, "03-01 01", "rejected", "a", 1, 0, 0),
            (1, "03-01 01", "rejected", "b", 1, 0, 0),
            (24, "02-28 00", "success", "", 1, 5, 12),
            (24, "03-01 00", "rejected", "a", 1, 0, 0),
            (24, "03-01 00", "rejected", "b", 1, 0, 0),
            (24, "03-01 00", "success", "", 2, 10, 24),
        ]
        assert await buckets(database) == expected
        await apply(database, PROCESS, batch)  # sent again after a lost connection
        assert await buckets(database) == expected
        assert (await verify(database)).faults == []


async def test_rows_that_are_corrected_or_taken_out_leave_the_sums(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        holds = [hold(n, 9) for n in (1, 2)]
        await apply(database, PROCESS, Batch(holds=holds))
        recovered = Outcome(
            status="interrupted",
            cost_nano_usd=1,
            created_at=MIDNIGHT + 20,
            latency_ms=1,
            error_code="gateway_restarted",
        )
        late = encode_settlement(facts(1), recovered, is_recovery=True)
        batch = Batch(settlements=[late, settled(2, MIDNIGHT + 30)])
        await apply(database, PROCESS, batch)
        # In another month by its own instant, where it would have had another row.
        await apply(database, PROCESS, Batch(settlements=[settled(1, MIDNIGHT - 9e6)]))
        assert await buckets(database) == [
            (1, "03-01 00", "success", "", 2, 10, 24),
            (24, "03-01 00", "success", "", 2, 10, 24),
        ]
        assert (await verify(database)).faults == []
        await database.execute("DELETE FROM call_logs WHERE request_id = %s", (str(UUID(int=1)),))
        assert [row[4:] for row in await buckets(database)] == [(1, 5, 12), (1, 5, 12)]
        await database.execute("DELETE FROM call_logs")
        assert await buckets(database) == []


CORRECTION_LIES = {
    "an entry of its own": "INSERT INTO entries"
    " (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd)"
    " SELECT account_id, key_id, call_id, kind, 0, 0 FROM entries WHERE kind = 'correction'",
    "a record without an entry": "INSERT INTO call_log_corrections (call_id, account_id, cause,"
    " corrected_by, row_id, row_before, cost_before_nano_usd, cost_after_nano_usd, booked_nano_usd)"
    " SELECT call_id, account_id, 'duplicate_row', 'x', row_id, row_before, 5, 4, 1"
    " FROM call_log_corrections",
    "a call that was never recovered": "DELETE FROM recovered_calls",
}


@pytest.mark.parametrize("lie", CORRECTION_LIES.values(), ids=CORRECTION_LIES)
async def test_correction_that_is_not_what_was_booked_is_found(database_url: str, lie: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        held = hold(1, 9)
        await apply(database, PROCESS, Batch(holds=[held]))
        recovered = Outcome(
            status="interrupted", cost_nano_usd=1, created_at=MIDNIGHT, latency_ms=1
        )
        for settle in (
            encode_settlement(facts(1), recovered, is_recovery=True),
            settled(1, MIDNIGHT),
        ):
            await apply(database, PROCESS, Batch(settlements=[settle]))
        assert (await verify(database)).faults == []
        await database.execute(lie)
        found = {fault["invariant"] for fault in (await verify(database)).faults}
        assert found == {"correction_has_its_record"}


@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE call_log_rollups SET requests = requests + 1 WHERE hours = 24",
        "UPDATE call_log_rollups SET cached_tokens = 0 WHERE hours = 1",
        "DELETE FROM call_log_rollups WHERE hours = 1",
        "INSERT INTO call_log_rollups SELECT 'acct_b', hours, bucket, key_id, model, status,"
        " unit_type, error_code, 1, 0, 0, 0, 0 FROM call_log_rollups WHERE hours = 24",
    ],
)
async def test_a_sum_that_is_not_the_rows_is_found(database_url: str, lie: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        await apply(database, PROCESS, Batch(holds=[hold(1, 9)]))
        await apply(database, PROCESS, Batch(settlements=[settled(1, MIDNIGHT)]))
        assert (await verify(database)).faults == []
        await database.execute(lie)
        faults = (await verify(database)).faults
        assert {fault["invariant"] for fault in faults} == {"rollup_is_sum_of_rows"}
        assert len(faults) == 1


async def test_rows_of_refused_calls_hold_the_lock_of_their_account(database_url: str) -> None:
    """Or two writers could wait for each other's sums, each holding an account the other wants."""

    free = "SELECT id FROM accounts FOR NO KEY UPDATE SKIP LOCKED"

    async with Database(database_url) as database:
        await open_account(database, 10_000)
        async with database.transaction() as session:
            await apply(session, PROCESS, Batch(records=[unknown(1, MIDNIGHT, "a")]))
            assert await database.fetch_all(free) == []
        assert await database.fetch_all(free) == [(ACCOUNT,)]


async def rows(database: Database) -> dict[int, Any]:
    """Cost and channel of each call's row, by its number."""
    found = await database.fetch_all(
        "SELECT request_id::text, upstream_cost_nano_usd, channel_id FROM call_logs"
    )
    return {UUID(call).int: (cost, channel) for call, cost, channel in found}


async def margins(database: Database) -> list[tuple[Any, ...]]:
    found = await database.fetch_all(
        "SELECT day::text, channel_id, requests, unknown_costs, cost_nano_usd,"
        " upstream_cost_nano_usd FROM call_log_margins ORDER BY 1, 2"
    )
    return [tuple(row) for row in found]


async def drift(database: Database) -> list[Any]:
    """Sums that are not those of the rows."""
    return await database.fetch_all(
        "SELECT * FROM (SELECT (created_at AT TIME ZONE 'UTC')::date AS day, account_id, model,"
        " coalesce(channel_id, '')"
        " || CASE WHEN upstream_cost_nano_usd IS NULL THEN ' ?' ELSE '' END AS channel_id,"
        " count(*) AS n,"
        " count(*) - count(upstream_cost_nano_usd) AS unknown, sum(cost_nano_usd) AS cost,"
        " coalesce(sum(upstream_cost_nano_usd), 0) AS upstream"
        " FROM call_logs GROUP BY 1, 2, 3, 4) e"
        " FULL JOIN call_log_margins m USING (day, account_id, model, channel_id)"
        " WHERE (e.n, e.unknown, e.cost, e.upstream) IS DISTINCT FROM"
        " (m.requests, m.unknown_costs, m.cost_nano_usd, m.upstream_cost_nano_usd)"
    )


async def test_cost_of_a_call_is_in_its_row_and_in_the_sums_of_its_day(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        await apply(database, PROCESS, Batch(holds=[hold(n, 9) for n in range(1, 6)]))
        bought: list[dict[str, Any]] = [
            {"upstream_cost_nano_usd": 3, "channel_id": 'a "b"\\,{c}'},
            {"upstream_cost_nano_usd": 0, "channel_id": "main"},
            {"upstream_cost_nano_usd": None, "channel_id": "main"},
            {"upstream_cost_nano_usd": 8, "channel_id": "main", "attempts": [{"seq": 1}]},
            {},  # as recovery settles
        ]
        at = [MIDNIGHT - 1, MIDNIGHT, MIDNIGHT, MIDNIGHT, MIDNIGHT]
        settlements = [
            settle(number, 5, created_at=when, **more)
            for number, (when, more) in enumerate(zip(at, bought, strict=True), start=1)
        ]
        batch = Batch(settlements=settlements, records=[refused(6, created_at=MIDNIGHT)])
        await apply(database, PROCESS, batch)
        assert await rows(database) == {
            1: (3, 'a "b"\\,{c}'),
            2: (0, "main"),
            3: (None, "main"),
            4: (8, "main"),
            5: (None, None),
            6: (0, None),  # it was refused before a channel was asked
        }
        assert await margins(database) == [
            ("2026-02-28", 'a "b"\\,{c}', 1, 0, 5, 3),
            ("2026-03-01", "", 1, 0, 0, 0),
            ("2026-03-01", " ?", 1, 1, 5, 0),
            ("2026-03-01", "main", 2, 0, 10, 8),
            ("2026-03-01", "main ?", 1, 1, 5, 0),
        ]
        await apply(database, PROCESS, batch)  # sent again after a lost connection
        assert await drift(database) == []
        assert (await verify(database)).faults == []


async def test_true_settlement_after_recovery_brings_its_cost(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        await apply(database, PROCESS, Batch(holds=[hold(n, 9) for n in (1, 2, 3)]))
        recovered = [
            encode_settlement(facts(n), outcome(1, "interrupted", seconds=20.0), is_recovery=True)
            for n in (1, 2, 3)
        ]
        await apply(database, PROCESS, Batch(settlements=recovered))
        true = settle(1, 7, upstream_cost_nano_usd=4, channel_id="main")
        failed = settle(2, 0, "error", error_code="x", upstream_cost_nano_usd=2, channel_id="spare")
        await apply(database, PROCESS, Batch(settlements=[true, failed], records=[refused(3)]))
        assert await rows(database) == {1: (4, "main"), 2: (2, "spare"), 3: (0, None)}
        assert await drift(database) == []
        await database.execute("DELETE FROM call_logs WHERE channel_id IS NOT NULL")
        assert [row[1:] for row in await margins(database)] == [("", 1, 0, 0, 0)]
        await database.execute("DELETE FROM call_logs")
        assert await margins(database) == []


CALLS = 400


def usd(random: Random) -> Decimal:
    digits, places = random.randrange(1, 11), random.randrange(10)
    return Decimal(random.randrange(int("9" * digits))).scaleb(-places)


def perhaps(random: Random) -> Decimal | None:
    return usd(random) if random.random() < 0.5 else None


def priced(random: Random) -> tuple[str, int, dict[str, Any]]:
    """A protocol, the cost of a call of it, and what its row keeps."""
    multiplier = random.choice([Decimal(1), Decimal("0.3"), Decimal("1.0001"), Decimal("0")])
    if random.random() < 0.3:
        images = ImagePrice.of(
            PriceSpec(
                per_image=usd(random),
                per_image_large=perhaps(random),
                per_reference=perhaps(random),
            ),
            multiplier,
        )
        counts = {"standard": random.randrange(1, 9), "large": random.randrange(5), "references": 2}
        detail = {"price": images.stated, "units": {name: n for name, n in counts.items() if n}}
        return "images", images.cost_nano_usd(**counts), {"detail": detail}
    if random.random() < 0.5:
        plain: dict[str, Any] = {name: perhaps(random) for name in TOKEN_PRICES}
        price = token_price(PriceSpec(**plain), multiplier)
    else:
        price = token_price(spec_of(random), multiplier)
    usage = usage_of(random)
    row = {
        "detail": kept_of(price, usage),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }
    return "chat", price.cost_nano_usd(usage), row


async def settle_costs(
    database: Database, calls: Sequence[tuple[str, int, Mapping[str, Any]]]
) -> None:
    """One settled call for each."""
    await open_account(database, 4 * 10**18)
    holds, settlements = [], []
    for number, (protocol, cost, row) in enumerate(calls, start=1):
        who, ended = facts(number, protocol=protocol), outcome(cost, **row)
        holds.append(Hold(facts=who, amount_nano_usd=1))
        settlements.append(encode_settlement(who, ended))
    await apply(database, PROCESS, Batch(holds=holds))
    await apply(database, PROCESS, Batch(settlements=settlements))


async def test_every_cost_is_worked_out_alike(database_url: str) -> None:
    async with Database(database_url) as database:
        random = Random(4711)
        made = [priced(random) for _ in range(CALLS)]
        calls = [call for call in made if call[1] < 10**15]  # together no more than there is
        assert len({kind for kind, _, _ in calls}) == 2
        assert len(calls) > CALLS / 2
        await settle_costs(database, calls)
        assert (await verify(database, with_costs=True)).faults == []


WRONG = {
    "cost": "cost_nano_usd = cost_nano_usd + 1",
    "tokens": "output_tokens = output_tokens + 1",
    "parts of the input": "cached_tokens = cached_tokens + 1",
    "price": 'detail = replace(detail::text, \'"output":"10"\', \'"output":"11"\')::json',
    "no price": "detail = NULL",
    "no cost": "cost_nano_usd = 0",
}


@pytest.mark.parametrize("assignment", WRONG.values(), ids=WRONG)
async def test_cost_other_than_price_by_count_is_found(database_url: str, assignment: str) -> None:
    price = {"input": "1", "output": "10", "cached_input": "0.1", "multiplier": "0.5"}
    row = {"detail": {"price": price}, "input_tokens": 10, "output_tokens": 4, "cached_tokens": 5}

    async with Database(database_url) as database:
        await settle_costs(database, [("chat", 22_750, row)])
        assert (await verify(database, with_costs=True)).faults == []
        await database.execute(f"UPDATE call_logs SET {assignment}")
        faults = (await verify(database, with_costs=True)).faults
        assert "cost_is_price_times_counts" in {fault["invariant"] for fault in faults}


LATE, PAID, TWICE, PLAIN, OPEN = range(1, 6)


def recovered(number: int, cost: int) -> Settle:
    return settle(number, cost, "interrupted", seconds=16.0, error_code="gateway_restarted")


async def make_rows_twice(url: str) -> None:
    """Calls settled as recovery does, without its note of them: a refusal adds a row."""
    async with Database(url) as database:
        await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
        await open_account(database, 10_000)
        numbers = (LATE, PAID, TWICE, PLAIN, OPEN)
        holds = [hold(number) for number in numbers]
        await apply(database, PROCESS, Batch(holds=holds))
        settled = settle(PLAIN, 40)
        await apply(
            database,
            PROCESS,
            Batch(
                settlements=[recovered(LATE, 0), recovered(PAID, 30), recovered(TWICE, 0), settled]
            ),
        )
        why = {"error_code": "internal_error"}
        records = [refused(one, seconds=17.0, **why) for one in (LATE, PAID, TWICE)]
        await apply(database, PROCESS, Batch(records=records))
        again = refused(TWICE, seconds=18.0, **why)
        await apply(database, PROCESS, Batch(records=[again]))


async def faults(url: str) -> list[str]:
    async with Database(url) as database:
        return sorted({fault["invariant"] for fault in (await verify(database)).faults})


@pytest.fixture
def gw(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Gw:
    run(make_rows_twice(database_url))
    return Gw(tmp_path, database_url, capsys)


def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    async def main() -> list[tuple[Any, ...]]:
        async with Database(url) as database:
            return await database.fetch_all(sql)

    return run(main())


ROWS = "SELECT request_id::text, status, cost_nano_usd FROM call_logs ORDER BY request_id, id"
BALANCE = "SELECT balance_nano_usd, held_nano_usd FROM accounts"


def test_rows_too_many_are_shown_then_taken_out_and_kept(gw: Gw, database_url: str) -> None:
    assert run(faults(database_url)) == ["settlement_has_its_row"]
    before = query(database_url, ROWS)

    shown = gw.run_json("ledger", "repair", "--by", "Ann")
    assert (shown["applied"], len(shown["calls"])) == (False, 3)
    assert query(database_url, ROWS) == before
    late, paid, twice = shown["calls"]
    assert late["stays"]["status"] == paid["stays"]["status"] == "rejected"
    assert [row["status"] for row in late["goes"]] == ["interrupted"]
    assert (paid["paid_usd"], paid["booked_usd"]) == ("0.00000003", "0.00000003")
    assert [row["status"] for row in twice["goes"]] == ["rejected", "interrupted"]

    done = gw.run_json("ledger", "repair", "--by", "Ann", "--apply")
    assert done == {**shown, "applied": True}
    assert run(faults(database_url)) == []
    rejected = [(str(UUID(int=number)), "rejected", 0) for number in (LATE, PAID, TWICE)]
    assert query(database_url, ROWS) == [*rejected, (str(UUID(int=PLAIN)), "success", 40)]
    assert query(database_url, BALANCE) == [(10_000 - 40, 100)]  # what was taken is back
    assert query(database_url, "SELECT spent_nano_usd FROM key_spend") == [(40,)]
    kept = query(
        database_url,
        "SELECT call_id::text, cause::text, corrected_by, row_before ->> 'status',"
        " (row_before ->> 'id')::bigint = row_id, booked_nano_usd"
        " FROM call_log_corrections ORDER BY id",
    )
    gone = dict.fromkeys((LATE, PAID), "interrupted")
    assert kept == [
        (str(UUID(int=LATE)), "duplicate_row", "Ann", gone[LATE], True, None),
        (str(UUID(int=PAID)), "duplicate_row", "Ann", gone[PAID], True, 30),
        (str(UUID(int=TWICE)), "duplicate_row", "Ann", "rejected", True, None),
        (str(UUID(int=TWICE)), "duplicate_row", "Ann", "interrupted", True, None),
    ]
    again = gw.run_json("ledger", "repair", "--apply")
    assert again["calls"] == []
    assert "@" in again["by"]


def test_repaired_database_goes_on(gw: Gw, database_url: str) -> None:
    gw.run_json("ledger", "repair", "--apply")

    async def main() -> None:
        async with Database(database_url) as database:
            settled = settle(OPEN, 60, seconds=20.0)
            fresh = hold(9)
            applied = await apply(database, PROCESS, Batch(settlements=[settled], holds=[fresh]))
            assert applied.unsettled == frozenset()
            assert not applied.is_buried
            assert applied.balances == [[ACCOUNT, 10_000 - 100, 100, 0]]

    run(main())
    assert run(faults(database_url)) == []


def test_answer_for_people_says_what_is_done(gw: Gw) -> None:
    message = gw.run("ledger", "repair")
    assert message.exit_code == 0
    assert "3 calls: nothing was changed; --apply does it" in message.out
    assert "3 calls: repaired" in gw.run("ledger", "repair", "--apply").out
    assert "nothing to repair" in gw.run("ledger", "repair").out


@logs("database_refused")
def test_what_was_kept_of_a_row_is_never_changed(gw: Gw, database_url: str) -> None:
    gw.run_json("ledger", "repair", "--apply")  # which runs a loop of its own

    async def change() -> None:
        async with Database(database_url) as database:
            for statement in ("UPDATE {} SET corrected_by = 'x'", "DELETE FROM {}", "TRUNCATE {}"):
                with pytest.raises(Exception, match="append-only"):
                    await database.execute(statement.format("call_log_corrections"))

    run(change())


async def test_call_of_a_sealed_month_is_repaired_and_proved_from_there(database_url: str) -> None:
    async with Database(database_url) as database:
        await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
        await open_account(database, 10_000)
        await apply(database, PROCESS, Batch(holds=[hold(PAID)]))
        await apply(database, PROCESS, Batch(settlements=[recovered(PAID, 30)]))
        await database.execute(
            f"{entry_guards('DISABLE')}; UPDATE entries SET created_at = '2024-03-15 12:00+00';"
            f" {entry_guards('ENABLE')}; SELECT entries_make_months('2024-03-01', 1)"
        )
        sealed = (await verify(database)).sealed
        assert len(sealed) == 1
        await apply(database, PROCESS, Batch(records=[refused(PAID, seconds=17.0)]))
        assert not (await verify(database)).ok
        (done,) = await repair(database, by="Ann", is_applied=True)
        assert (done.paid_nano_usd, done.booked_nano_usd) == (30, 30)
        assert await ledger.read_balance(database, ACCOUNT) == (10_000, 0)
        report = await verify(database)
        assert (report.faults, report.since) == ([], sealed[0])
        assert (await verify(database, is_everything=True)).faults == []
