"""Reads a page of the call log with as few rows as its filters allow.

no filter        down an index of (account or key, instant, id)
ref              by the index of request ids, and of task ids
filters          the sums per day, then per hour, show which of them have rows that pass, and
                 how many. Few rows in the hours that fill the page: these are searched, by
                 the suitable index. Many: a walk down an index ends soon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.money import format_credits
from gw.api.logs.list_query import TOKEN_BILLED, Filters, LogListQuery, midnight, show

# A row of the call log as stored and as shown (spec: Call log row).

CURRENCY = "points"  # the specification's name for credits


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row, its members in the order of the columns of the view `call_log_rows`."""

    id: int
    created_at: datetime
    submitted_at: datetime
    account_id: str
    key_id: str
    key_name: str | None
    key_prefix: str | None
    request_id: str
    model: str
    status: str
    error_code: str | None
    error_message: str | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    unit_count: int | None
    unit_type: str | None
    cost_nano_usd: int
    latency_ms: int
    task_id: str | None
    result_urls: Sequence[str] | None
    result_expires_at: datetime | None
    attempts: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class InFlightJob:
    """An async job that has not settled, its members in the order of the query `in_flight`."""

    task_id: str
    request_id: str
    submitted_at: datetime
    key_id: str
    key_name: str | None
    key_prefix: str | None
    model: str | None
    hold_nano_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """How rows are shown: costs in credits, messages redacted once more."""

    credits_per_usd: Decimal
    redact: Callable[[str], str]

    def row(self, row: LogRow, *, with_attempts: bool) -> dict[str, Any]:
        """Return one row; `attempts` and their count only on request.

        The row's `detail` is never shown here, because it names channels.
        """
        attempts = row.attempts or ()
        shown: dict[str, Any] = {
            "object": "log",
            "id": row.id,
            "created_at": show(row.created_at),
            "submitted_at": show(row.submitted_at),
            "key_id": row.key_id,
            "key_name": row.key_name,
            "key_prefix": row.key_prefix,
            "model": row.model,
            "status": row.status,
            "error_code": row.error_code,
            "error_message": self._message(row.error_message),
            "input_tokens": row.input_tokens,
            "output_tokens": row.output_tokens,
            "cached_tokens": row.cached_tokens,
            "unit_count": row.unit_count,
            "unit_type": row.unit_type,
            "cost": format_credits(row.cost_nano_usd, self.credits_per_usd),
            "latency_ms": row.latency_ms,
            "request_id": UUID(row.request_id).hex,
            "task_id": row.task_id,
            "result_urls": list(row.result_urls or ()),
            "result_expires_at": show(row.result_expires_at) if row.result_expires_at else None,
            "attempts_count": len(attempts) if with_attempts else None,
        }
        if with_attempts:
            shown["attempts"] = [self._attempt(attempt) for attempt in attempts]
        return shown

    def job(self, job: InFlightJob) -> dict[str, Any]:
        """Return one job under way: the facts known before its row exists, and its hold."""
        return {
            "object": "log.in_flight",
            "task_id": job.task_id,
            "request_id": UUID(job.request_id).hex,
            "submitted_at": show(job.submitted_at),
            "key_id": job.key_id,
            "key_name": job.key_name,
            "key_prefix": job.key_prefix,
            "model": job.model,
            "held": format_credits(job.hold_nano_usd, self.credits_per_usd),
        }

    def _attempt(self, attempt: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "seq": attempt["seq"],
            "created_at": show(datetime.fromtimestamp(attempt["created_at"], UTC)),
            "latency_ms": attempt["latency_ms"],
            "error_code": attempt["error_code"],
            "error_message": self._message(attempt["error_message"]),
        }

    def _message(self, message: str | None) -> str | None:
        return None if message is None else self.redact(message)


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
    width = _DAY
    busy = enough(await _busy(database, "busy_days", params), width, params)
    if not (has_own_index(query) and _rows(busy) <= SORTED_ROWS_MAX):
        # Search as few hours as possible if no single index selects the rows.
        width = _HOUR
        days = [day for day, _ in busy]
        hours = await _busy(database, "busy_hours", {**params, "days": days})
        busy = enough(hours, width, params)
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
        "trace": str(trace) if trace is not None else None,
    }
