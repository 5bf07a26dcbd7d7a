"""The outbox: events as transactions wrote them, numbered in the order in which they are seen.

A transaction writes its events with `event_write` (`actors/store/functions`), in SQL, and knows no
number. Whoever reads numbers first, one at a time, and only what is committed: an event never
appears before one that somebody has read. Nothing waits for a job, and a transaction that stays
open holds nobody up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from actors.events.kinds import TYPES, EventType
from actors.store.queries import load
from actors.store.session import Statements

COLUMNS = "e.sequence, e.id, e.type, e.at, e.account_id, e.data"
STANDING = "n.last, n.purged, clock_timestamp()"
SQL = load("actors.events", "outbox.sql", {"columns": COLUMNS, "standing": STANDING})
# Events numbered in one transaction, and such transactions before a read: what is left after them
# is numbered by the next one.
NUMBERED_MAX = 5000
NUMBERINGS_MAX = 20


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `data` is what its transaction wrote; `gw/events` shows it."""

    sequence: int
    id: str
    type: EventType
    at: datetime
    account_id: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """Some events, and of that moment the last number given, the last one whose event was deleted,
    and the database's clock."""

    events: Sequence[Event]
    last: int
    purged: int
    now: datetime


async def number(store: Statements) -> None:
    """Number what was committed. In autocommit. Raises StoreError."""
    for _ in range(NUMBERINGS_MAX):
        row = await store.fetch_one(SQL["number"], (NUMBERED_MAX,))
        assert row is not None
        if row[0] < NUMBERED_MAX:
            break


async def count(store: Statements) -> Mapping[str, int]:
    """Return how many events of each type no process has counted yet. Raises StoreError."""
    row = await store.fetch_one(SQL["count"], (NUMBERED_MAX * NUMBERINGS_MAX,))
    assert row is not None
    return row[0] or {}


async def want_calls(store: Statements, *, are_wanted: bool) -> None:
    """Have every call write an event, or only while a webhook asks for it. Raises StoreError."""
    await store.execute(SQL["want_calls" if are_wanted else "leave_calls"])


async def read(
    store: Statements,
    *,
    after: int,
    limit: int,
    types: Sequence[str] | None = None,
    account_id: str | None = None,
) -> Reading:
    """Return the first `limit` events after a number, of what is numbered. Raises StoreError.

    `types` None: of all types; `account_id` None: of all accounts, and those of none.
    """
    wanted = {
        "after": after,
        "limit": limit,
        "types": list(TYPES if types is None else types),
        "account": account_id,
    }
    if account_id is not None:
        statement = SQL["of_account"]
    elif types is not None:
        statement = SQL["of_types"]
    else:
        statement = SQL["after"]
    rows = await store.fetch_all(statement, wanted)
    last, purged, now = rows[0][:3]
    return Reading([Event(*row[3:]) for row in rows if row[3] is not None], last, purged, now)


async def read_newest(store: Statements, *, before: int | None, limit: int) -> list[Event]:
    """Return the last events before a number, the newest first. Raises StoreError."""
    rows = await store.fetch_all(SQL["newest"], {"before": before, "limit": limit})
    return [Event(*row) for row in rows]


async def purge(store: Statements, keep_days: float, most: int) -> int:
    """Delete the oldest events, at most so many; return how many. Raises StoreError."""
    row = await store.fetch_one(SQL["purge"], {"days": keep_days, "most": most})
    assert row is not None
    return int(row[0])
