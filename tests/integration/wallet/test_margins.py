"""What calls cost the operator is kept in their rows and added up by day, account and channel."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Settle
from actors.wallet.verify import verify
from tests.integration.money import ACCOUNT, KEY, PROCESS, open_account
from tests.support.ledger_values import facts, hold, outcome, refused, settle

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


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
            Settle(
                facts=facts(n), outcome=outcome(1, "interrupted", seconds=20.0), is_recovery=True
            )
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


async def test_gateway_of_the_release_before_settles_calls_of_unknown_cost(
    database_url: str,
) -> None:
    """Its settlements have nothing of it: what is rare is null, or an object without it."""
    async with Database(database_url) as database:
        await open_account(database, 10_000)
        await apply(database, PROCESS, Batch(holds=[hold(1, 9), hold(2, 9)]))
        common = "5,1790000001,1790000000,chat,m,success,1,1,0,5,f,"
        rare = r"\"{\\\"error_code\\\":\\\"x\\\"}\""
        written = f'{{"({UUID(int=1).hex},{common})","({UUID(int=2).hex},{common}{rare})"}}'
        await database.fetch_all(
            "SELECT ledger_apply(%s, %s, NULL, %s, '[null,null]', NULL, NULL, NULL, NULL)",
            (PROCESS, f'{{"({ACCOUNT},10)"}}', written),
        )
        assert await rows(database) == {1: (None, None), 2: (None, None)}
        assert [row[1:] for row in await margins(database)] == [(" ?", 2, 2, 10, 0)]
        assert await database.fetch_one(
            "SELECT count(*) FROM call_logs WHERE key_id = %s AND error_code = 'x'", (KEY,)
        ) == (1,)
