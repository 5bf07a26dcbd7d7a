"""Every filter and paging on PostgreSQL, against a plain Python model of the same rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.store.database import Database
from gw.logs import pages
from gw.logs.cursor import Cursor, CursorSeal, Place
from gw.logs.list_query import ListQuery, read_list_query
from gw.logs.pages import read_page
from gw.logs.visibility import Scope, Visibility
from tests.integration.logs.strategies import list_queries, row_lists
from tests.integration.logs.table import NOW, Row, fill, make_keys

SEAL = CursorSeal(b"k" * 32)


class Table:
    """One database and one loop for all examples."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.database = Database(url, size=1)
        self.run(make_keys(self.database))

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def close(self) -> None:
        self.run(self.database.close())
        self.runner.close()


@pytest.fixture
def table(database_url: str) -> Iterator[Table]:
    table = Table(database_url)
    yield table
    table.close()


def see(scope: Scope) -> Visibility:
    return Visibility(scope, "acct_a", "key_a" if scope == "key" else None)


def read(parameters: dict[str, str], now: datetime = NOW) -> ListQuery:
    query = {name: [value.encode()] for name, value in parameters.items()}
    return read_list_query(query, see=see, seal=SEAL, now=now)


# The model


def window_of(parameters: dict[str, str]) -> tuple[datetime, datetime]:
    if "from" in parameters:
        return _edge(parameters["from"], False), _edge(parameters["to"], True)
    today = datetime(NOW.year, NOW.month, NOW.day, tzinfo=UTC)
    starts = {
        "today": today,
        "7d": NOW - timedelta(days=7),
        "this_month": today.replace(day=1),
        "all": datetime(1970, 1, 1, tzinfo=UTC),
    }
    return starts.get(parameters["period"], NOW - timedelta(days=30)), NOW


def _edge(text: str, is_end: bool) -> datetime:
    if "T" in text:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    day = date.fromisoformat(text) + timedelta(days=is_end)
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def expected(rows: list[Row], parameters: dict[str, str]) -> list[int]:
    start, end = window_of(parameters)

    def wanted(name: str, value: str) -> bool:
        listed = parameters[name].split(",") if parameters[name] else None
        return listed is None or value in listed

    found = [
        row
        for row in rows
        if row.account_id == "acct_a"
        and (parameters["scope"] == "account" or row.key_id == "key_a")
        and parameters.get("key_id", "") in ("", row.key_id)
        and start <= row.created_at < end
        and wanted("model", row.model)
        and wanted("status", row.status)
        and wanted("unit_type", row.unit_type or "chat")
        and wanted("error_code", row.error_code or "no code")
        and parameters.get("ref") in (None, row.task_id, row.request_id.hex)
    ]
    found.sort(key=lambda row: (row.created_at, row.id), reverse=parameters["order"] != "asc")
    return [row.id for row in found]


async def listed(database: Database, parameters: dict[str, str]) -> list[int]:
    """Every page, as a client walks them; the time goes on meanwhile."""
    ids: list[int] = []
    query, now = read(parameters), NOW
    while True:
        found = await read_page(database, query)
        assert len(found) <= query.limit + 1
        page = found[: query.limit]
        ids += [row.id for row in page]
        if len(found) <= query.limit:
            return ids
        last = Place(page[-1].created_at, page[-1].id)
        cursor = Cursor(query.window, query.order, last)
        now += timedelta(days=40)
        text = SEAL.write(cursor, query.visibility)
        query = read({**parameters, "cursor": text}, now)


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rows=row_lists(),
    queries=st.lists(list_queries(), min_size=8, max_size=8),
    sorted_rows_max=st.sampled_from((0, 2, 10_000)),
)
def test_pages_show_what_a_plain_list_would(
    table: Table, rows: list[Row], queries: list[dict[str, str]], sorted_rows_max: int
) -> None:
    async def main() -> None:
        written = await fill(table.database, rows)
        with patch.object(pages, "SORTED_ROWS_MAX", sorted_rows_max):
            for parameters in queries:
                found = await listed(table.database, parameters)
                assert found == expected(written, parameters), parameters

    table.run(main())
