"""Explains what the call log's own code asks the database, with its own parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from tornado.escape import parse_qs_bytes

from actors.store.database import Database
from gw.api.logs.list_query import (
    Cursor,
    CursorSeal,
    LogListQuery,
    PagePosition,
    Scope,
    Visibility,
    read_list_query,
)
from gw.api.logs.pages import read_page
from gw.api.logs.summary import read_summary_query, read_sums

ROUNDS = 3
SEAL = CursorSeal(b"of no use to anybody else")
_MILLISECONDS = re.compile(r"(?:Planning|Execution) Time: ([\d.]+) ms")

# What is asked -> its query string; key_1 of acct_0 asks.
LISTS: Mapping[str, str] = {
    "first page of an account": "scope=account",
    "first page of a key": "",
    "200 rows, oldest first": "scope=account&order=asc&limit=200",
    "page in the middle": "scope=account&limit=200&cursor=middle",
    "a key that made a few calls": "scope=account&key_id=key_4",
    "errors": "scope=account&status=error",
    "a rare status": "scope=account&status=interrupted",
    "a rare model": "scope=account&model=rare-model",
    "three models, one of them rare": "scope=account&model=rare-model,model-3,model-4",
    "a model that was interrupted": "scope=account&model=model-3&status=interrupted&limit=200",
    "a rare error of one key": "error_code=upstream_529&limit=200",
    "errors of a model that had few": "scope=account&status=error&model=rare-model",
    "nothing there": "scope=account&status=error&unit_type=music&period=all",
    "what is billed by tokens": "scope=account&unit_type=chat&limit=200",
    "images of one key": "unit_type=image&limit=200",
    "one call by its trace id": "ref=0000000000000000000000000000c351",
    "one call by its task id": "scope=account&ref=task_50001",
}
SUMMARIES: Mapping[str, str] = {
    "summary of 30 days of an account": "scope=account",
    "summary of 30 days of a key": "",
    "summary of this month": "scope=account&period=this_month",
    "summary of a year": "scope=account&from=2026-01-01&to=2026-12-31",
}


class Explained:
    """Stands where the database would, and explains each statement before it answers it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.plans: list[str] = []

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        lines = await self._database.fetch_all(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", params)
        self.plans.append("\n".join(line for (line,) in lines))
        return await self._database.fetch_all(sql, params)


def milliseconds(plans: list[str]) -> float:
    """What the database needed for these, planning included."""
    return sum(float(found) for plan in plans for found in _MILLISECONDS.findall(plan))


async def explain(database: Database, now: datetime) -> dict[str, tuple[list[float], list[str]]]:
    """For each question: the milliseconds of each round, and the plans of the last."""
    found: dict[str, tuple[list[float], list[str]]] = {}
    for name, query in {**LISTS, **SUMMARIES}.items():
        times = []
        plans: list[str] = []
        for _ in range(ROUNDS):
            explained = Explained(database)
            await _ask(cast(Database, explained), name, query, now)
            plans = explained.plans
            times.append(milliseconds(plans))
        found[name] = (times, plans)
    return found


async def _ask(database: Database, name: str, query: str, now: datetime) -> None:
    if name in SUMMARIES:
        asked = read_summary_query(parse_qs_bytes(query), see=_see, now=now)
        await read_sums(database, asked.visibility, asked.window, now)
    else:
        await read_page(database, _list_query(query, now))


def _list_query(query: str, now: datetime) -> LogListQuery:
    if "cursor=middle" in query:
        first = _list_query("scope=account", now)
        middle = first.window.start + (first.window.end - first.window.start) / 2
        cursor = Cursor(first.window, first.order, PagePosition(middle, 2**40))
        query = query.replace("cursor=middle", "cursor=" + SEAL.write(cursor, first.visibility))
    return read_list_query(parse_qs_bytes(query), see=_see, seal=SEAL, now=now)


def _see(scope: Scope) -> Visibility:
    return Visibility(scope, "acct_0", "key_1" if scope == "key" else None)
