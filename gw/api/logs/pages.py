"""Reads a page of the call log with as few rows as its filters allow.

no filter        down an index of (account or key, instant, id)
ref              by the index of request ids, and of task ids
filters          the sums per day, then per hour, show which of them have rows that pass, and
                 how many. Few rows in the hours that fill the page: these are searched, by
                 the suitable index. Many: a walk down an index ends soon.
whom it was for  the same by the sums of one of these values. With another filter beside it they
                 show how many may pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.storable import to_json
from gw.api.logs.filters import LABEL, TOKEN_BILLED, Filters
from gw.api.logs.list_query import LogListQuery
from gw.api.logs.rows import InFlightJob, LogRow
from gw.instants import midnight

_TEXTS = load("gw.api.logs", "logs.sql")
SQL: Mapping[str, str] = {
    name: text.replace("{passes}", _TEXTS["passes"]).replace("{in_bucket}", _TEXTS["in_bucket"])
    for name, text in _TEXTS.items()
}
# Rows that are read and sorted in some 20 ms; if more pass within the hours that fill a page,
# walking the index finds enough of them soon.
SORTED_ROWS_MAX = 10_000
IN_FLIGHT_MAX = 200
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)

# The start of a day or an hour, and the number of its rows that pass.
Busy = Sequence[tuple[datetime, int]]


async def read_page(database: Database, query: LogListQuery) -> list[LogRow]:
    """Return the page's rows and one more if it exists, in order. Raises StoreUnavailable."""
    params = page_parameters(query)
    if query.filters.ref is not None:
        found = await database.fetch_all(SQL["by_ref"], params)
    elif not query.filters.is_narrow:
        found = await database.fetch_all(SQL[_walk(query)], params)
    else:
        found = await _search(database, query, params)
    return [LogRow(*row) for row in found]


async def _search(
    database: Database, query: LogListQuery, params: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Return the page of a list with filters."""
    if query.filters.attributed:
        return await _search_attributed(database, query, params)
    width = _DAY
    busy = enough(await _busy(database, "busy_days", params), width, params)
    if not (has_own_index(query) and _rows(busy) <= SORTED_ROWS_MAX):
        # Search as few hours as possible if no single index selects the rows.
        width = _HOUR
        days = [day for day, _ in busy]
        hours = await _busy(database, "busy_hours", {**params, "days": days})
        busy = enough(hours, width, params)
    return await _read_busy(database, query, params, busy, width)


async def _search_attributed(
    database: Database, query: LogListQuery, params: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Return the page of a list with a filter by whom calls were for."""
    (what, values), *others = query.filters.attributed
    is_exact = not (others or query.filters.has_lists)
    where = {**params, "what": what, "values": list(values)}
    busy = await _busy(database, "attributed_days", where)
    if is_exact:
        busy = enough(busy, _DAY, params)
    days = [day for day, _ in busy]
    busy = await _busy(database, "attributed_hours", {**where, "days": days})
    if is_exact:
        busy = enough(busy, _HOUR, params)
    return await _read_busy(database, query, params, busy, _HOUR)


async def _read_busy(
    database: Database, query: LogListQuery, params: dict[str, Any], busy: Busy, width: timedelta
) -> list[tuple[Any, ...]]:
    """Return the page from days or hours that are enough for it."""
    if not busy:
        return []
    buckets = [start for start, _ in busy]
    if _rows(busy) <= SORTED_ROWS_MAX:
        where = {"buckets": buckets, "width": width}
        return await database.fetch_all(SQL["in_buckets"], {**params, **where})
    params["first"] = max(params["first"], min(buckets))
    params["last"] = min(params["last"], max(buckets) + width)
    return await database.fetch_all(SQL[_walk(query)], params)


async def _busy(database: Database, which: str, params: dict[str, Any]) -> Busy:
    return [(row[0], row[1]) for row in await database.fetch_all(SQL[which], params)]


def _rows(busy: Busy) -> int:
    return sum(rows for _, rows in busy)


def _walk(query: LogListQuery) -> str:
    return "newest_first" if query.order == "desc" else "oldest_first"


def has_own_index(query: LogListQuery) -> bool:
    """Whether an index contains exactly the rows that pass: one filter over a whole account."""
    filters = query.filters
    lists = (filters.models, filters.statuses, filters.unit_types, filters.error_codes)
    is_partial = "success" in filters.statuses or TOKEN_BILLED in filters.unit_types
    return query.visibility.key_id is None and sum(map(bool, lists)) == 1 and not is_partial


async def read_in_flight(database: Database, query: LogListQuery) -> list[InFlightJob]:
    """Return the jobs under way visible to the key; filters and window do not apply to them."""
    visibility = query.visibility
    params = {"account": visibility.account_id, "key": visibility.key_id, "limit": IN_FLIGHT_MAX}
    return [InFlightJob(*row) for row in await database.fetch_all(SQL["in_flight"], params)]


def enough(busy: Busy, width: timedelta, params: Mapping[str, Any]) -> Busy:
    """Return the first days or hours that certainly fill the page.

    A bucket that exceeds the window or contains the cursor's instant has an unknown number of rows
    still to be shown.
    """
    counted = 0
    for rank, (start, count) in enumerate(busy, start=1):
        end = start + width
        has_cursor = params["after_at"] is not None and start <= params["after_at"] < end
        if params["first"] <= start and end <= params["last"] and not has_cursor:
            counted += count
        if counted >= params["limit"]:
            return busy[:rank]
    return busy


def page_parameters(query: LogListQuery) -> dict[str, Any]:
    """Return the parameters of the queries; `first` and `last` bound the rows still to be shown."""
    after, window, filters = query.after, query.window, query.filters
    first, last = window.start, window.end - _MICROSECOND
    if after is not None:
        if query.order == "desc":
            last = min(last, after.created_at)
        else:
            first = max(first, after.created_at)
    return {
        "account": query.visibility.account_id,
        "key": query.visibility.key_id,
        "first": first,
        "last": last,
        "first_day": midnight(first.date()),
        "first_hour": first.replace(minute=0, second=0, microsecond=0),
        "after_at": after.created_at if after is not None else None,
        "after_id": after.id if after is not None else None,
        "direction": -1 if query.order == "desc" else 1,
        "limit": query.limit + 1,
        **_filter_parameters(filters),
    }


def _filter_parameters(filters: Filters) -> dict[str, Any]:
    pieces = [unit for unit in filters.unit_types if unit != TOKEN_BILLED]
    trace = filters.trace
    return {
        "models": list(filters.models) or None,
        "statuses": list(filters.statuses) or None,
        "unit_types": pieces if filters.unit_types else None,
        "token_billed": TOKEN_BILLED in filters.unit_types,
        "error_codes": list(filters.error_codes) or None,
        "ref": filters.ref,
        **_attributed_parameters(filters),
        "trace": str(trace) if trace is not None else None,
    }


def _attributed_parameters(filters: Filters) -> dict[str, Any]:
    found = {what: list(values) for what, values in filters.attributed}
    labels = {
        what.removeprefix(LABEL): values for what, values in found.items() if what.startswith(LABEL)
    }
    return {
        "end_users": found.get("end_user"),
        "sessions": found.get("session"),
        "runs": found.get("run"),
        "labels": to_json(labels) if labels else None,
    }
