"""The call log on a real PostgreSQL, against a model of it."""

import itertools
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tornado.escape import parse_qs_bytes

from actors.store.database import Database
from gw.api.logs import pages
from gw.api.logs.cursor import CursorSeal, LogCursor, PagePosition
from gw.api.logs.filters import STATUSES
from gw.api.logs.list_query import LogListQuery, read_list_query
from gw.api.logs.pages import read_page
from gw.api.logs.summary import SummaryQuery, read_summary_query, read_sums, show_summary
from gw.keys.end_users import EndUserKey
from tests.integration.logs.model import expected, see, window_of
from tests.integration.logs.table import ACCOUNTS, HOURS_APART, NOW, START, Table, fill
from tests.support.call_log import Row

pytestmark = pytest.mark.long

MODELS = ("m-1", "m-2", "m-3")
CODES = ("upstream_timeout", "quota_exceeded")
UNITS = ("image", "video")
ACCOUNT_OF = {key: account for account, keys in ACCOUNTS.items() for key in keys}
KEYS = tuple(ACCOUNT_OF)

# Around the edge of an hour, to the microsecond, several rows at the same instant.
instants = st.builds(
    lambda hours, microseconds: START + timedelta(hours=hours, microseconds=microseconds),
    st.sampled_from(HOURS_APART),
    st.sampled_from((-1, 0, 1, 2, 1_800_000_000)),
)


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    """Up to thirty rows of both accounts."""
    count = draw(st.integers(min_value=0, max_value=30))
    rows = []
    for number in range(1, count + 1):
        status = draw(st.sampled_from(STATUSES))
        failed = status != "success"
        key_id = draw(st.sampled_from(KEYS))
        rows.append(
            Row(
                number=number,
                created_at=draw(instants),
                account_id=ACCOUNT_OF[key_id],
                key_id=key_id,
                model=draw(st.sampled_from(MODELS)),
                status=status,
                unit_type=draw(st.sampled_from((None, *UNITS))),
                error_code=draw(st.sampled_from(CODES)) if failed else None,
                cost_nano_usd=0 if status == "rejected" else draw(st.integers(0, 10**12)),
                input_tokens=draw(st.integers(0, 1000)),
                task_id=f"task_{number}" if draw(st.booleans()) else None,
            )
        )
    return rows


def some(*words: str) -> st.SearchStrategy[str]:
    """A comma-separated list of a few of the words, often none."""
    return st.lists(st.sampled_from(words), max_size=2, unique=True).map(",".join)


def _bound(instant: datetime) -> str:
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")


dates = st.sampled_from(
    [(START + timedelta(days=days)).date().isoformat() for days in range(-1, 6)]
)
bounds = st.one_of(dates, instants.map(_bound))
windows: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.sampled_from(("", "today", "7d", "30d", "this_month", "all")).map(lambda p: {"period": p}),
    st.tuples(bounds, bounds).map(lambda pair: {"from": min(pair), "to": max(pair)}),
)


@st.composite
def list_queries(draw: st.DrawFn) -> dict[str, Any]:
    """The parameters of a list, each filter often there and often not."""
    scope = draw(st.sampled_from(("", "key", "account")))
    parameters = {
        "scope": scope,
        **draw(windows),
        "model": draw(some(*MODELS, "m-unknown")),
        "status": draw(some(*STATUSES)),
        "unit_type": draw(some(*UNITS, "chat", "music")),
        "error_code": draw(some(*CODES, "unknown")),
        "order": draw(st.sampled_from(("", "desc", "asc"))),
        "limit": str(draw(st.integers(1, 6))),
    }
    if scope == "account":
        parameters["key_id"] = draw(st.sampled_from(("", *KEYS, "key_unknown")))
    if draw(st.integers(0, 7)) == 0:
        number = draw(st.integers(1, 30))
        parameters["ref"] = draw(st.sampled_from((f"task_{number}", f"{number:032x}", "nothing")))
    return parameters


END_USERS = EndUserKey(b"a key for tests only")
SEAL = CursorSeal(b"k" * 32)


def read(parameters: dict[str, str], now: datetime = NOW) -> LogListQuery:
    query = {name: [value.encode()] for name, value in parameters.items()}
    return read_list_query(query, see=see, seal=SEAL, end_users=END_USERS, now=now)


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
        cursor = LogCursor(query.window, query.order, last)
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


CREDITS = Decimal(1000)


def read_both(parameters: dict[str, str]) -> SummaryQuery:
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


def exact(line: Mapping[str, Any]) -> dict[str, Any]:
    return {**line, "cost": Decimal(line["cost"])}


def expected_sums(rows: list[Row], parameters: dict[str, str]) -> dict[str, Any]:
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
    requested=st.lists(windows.filter(lambda w: w.get("period") != "all"), min_size=8, max_size=8),
    scope=st.sampled_from(("key", "account")),
)
def test_sums_are_those_of_the_rows(
    table: Table, rows: list[Row], requested: list[dict[str, str]], scope: str
) -> None:
    async def main() -> None:
        # Nothing has happened after now: `cover` reckons with that.
        written = await fill(table.database, [row for row in rows if row.created_at < NOW])
        for window in requested:
            parameters = {**window, "scope": scope}
            query = read_both(parameters)
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
            assert found == expected_sums(written, parameters), parameters

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
