"""The sums of a window, read and rendered (spec: Call log summary)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.money import format_credits
from gw.api.logs.filters import STATUSES, refuse_filters
from gw.api.logs.parameters import Parameters, refuse
from gw.api.logs.rows import CURRENCY
from gw.api.logs.visibility import Scope, Visibility, read_visibility
from gw.api.logs.window import DEFAULT_PERIOD, Window, read_window
from gw.api.logs.window_parts import cover, part_columns
from gw.instants import format_instant

SQL = load("gw.api.logs", "summary.sql")
WINDOW_MAX = timedelta(days=365)
# Refused calls have rows under any name sent by a client. The models of the highest cost are shown
# first, and the response is bounded.
MODELS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryQuery:
    """The query of a summary. `asked` is the client's window, which stays the same over time."""

    visibility: Visibility
    window: Window
    asked: tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class CallSums:
    """The sums of one line."""

    name: str
    requests: int
    cost_nano_usd: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int


def read_summary_query(
    query: Mapping[str, Sequence[bytes]], *, see: Callable[[Scope], Visibility], now: datetime
) -> SummaryQuery:
    """Parse the query of a summary. `see` raises 403, the rest is 400."""
    parameters = Parameters(query)
    visibility = read_visibility(parameters, see)
    refuse_filters(parameters)
    window = read_window(parameters, now)
    since, until = parameters.text("from"), parameters.text("to")
    period = None if since is not None else parameters.text("period") or DEFAULT_PERIOD
    if period == "all":
        raise refuse("period", "may not be `all` here: a summary covers at most 365 days.")
    if window.end - window.start > WINDOW_MAX:
        raise refuse("from", "lies more than 365 days before `to`, the most a summary covers.")
    return SummaryQuery(visibility=visibility, window=window, asked=(since, until, period))


async def read_sums(
    database: Database, visibility: Visibility, window: Window, now: datetime
) -> dict[str, list[CallSums]]:
    """Return the window's sums by `status`, `day` and `model`. Raises StoreUnavailable."""
    pieces = cover(window, now)
    found = await database.fetch_all(
        SQL["sums"],
        {
            "account": visibility.account_id,
            "key": visibility.key_id,
            **part_columns(pieces),
        },
    )
    sums: dict[str, list[CallSums]] = {"status": [], "day": [], "model": []}
    for kind, name, requests, cost, *tokens in found:
        sums[kind].append(CallSums(name, requests, int(cost), *tokens))
    return sums


def show_summary(
    query: SummaryQuery, sums: Mapping[str, Sequence[CallSums]], credits_per_usd: Decimal
) -> dict[str, Any]:
    """Return the response's body; days ascend, models descend by cost."""
    by_status = {one.name: one.requests for one in sums["status"]}
    total = CallSums(
        "total",
        sum(one.requests for one in sums["status"]),
        sum(one.cost_nano_usd for one in sums["status"]),
        sum(one.input_tokens for one in sums["status"]),
        sum(one.output_tokens for one in sums["status"]),
        sum(one.cached_tokens for one in sums["status"]),
    )
    models = sorted(sums["model"], key=lambda one: (-one.cost_nano_usd, -one.requests, one.name))

    def figures(one: CallSums) -> dict[str, Any]:
        return {
            "requests": one.requests,
            "cost": format_credits(one.cost_nano_usd, credits_per_usd),
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "cached_tokens": one.cached_tokens,
        }

    return {
        "object": "logs.summary",
        "currency": CURRENCY,
        "scope": query.visibility.scope,
        "period_from": format_instant(query.window.start),
        "period_to": format_instant(query.window.end),
        "total": figures(total),
        "status_counts": {status: by_status.get(status, 0) for status in STATUSES},
        "by_day": [
            {"date": one.name, **figures(one)}
            for one in sorted(sums["day"], key=lambda one: one.name)
        ],
        "by_model": [
            {
                "model": one.name,
                "requests": one.requests,
                "cost": format_credits(one.cost_nano_usd, credits_per_usd),
                "total_tokens": one.input_tokens + one.output_tokens,
            }
            for one in models[:MODELS_MAX]
        ],
    }
