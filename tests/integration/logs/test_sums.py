"""The summary on PostgreSQL against the same rows added up in Python, whatever the window."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tornado.escape import parse_qs_bytes

from gw.api.logs.summary import SummaryQuery, read_summary_query, read_sums, show_summary
from tests.integration.logs.model import see, window_of
from tests.integration.logs.strategies import row_lists, windows
from tests.integration.logs.table import NOW, Table, fill
from tests.support.call_log import Row

pytestmark = pytest.mark.long

CREDITS = Decimal(1000)


def read(parameters: dict[str, str]) -> SummaryQuery:
    query = {name: [value.encode()] for name, value in parameters.items()}
    return read_summary_query(query, see=see, now=NOW)


def figures(rows: list[Row]) -> dict[str, Any]:
    cost = Decimal(sum(row.cost_nano_usd for row in rows)) * CREDITS / 10**9
    return {
        "requests": len(rows),
        "cost": cost,
        "input_tokens": sum(row.input_tokens for row in rows),
        "output_tokens": sum(2 * row.input_tokens for row in rows),
        "cached_tokens": sum(row.input_tokens // 2 for row in rows),
    }


def exact(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "cost": Decimal(line["cost"])}


def expected(rows: list[Row], parameters: dict[str, str]) -> dict[str, Any]:
    start, end = window_of(parameters)
    found = [
        row
        for row in rows
        if row.account_id == "acct_a"
        and (parameters["scope"] == "account" or row.key_id == "key_a")
        and start <= row.created_at < end
    ]
    days: dict[str, list[Row]] = defaultdict(list)
    models: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        days[row.created_at.date().isoformat()].append(row)
        models[row.model].append(row)
    return {
        "total": figures(found),
        "status_counts": {
            status: sum(row.status == status for row in found)
            for status in ("success", "error", "interrupted", "rejected")
        },
        "by_day": [{"date": day, **figures(days[day])} for day in sorted(days)],
        "by_model": {
            model: (len(rows), figures(rows)["cost"], sum(3 * row.input_tokens for row in rows))
            for model, rows in models.items()
        },
    }


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rows=row_lists(),
    asked=st.lists(windows.filter(lambda w: w.get("period") != "all"), min_size=8, max_size=8),
    scope=st.sampled_from(("key", "account")),
)
def test_sums_are_those_of_the_rows(
    table: Table, rows: list[Row], asked: list[dict[str, str]], scope: str
) -> None:
    async def main() -> None:
        # Nothing has happened after now: `cover` reckons with that.
        written = await fill(table.database, [row for row in rows if row.created_at < NOW])
        for window in asked:
            parameters = {**window, "scope": scope}
            query = read(parameters)
            sums = await read_sums(table.database, query.visibility, query.window, NOW)
            shown = show_summary(query, sums, CREDITS)
            models = shown["by_model"]
            assert models == sorted(
                models, key=lambda one: (-Decimal(one["cost"]), -one["requests"], one["model"])
            )
            found = {
                "total": exact(shown["total"]),
                "status_counts": shown["status_counts"],
                "by_day": [exact(day) for day in shown["by_day"]],
                "by_model": {
                    one["model"]: (one["requests"], Decimal(one["cost"]), one["total_tokens"])
                    for one in models
                },
            }
            assert found == expected(written, parameters), parameters

    table.run(main())


def test_rows_of_clocks_that_are_ahead_are_counted_exactly_too(table: Table) -> None:
    """A row a little in the future is left out of a window that ends now, like from the list."""

    async def main() -> None:
        rows = [
            Row(
                number=number,
                created_at=NOW.replace(microsecond=place),
                account_id="acct_a",
                key_id="key_a",
                cost_nano_usd=5,
            )
            for number, place in enumerate((0, 1, 2), start=1)
        ]
        await fill(table.database, rows)
        now: datetime = NOW.replace(microsecond=1)
        query = read_summary_query(parse_qs_bytes("period=today"), see=see, now=now)
        sums = await read_sums(table.database, query.visibility, query.window, now)
        assert [(one.requests, one.cost_nano_usd) for one in sums["day"]] == [(1, 5)]

    table.run(main())
