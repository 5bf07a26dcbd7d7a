"""The sums of a window, read and rendered (spec: Call log summary)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from actors.clock import Clock
from actors.parent.link import ParentLink, ParentUnavailable
from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.money import format_credits
from gw.api.logs.list_query import (
    DEFAULT_PERIOD,
    EPOCH,
    STATUSES,
    Parameters,
    Scope,
    Visibility,
    Window,
    read_visibility,
    read_window,
    refuse,
    refuse_filters,
    show,
)
from gw.api.logs.pages import CURRENCY

# Covers a window with as few sums and rows as possible: whole days, whole hours, then single rows.
#
# Each end of the window is moved to the nearest edge of a day, from there back to the nearest edge
# of an hour, and from there to itself. A step outwards is subtracted, so that at either end at most
# half a day of hours and half an hour of rows is read. Pure; instants are UTC.
#
#     |  day  |  day  |  day  |      end at d+19:50:  + days up to d+1
#                   ▲ end            − hours 20:00…24:00 of d,  − rows 19:50…20:00

DAY_HOURS = 24


@dataclass(frozen=True, slots=True)
class WindowPart:
    """A range of sums of some hours, or of rows (0), to be added (1) or subtracted (-1)."""

    hours: int
    start: datetime
    end: datetime
    sign: int


def cover(window: Window, now: datetime) -> list[WindowPart]:
    """Return the parts of a window, without empty ones.

    No rows exist after `now`, so a step beyond it is free.
    """
    days = [_nearest(edge, DAY_HOURS, now) for edge in (window.start, window.end)]
    pieces = list(_stretch(DAY_HOURS, *days, sign=1))
    for edge, day, sign in ((window.start, days[0], 1), (window.end, days[1], -1)):
        hour = _nearest(edge, 1, now)
        pieces += _stretch(1, hour, day, sign=sign)
        pieces += _stretch(0, edge, hour, sign=sign)
    return pieces


def part_columns(parts: Sequence[WindowPart]) -> dict[str, list[Any]]:
    """Return the parts as the array parameters of a statement."""
    return {
        "hours": [part.hours for part in parts],
        "starts": [part.start for part in parts],
        "ends": [part.end for part in parts],
        "signs": [part.sign for part in parts],
    }


def _stretch(hours: int, start: datetime, end: datetime, *, sign: int) -> Iterator[WindowPart]:
    """Yield the range between two instants, with the opposite sign if it runs backwards."""
    if start < end:
        yield WindowPart(hours, start, end, sign)
    elif end < start:
        yield WindowPart(hours, end, start, -sign)


def _nearest(instant: datetime, hours: int, now: datetime) -> datetime:
    """Return the edge of a bucket with the shortest range to the instant."""
    width = timedelta(hours=hours)
    floor = instant - (instant - EPOCH) % width
    behind, ahead = instant - floor, min(floor + width, max(instant, now)) - instant
    return floor if behind <= ahead else floor + width


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
class Sums:
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
) -> dict[str, list[Sums]]:
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
    sums: dict[str, list[Sums]] = {"status": [], "day": [], "model": []}
    for kind, name, requests, cost, *tokens in found:
        sums[kind].append(Sums(name, requests, int(cost), *tokens))
    return sums


def show_summary(
    query: SummaryQuery, sums: Mapping[str, Sequence[Sums]], credits_per_usd: Decimal
) -> dict[str, Any]:
    """Return the response's body; days ascend, models descend by cost."""
    by_status = {one.name: one.requests for one in sums["status"]}
    total = Sums(
        "total",
        sum(one.requests for one in sums["status"]),
        sum(one.cost_nano_usd for one in sums["status"]),
        sum(one.input_tokens for one in sums["status"]),
        sum(one.output_tokens for one in sums["status"]),
        sum(one.cached_tokens for one in sums["status"]),
    )
    models = sorted(sums["model"], key=lambda one: (-one.cost_nano_usd, -one.requests, one.name))

    def figures(one: Sums) -> dict[str, Any]:
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
        "period_from": show(query.window.start),
        "period_to": show(query.window.end),
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


# Caches summaries for the rest of their minute (spec: Limits, 60-second result cache).
#
# A minute of the wall clock is a bucket: equal requests within it receive the same bytes, always
# within 60 seconds of their creation. Concurrent requests share one read; the error of a read is
# raised to its requests and not cached. The processes of one `gw serve` share summaries through the
# parent; without its reply each process has its own.

