"""An operator's functions of events: a page of them after a cursor, and the newest ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct

from actors.events import outbox
from actors.events.kinds import CALL_SETTLED, EventType
from actors.events.outbox import Event
from actors.store.database import Database
from gw import accounts, cursors
from gw.admin.pagination import PageQuery
from gw.nouns.refused import Invalid, Refused
from gw.nouns.values import Instant

# Shows the row of a call as the call log does, with its cost in USD.
ShowCall = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class EventView(Struct, frozen=True):
    """An event. `sequence` rises from one to the next; `timestamp`: the instant of its cause."""

    id: str
    sequence: int
    type: EventType
    timestamp: Instant
    account_id: str | None
    data: dict[str, Any]


class EventPage(Struct, frozen=True):
    """Events, the oldest first. `next_cursor` is always there: what comes later comes after it."""

    data: list[EventView]
    next_cursor: str


class EventQuery(PageQuery, frozen=True):
    """The query of a page of events."""

    type: EventType | None = None
    account_id: str | None = None


class _Place(Struct, frozen=True, array_like=True):
    """A place in the order of events: after a number, as it was at an instant."""

    sequence: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    at: Instant


def view(event: Event, show_call: ShowCall) -> EventView:
    """Return an event as it is shown, pulled and delivered."""
    data = show_call(event.data) if event.type == CALL_SETTLED else event.data
    return EventView(
        id=event.id,
        sequence=event.sequence,
        type=event.type,
        timestamp=event.at,
        account_id=event.account_id,
        data=dict(data),
    )


async def page(
    database: Database, query: EventQuery, *, keep_days: float, show_call: ShowCall
) -> EventPage:
    """Return the events after a cursor, of what has been committed until now, oldest first.

    Without one from the oldest kept. Raises Invalid, Refused (`cursor_expired`), UnknownAccount,
    StoreError.
    """
    after = query.position(_Place)
    if query.account_id is not None:
        await accounts.show(database, query.account_id)
    await outbox.number(database)
    found = await outbox.read(
        database,
        after=0 if after is None else after.sequence,
        limit=query.limit,
        types=None if query.type is None else [query.type],
        account_id=query.account_id,
    )
    if after is not None:
        if after.sequence > found.last:
            raise Invalid("cursor: this is none of this list")
        # Also where nothing was deleted after it, so that a cursor's age alone decides.
        if after.sequence < found.purged or found.now - after.at > timedelta(days=keep_days):
            raise Refused(
                f"The cursor is older than events are kept, which is {keep_days:g} days:"
                " begin without one.",
                "cursor_expired",
                http_status=410,
            )
    is_full = len(found.events) == query.limit
    place = _Place(found.events[-1].sequence if is_full else found.last, found.now)
    return EventPage(
        [view(event, show_call) for event in found.events], cursors.write_position(place)
    )


async def newest(
    database: Database, *, before: int | None, limit: int, show_call: ShowCall
) -> list[EventView]:
    """Return the events before a number, or the last ones, newest first. Raises StoreError."""
    await outbox.number(database)
    events = await outbox.read_newest(database, before=before, limit=limit)
    return [view(event, show_call) for event in events]
