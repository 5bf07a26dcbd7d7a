"""The sums per hour and day equal the rows, whoever writes these, and a lie is found."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Outcome, Record, Settle
from actors.wallet.verify import verify
from tests.integration.money import ACCOUNT, PROCESS, open_account
from tests.support.ledger_values import facts, hold, refused, settle

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
        late = Settle(facts=facts(1), outcome=recovered, is_recovery=True)
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
async def test_a_correction_that_is_not_what_was_booked_is_found(
    database_url: str, lie: str
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        held = hold(1, 9)
        await apply(database, PROCESS, Batch(holds=[held]))
        recovered = Outcome(
            status="interrupted", cost_nano_usd=1, created_at=MIDNIGHT, latency_ms=1
        )
        for settle in (
            Settle(facts=facts(1), outcome=recovered, is_recovery=True),
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
