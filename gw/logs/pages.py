"""Reads a page of the call log with as little looking as its filters allow.

no filter        down an index of (account or key, instant, id)
filters          the sums per day and hour say in which hours there are rows that pass, and how
                 many. Few rows in the hours that fill the page: these hours are searched, each
                 by the index that suits. Many: a walk down an index ends soon.
ref              by the index of request ids, and of task ids
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from actors.store.database import Database
from actors.store.queries import load
from gw.logs.filters import TOKEN_BILLED, Filters
from gw.logs.instants import midnight
from gw.logs.list_query import ListQuery
from gw.logs.rows import InFlightJob, LogRow

_TEXTS = load("gw.logs", "logs.sql")
SQL: Mapping[str, str] = {
    name: text.replace("{passes}", _TEXTS["passes"]).replace("{in_bucket}", _TEXTS["in_bucket"])
    for name, text in _TEXTS.items()
}
# So many rows are read and sorted in some 20 ms; where more pass within the hours that fill a page,
# walking finds enough of them at once.
SORTED_ROWS_MAX = 10_000
IN_FLIGHT_MAX = 200
_HOUR = timedelta(hours=1)
_MICROSECOND = timedelta(microseconds=1)

Busy = Sequence[tuple[datetime, int]]  # the start of an hour, and how many rows of it pass


async def read_page(database: Database, query: ListQuery) -> list[LogRow]:
    """The rows of the page and one more if there is one, in order. Raises StoreUnavailable."""
    params = page_parameters(query)
    walk = "newest_first" if query.order == "desc" else "oldest_first"
    if query.filters.ref is not None:
        found = await database.fetch_all(SQL["by_ref"], params)
    elif not query.filters.is_narrow:
        found = await database.fetch_all(SQL[walk], params)
    else:
        busy: Busy = [(r[0], r[1]) for r in await database.fetch_all(SQL["busy_hours"], params)]
        busy = enough(busy, params["first"], params["last"], rows=params["limit"])
        if not busy:
            return []
        hours = [hour for hour, _ in busy]
        if sum(rows for _, rows in busy) <= SORTED_ROWS_MAX:
            found = await database.fetch_all(SQL["in_hours"], {**params, "hours": hours})
        else:
            params["first"] = max(params["first"], min(hours))
            params["last"] = min(params["last"], max(hours) + _HOUR)
            found = await database.fetch_all(SQL[walk], params)
    return [LogRow(*row) for row in found]


async def read_in_flight(database: Database, query: ListQuery) -> list[InFlightJob]:
    """The jobs under way that the key may see; filters and window do not apply to them."""
    visibility = query.visibility
    params = {"account": visibility.account_id, "key": visibility.key_id, "limit": IN_FLIGHT_MAX}
    return [InFlightJob(*row) for row in await database.fetch_all(SQL["in_flight"], params)]


def enough(busy: Busy, first: datetime, last: datetime, *, rows: int) -> Busy:
    """The first hours that are sure to hold so many rows between `first` and `last`.

    Of an hour that reaches beyond them nobody knows how many of its rows are within.
    """
    counted = 0
    for place, (hour, count) in enumerate(busy, start=1):
        if first <= hour and hour + _HOUR <= last:
            counted += count
        if counted >= rows:
            return busy[:place]
    return busy


def page_parameters(query: ListQuery) -> dict[str, Any]:
    """The parameters of the queries; `first` and `last` are what is still to be shown."""
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
        "trace": str(trace) if trace is not None else None,
    }
