"""The newest calls of all accounts, with filters, for operators.

A page looks at no more than SCANNED_MAX rows, whatever the filters are: those of a key or an
account by its index, all others by their ids, which are in the order in which calls were settled.
A page that has found less than it may show goes on with the next rows.

An account or a key is given by its id, or by its name if one alone has it: the key's among those of
the account, if that is given. Of a name that several have the page lists them instead of calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from actors.store.queries import load
from actors.store.session import Statements
from gw.api.logs.filters import STATUSES
from gw.api.logs.rows import LogRow
from gw.api.logs.window import Window, read_window
from gw.console.pages import ConsoleHandler
from gw.instants import EPOCH

SHOWN = 50
# Accounts or keys of one name that are listed.
NAMESAKES_SHOWN = 20
SCANNED_MAX = 20_000
# How much later than its instant a row is settled at most, for the rows of a period to be sought
# among its ids. A settlement that waits longer, in an outage, is found by its account or key.
SETTLED_WITHIN = timedelta(minutes=10)
BY_ROW = ("account", "key_id", "model", "channel", "status")
FILTERS = (*BY_ROW, "period", "from", "to")

_TEXTS = load("gw.console", "calls.sql")
_PLACES = {"by_id": "id", "of_account": "(created_at, id)", "of_key": "(created_at, id)"}
SQL = {
    name: _TEXTS["recent"].replace("{scan}", _TEXTS[name]).replace("{place}", place)
    for name, place in _PLACES.items()
}


class AllCallsHandler(ConsoleHandler):
    """A page of the calls that pass the filters, the newest first."""

    async def on_get(self) -> None:
        chosen = {name: self.parameters.text(name) or "" for name in FILTERS}
        self.parameters.choice("status", STATUSES)
        window = read_window(self.parameters, self.now, default_period="all")
        before = self.parameters.whole("before", least=1, most=2**63 - 1)
        kept = {name: one for name, one in chosen.items() if one}
        named = await find_named(self.services.database, chosen)
        found = FoundCalls([], {}, None)
        if not named.namesakes:
            found = await find_calls(self.services.database, named.chosen, window, before)
        registry = self.services.current.registry
        self.page(
            "recent.html",
            rows=found.rows,
            account_names=found.account_names,
            ambiguous=named.ambiguous,
            namesakes=[
                (one_id, account, urlencode({**kept, named.ambiguous: one_id}))
                for one_id, account in named.namesakes[:NAMESAKES_SHOWN]
            ],
            more_namesakes=len(named.namesakes) > NAMESAKES_SHOWN,
            chosen=chosen,
            is_filtered=bool(kept),
            statuses=STATUSES,
            models=list(registry.models),
            channels=list(registry.channels),
            next_query=found.before and urlencode({**kept, "before": found.before}),
            redact=self.services.current.redact,
        )


@dataclass(frozen=True, slots=True)
class NamedFilters:
    """The filters with ids in place of names; or the filter whose name several have.

    Of each of those its id and, of a key, the name of its account.
    """

    chosen: Mapping[str, str]
    ambiguous: str = ""
    namesakes: Sequence[tuple[str, str | None]] = ()


async def find_named(database: Statements, chosen: Mapping[str, str]) -> NamedFilters:
    """Find the account and the key that are given by their names."""
    found = dict(chosen)
    for name, statement in (("account", "named_account"), ("key_id", "named_key")):
        if not found[name]:
            continue
        params = {
            "text": found[name],
            "account": found["account"] or None,
            "limit": NAMESAKES_SHOWN + 1,
        }
        rows = await database.fetch_all(_TEXTS[statement], params)
        if len(rows) > 1:
            return NamedFilters(chosen, name, [(row[0], row[1]) for row in rows])
        if rows:
            found[name] = rows[0][0]
    return NamedFilters(found)


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """Rows, the names of their accounts, and the id before which the next page begins."""

    rows: Sequence[LogRow]
    account_names: Mapping[str, str | None]
    before: int | None


async def find_calls(
    database: Statements, chosen: Mapping[str, str], window: Window, before: int | None
) -> FoundCalls:
    """Return a page of the calls that pass; `chosen`: FILTERS, names as ids, "" where absent."""
    way = "of_key" if chosen["key_id"] else "of_account" if chosen["account"] else "by_id"
    is_dated = bool(chosen["from"])  # a period ends now
    first, last = 0, before
    if way == "by_id" and window.start > EPOCH:
        first = await first_id(database, window.start)
    if way == "by_id" and is_dated:
        end = await first_id(database, window.end + SETTLED_WITHIN)
        last = end if before is None else min(before, end)
    params: dict[str, Any] = {
        **{name: chosen[name] or None for name in BY_ROW},
        "start": window.start,
        "end": window.end if is_dated else None,
        "first": first,
        "before": last,
        "scanned": SCANNED_MAX,
        "limit": SHOWN + 1,
    }
    found = await database.fetch_all(SQL[way], params)
    scanned, lowest = found[0][:2]
    passing = [(LogRow(*one[3:]), one[2]) for one in found if one[3] is not None]
    shown = passing[:SHOWN]
    more = lowest if scanned == SCANNED_MAX else None
    if len(passing) > SHOWN:
        more = shown[-1][0].id
    names = {row.account_id: name for row, name in shown}
    return FoundCalls([row for row, _ in shown], names, more)


async def first_id(database: Statements, instant: datetime) -> int:
    """Return the id from which on rows are of `instant` or later, by bisection."""
    low, high = 0, 1 + ((await database.fetch_one(_TEXTS["last_id"])) or (0,))[0]
    while low < high:
        middle = (low + high) // 2
        row = await database.fetch_one(_TEXTS["instant_of"], {"id": middle})
        if row is None or row[0] >= instant:
            high = middle
        else:
            low = middle + 1
    return low