BUCKET_SECONDS = 60
# A response has some kilobytes; above this the oldest of the minute are dropped.
ENTRIES_MAX = 500


class SummaryCache:
    """The responses of the current minute, and the pending ones."""

    def __init__(self, clock: Clock, *, shared: ParentLink | None = None) -> None:
        self._clock = clock
        self._shared = shared
        self._minute = 0
        self._tasks: dict[Hashable, asyncio.Task[bytes]] = {}

    def __repr__(self) -> str:
        return f"<SummaryCache {len(self._tasks)} answers of minute {self._minute}>"

    async def get(
        self, question: Hashable, compute: Callable[[], Coroutine[Any, Any, bytes]]
    ) -> bytes:
        """Return the response to a question, made by `compute` if missing. Raises its error.

        Questions with the same `repr` are equal. Cancelling one caller does not cancel `compute`.
        """
        minute = int(self._clock.now() // BUCKET_SECONDS)
        if minute != self._minute:
            self._minute, self._tasks = minute, {}
        task = self._tasks.get(question)
        if task is None:
            while len(self._tasks) >= ENTRIES_MAX:
                del self._tasks[next(iter(self._tasks))]
            task = self._tasks[question] = asyncio.create_task(
                self._made(question, minute, compute)
            )
            tasks = self._tasks
            task.add_done_callback(lambda done: _forget_failed(tasks, question, done))
        await asyncio.wait([task])
        return task.result()

    async def _made(
        self,
        question: Hashable,
        minute: int,
        compute: Callable[[], Coroutine[Any, Any, bytes]],
    ) -> bytes:
        shared = self._shared
        if shared is None:
            return await compute()
        name = hashlib.sha256(repr(question).encode()).hexdigest()
        try:
            found = await shared.find(name, minute)
        except ParentUnavailable:  # logged by the limits, which use the parent all the time
            return await compute()
        if found is not None:
            return found
        made = await compute()
        try:
            return await shared.store(name, minute, made)
        except ParentUnavailable:
            return made


def _forget_failed(
    tasks: dict[Hashable, asyncio.Task[bytes]], question: Hashable, task: asyncio.Task[bytes]
) -> None:
    has_failed = task.cancelled() or task.exception() is not None
    if has_failed and tasks.get(question) is task:
        del tasks[question]


# The cost of an agent's keys in a window, from the sums of the call log.
#
# Keys belong to their agent for life, revoked or not, so their rows are the agent's.

USAGE_SQL = load("gw.api.logs", "agent_usage.sql")


@dataclass(slots=True)
class KeyUsage:
    """The sums of one key, or of several."""

    key_id: str = ""
    key_name: str = ""
    requests: int = 0
    cost_nano_usd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    by_status: dict[str, int] = field(default_factory=dict)

    def add(
        self,
        by_status: Mapping[str, int],
        cost_nano_usd: int,
        input_: int,
        output: int,
        cached: int,
    ) -> None:
        """Add the sums of further calls."""
        for status, requests in by_status.items():
            self.by_status[status] = self.by_status.get(status, 0) + requests
            self.requests += requests
        self.cost_nano_usd += cost_nano_usd
        self.input_tokens += input_
        self.output_tokens += output
        self.cached_tokens += cached


async def read_usage(
    database: Database, *, account_id: str, agent_id: str, window: Window, now: datetime
) -> list[KeyUsage]:
    """Return the keys of the agent that have rows in the window. Raises StoreUnavailable."""
    params = {"account": account_id, "agent": agent_id, **part_columns(cover(window, now))}
    keys: dict[str, KeyUsage] = {}
    for key_id, name, status, requests, *sums in await database.fetch_all(
        USAGE_SQL["sums"], params
    ):
        key = keys.setdefault(key_id, KeyUsage(key_id, name))
        key.add({status: requests}, *sums)
    return list(keys.values())


def total(keys: Sequence[KeyUsage]) -> KeyUsage:
    """Return the sums of all keys."""
    whole = KeyUsage()
    for key in keys:
        whole.add(
            key.by_status,
            key.cost_nano_usd,
            key.input_tokens,
            key.output_tokens,
            key.cached_tokens,
        )
    return whole
