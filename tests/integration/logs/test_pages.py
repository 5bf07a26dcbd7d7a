"""Every filter and paging on PostgreSQL, against a plain Python model of the same rows."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.store.database import Database
from gw.api.logs import pages
from gw.api.logs.list_query import Cursor, CursorSeal, LogListQuery, PagePosition, read_list_query
from gw.api.logs.pages import read_page
from tests.integration.logs.model import expected, see
from tests.integration.logs.strategies import list_queries, row_lists
from tests.integration.logs.table import NOW, START, Table, fill
from tests.support.call_log import Row

pytestmark = pytest.mark.long

SEAL = CursorSeal(b"k" * 32)


def read(parameters: dict[str, str], now: datetime = NOW) -> LogListQuery:
    query = {name: [value.encode()] for name, value in parameters.items()}
    return read_list_query(query, see=see, seal=SEAL, now=now)


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
        last = PagePosition(page[-1].created_at, page[-1].id)
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


def test_a_cursor_at_the_edge_of_an_hour_does_not_count_what_was_shown(table: Table) -> None:
    """Rows of the cursor's own instant are in the hour's sum, and are behind it all the same."""

    async def main() -> None:
        edge = START + timedelta(hours=2)
        places = [edge, edge, edge, edge + timedelta(hours=1), edge + timedelta(hours=30)]
        rows = [
            Row(number=number, created_at=at, account_id="acct_a", key_id="key_a")
            for number, at in enumerate(places, start=1)
        ]
        written = [row.id for row in await fill(table.database, rows)]
        for order, limit in itertools.product(("asc", "desc"), ("1", "2", "3", "4")):
            parameters = {"status": "success", "order": order, "limit": limit}
            ids = written if order == "asc" else written[::-1]
            for sorted_rows_max in (0, 10_000):
                with patch.object(pages, "SORTED_ROWS_MAX", sorted_rows_max):
                    assert await listed(table.database, parameters) == ids, parameters

    table.run(main())


odd = st.text(st.characters(codec="utf-8"), max_size=20).filter(str.isprintable)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.fixed_dictionaries(dict.fromkeys(("model", "error_code", "ref", "key_id"), odd)))
def test_odd_values_find_nothing_and_break_nothing(table: Table, values: dict[str, str]) -> None:
    found = table.run(listed(table.database, {"scope": "account", "period": "all", **values}))
    assert found == []
