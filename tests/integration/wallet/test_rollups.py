"""The sums per hour and day equal the rows, whoever writes these, and a lie is found."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from actors.store.database import Database
from actors.wallet import ledger
from actors.wallet.ledger import Batch
from actors.wallet.messages import CallFacts, Hold, Outcome, Record, Settle
from actors.wallet.verify import verify
from tests.integration.money import ACCOUNT, KEY, PROCESS, open_account
from tests.support.aio import run

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


def facts(number: int, model: str = "m") -> CallFacts:
    return CallFacts(
        call_id=UUID(int=number),
        account_id=ACCOUNT,
        key_id=KEY,
        protocol="chat",
        model=model,
        submitted_at=MIDNIGHT,
    )


def settled(number: int, at: float, cost: int = 5) -> Settle:
    outcome = Outcome(
        status="success",
        cost_nano_usd=cost,
        created_at=at,
        latency_ms=1,
        input_tokens=7,
        output_tokens=3,
        cached_tokens=2,
    )
    return Settle(facts=facts(number), outcome=outcome)


def refused(number: int, at: float, code: str) -> Record:
    outcome = Outcome(
        status="rejected", cost_nano_usd=0, created_at=at, latency_ms=1, error_code=code
    )
    return Record(facts=facts(number, "unknown"), outcome=outcome)


async def buckets(database: Database) -> list[tuple[int, str, str, str, int, int, int]]:
    found = await database.fetch_all(
        "SELECT hours, to_char(bucket AT TIME ZONE 'UTC', 'MM-DD HH24'), status, error_code,"
        " requests, cost_nano_usd, input_tokens + output_tokens + cached_tokens"
        " FROM call_log_rollups ORDER BY hours, bucket, status, error_code"
    )
    return [tuple(row) for row in found]


def test_a_batch_is_counted_by_hour_and_day_of_utc(database_url: str) -> None:
    async def main() -> None:
        async with Database(database_url) as database:
            await open_account(database, 10_000)
            await database.execute("SET TIME ZONE 'Asia/Kolkata'")
            holds = [Hold(facts=facts(n), amount_nano_usd=9) for n in (1, 2, 3)]
            await ledger.apply(database, PROCESS, Batch(holds=holds))
            batch = Batch(
                settlements=[
                    settled(1, MIDNIGHT - 0.000001),
                    settled(2, MIDNIGHT),
                    settled(3, MIDNIGHT + 3599.999),
                ],
                records=[refused(4, MIDNIGHT + 3600, "a"), refused(5, MIDNIGHT + 3600, "b")],
            )
            await ledger.apply(database, PROCESS, batch)
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
            await ledger.apply(database, PROCESS, batch)  # sent again after a lost connection
            assert await buckets(database) == expected
            assert (await verify(database)).faults == []

    run(main())


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
def test_a_sum_that_is_not_the_rows_is_found(database_url: str, lie: str) -> None:
    async def main() -> None:
        async with Database(database_url) as database:
            await open_account(database, 10_000)
            await ledger.apply(
                database, PROCESS, Batch(holds=[Hold(facts=facts(1), amount_nano_usd=9)])
            )
            await ledger.apply(database, PROCESS, Batch(settlements=[settled(1, MIDNIGHT)]))
            assert (await verify(database)).faults == []
            await database.execute(lie)
            faults = (await verify(database)).faults
            assert {fault["invariant"] for fault in faults} == {"rollup_is_sum_of_rows"}
            assert len(faults) == 1

    run(main())


def test_rows_of_refused_calls_hold_the_lock_of_their_account(database_url: str) -> None:
    """Or two writers could wait for each other's sums, each holding an account the other wants."""

    free = "SELECT id FROM accounts FOR NO KEY UPDATE SKIP LOCKED"

    async def main() -> None:
        async with Database(database_url) as database:
            await open_account(database, 10_000)
            async with database.transaction() as session:
                await ledger.apply(session, PROCESS, Batch(records=[refused(1, MIDNIGHT, "a")]))
                assert await database.fetch_all(free) == []
            assert await database.fetch_all(free) == [(ACCOUNT,)]

    run(main())
