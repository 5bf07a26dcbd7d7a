"""The sums of a window, read and rendered (reference 6.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from msgspec import Meta

from actors.store.queries import load
from actors.store.session import Statements
from actors.wallet.money import format_credits
from gw.api.logs.filters import STATUSES, refuse_filters
from gw.api.logs.grouping import (
    GROUPS_MAX,
    KEY,
    ShownGroup,
    grouped,
    grouping_parameters,
    read_grouping,
)
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
    """The query of a summary. `asked` is the client's window, which stays the same over time; `by`:
    what its calls are grouped by."""

    visibility: Visibility
    window: Window
    asked: tuple[str | None, str | None, str | None]
    by: str | None = None


@dataclass(frozen=True, slots=True)
class CallSums:
    """The sums of one line; by groups "" names those of calls without one."""

    name: str
    requests: int
    cost_nano_usd: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int


_At = {"format": "date-time"}
_Requests = Annotated[int, Meta(description="The number of calls, rejected ones included.")]
_Cost = Annotated[str, Meta(description="Credits charged, a decimal string.")]


class ShownSums(TypedDict):
    """The sums of some calls."""

    requests: _Requests
    cost: _Cost
    input_tokens: Annotated[int, Meta(description="Tokens of input, cached ones included.")]
    output_tokens: Annotated[int, Meta(description="Tokens of output.")]
    cached_tokens: Annotated[int, Meta(description="The cached part of the input.")]


class ShownDay(ShownSums):
    """The sums of a day."""

    date: Annotated[str, Meta(description="The day, in UTC.", extra_json_schema={"format": "date"})]


class ShownModel(TypedDict):
    """The sums of a model."""

    model: Annotated[str, Meta(description="The model's id.")]
    requests: _Requests
    cost: _Cost
    total_tokens: Annotated[int, Meta(description="Tokens of input and output.")]


class LogSummary(TypedDict):
    """The sums of the calls in a window."""

    object: Annotated[Literal["logs.summary"], Meta(description="Always `logs.summary`.")]
    currency: Annotated[str, Meta(description="Of `cost`: `points`, which are credits.")]
    scope: Annotated[str, Meta(description="Whose calls these are: of the key or the account.")]
    period_from: Annotated[str, Meta(description="The window's begin.", extra_json_schema=_At)]
    period_to: Annotated[
        str, Meta(description="The window's end, which it excludes.", extra_json_schema=_At)
    ]
    total: Annotated[ShownSums, Meta(description="The sums of all of them.")]
    status_counts: Annotated[
        dict[str, int],
        Meta(
            description="The number of calls by their status.",
            extra_json_schema={"required": list(STATUSES)},
        ),
    ]
    by_day: Annotated[list[ShownDay], Meta(description="By day, earliest first.")]
    by_model: Annotated[
        list[ShownModel],
        Meta(description=f"By model, {MODELS_MAX} at most, those of the highest cost first."),
    ]
    by: NotRequired[Annotated[str, Meta(description="What `by` named.")]]
    by_group: NotRequired[
        Annotated[
            list[ShownGroup],
            Meta(
                description=f"By what `by` named, {GROUPS_MAX} groups at most, those of the highest"
                " cost first, then all others as one; they add up to `total`."
            ),
        ]
    ]


def read_summary_query(
    query: Mapping[str, Sequence[bytes]], *, see: Callable[[Scope], Visibility], now: datetime
) -> SummaryQuery:
    """Parse the query of a summary. `see` raises 403, the rest is 400."""
    parameters = Parameters(query)
    visibility = read_visibility(parameters, see)
    by = read_grouping(parameters, see)
    refuse_filters(parameters)
    window = read_window(parameters, now)
    since, until = parameters.text("from"), parameters.text("to")
    period = None if since is not None else parameters.text("period") or DEFAULT_PERIOD
    if period == "all":
        raise refuse("period", "may not be `all` here: a summary covers at most 365 days.")
    check_length(window)
    asked = since, until, period
    return SummaryQuery(visibility=visibility, window=window, asked=asked, by=by)


def check_length(window: Window) -> None:
    """Raise 400 for a window that is longer than a summary covers."""
    if window.end - window.start > WINDOW_MAX:
        raise refuse("from", "lies more than 365 days before `to`, the most a summary covers.")


async def read_sums(
    database: Statements,
    visibility: Visibility,
    window: Window,
    now: datetime,
    by: str | None = None,
) -> dict[str, list[CallSums]]:
    """Return the window's sums by `status`, `day` and `model`. Raises StoreUnavailable.

    With `by` also by `group`, the largest first, and of the `rest`, which is named by its number.
    """
    pieces = cover(window, now)
    found = await database.fetch_all(
        grouped(SQL, by),
        {
            "account": visibility.account_id,
            "key": visibility.key_id,
            **part_columns(pieces),
            **grouping_parameters(by),
        },
    )
    kinds = ("status", "day", "model", "group", "rest")
    sums: dict[str, list[CallSums]] = {kind: [] for kind in kinds}
    for kind, name, requests, cost, *tokens in found:
        sums[kind].append(CallSums(name or "", requests, int(cost), *tokens))
    return sums


async def names_of_keys(database: Statements, ids: Sequence[str]) -> dict[str, str | None]:
    """Return the names of some keys."""
    return dict(await database.fetch_all(SQL["names_of_keys"], (list(ids),))) if ids else {}


def total_of(sums: Mapping[str, Sequence[CallSums]]) -> CallSums:
    """Return the sums of all calls."""
    every = sums["status"]
    return CallSums(
        "total",
        sum(one.requests for one in every),
        sum(one.cost_nano_usd for one in every),
        sum(one.input_tokens for one in every),
        sum(one.output_tokens for one in every),
        sum(one.cached_tokens for one in every),
    )


def show_groups(
    by: str,
    sums: Mapping[str, Sequence[CallSums]],
    key_names: Mapping[str, str | None],
    figures: Callable[[CallSums], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return the groups in the order read, and the rest; `figures` renders sums."""
    shown: list[dict[str, Any]] = []
    for one in sums["group"]:
        group: dict[str, Any] = {"group": one.name or None}
        if by == KEY and one.name:
            group["key_name"] = key_names.get(one.name)
        shown.append({**group, **figures(one)})
    for one in sums["rest"]:
        rest = {"group": None, "rest": True, "groups": int(one.name)}
        shown.append({**rest, **figures(one)})
    return shown


def show_summary(
    query: SummaryQuery,
    sums: Mapping[str, Sequence[CallSums]],
    credits_per_usd: Decimal,
    key_names: Mapping[str, str | None] | None = None,
) -> LogSummary:
    """Return the response's body; days ascend, models descend by cost."""
    by_status = {one.name: one.requests for one in sums["status"]}
    total = total_of(sums)
    models = sorted(sums["model"], key=lambda one: (-one.cost_nano_usd, -one.requests, one.name))

    def figures(one: CallSums) -> ShownSums:
        return {
            "requests": one.requests,
            "cost": format_credits(one.cost_nano_usd, credits_per_usd),
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "cached_tokens": one.cached_tokens,
        }

    summary: LogSummary = {
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
    if query.by is not None:
        summary["by"] = query.by
        groups = show_groups(query.by, sums, key_names or {}, figures)
        summary["by_group"] = cast(list[ShownGroup], groups)
    return summary
