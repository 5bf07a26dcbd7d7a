"""Pagination of lists: the length of a page, and the cursor of the next one (`gw/cursors.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta, Struct

from actors.store.session import Statements
from gw import accounts, cursors
from gw.nouns.noun import Noun
from gw.nouns.refused import Invalid

PAGE_DEFAULT = 50
PAGE_MAX = 200
CURSOR_CHARACTERS_MAX = 400

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


class Page(Struct, Generic[T], frozen=True):
    """Some rows of a list. `next_cursor`: the cursor of the next page, null at the end."""

    data: list[T]
    next_cursor: str | None


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a page: its length and its cursor."""

    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    cursor: Annotated[str, Meta(max_length=CURSOR_CHARACTERS_MAX)] | None = None

    def position(self, kind: type[P]) -> P | None:
        """Return the position in the cursor; None at the beginning. Raises Invalid."""
        if self.cursor is None:
            return None
        try:
            return cursors.read_position(self.cursor, kind)
        except cursors.BadCursor:
            raise Invalid("cursor: this is none of this list") from None


class AccountQuery(PageQuery, frozen=True):
    """The query of a page of what one account has, or all have."""

    account_id: str | None = None


def _after(query: PageQuery) -> dict[str, Any]:
    """Return the parameters of a statement that lists by age. Raises Invalid."""
    position = query.position(cursors.Position)
    at, last_id = (None, None) if position is None else (position.at, position.id)
    return {"at": at, "id": last_id, "limit": query.limit + 1}


async def newest(
    database: Statements, statement: str, noun: Noun[Any, R], query: PageQuery
) -> Page[R]:
    """Return a page of the noun's records, the newest first. Raises UnknownAccount, Invalid."""
    account_id = query.account_id if isinstance(query, AccountQuery) else None
    if account_id is not None:
        await accounts.show(database, account_id)
    rows = await database.fetch_all(statement, {"account": account_id, **_after(query)})
    found: list[Any] = [noun.of_row(row) for row in rows]
    return page_of(found, query.limit, lambda one: cursors.Position(one.created_at, one.id))


def page_of(rows: Sequence[T], limit: int, position: Callable[[T], Any]) -> Page[T]:
    """Return a page of rows, which were read with one more than `limit`."""
    kept = list(rows[:limit])
    cursor = cursors.write_position(position(kept[-1])) if len(rows) > limit else None
    return Page(kept, cursor)


def shown(page: Page[T], view: Callable[[T], P]) -> Page[P]:
    """Return a page of views."""
    return Page([view(row) for row in page.data], page.next_cursor)


def pages_of(view: type[Struct]) -> Any:
    """Return the type of a page of a view that is made from a declaration."""
    return Page[view]  # type: ignore[valid-type]


def page_in_order(rows: Sequence[T], query: PageQuery, name: Callable[[T], str]) -> Page[T]:
    """Return a page of rows in the configuration's order. Raises Invalid."""
    last = query.position(str)
    start = 0
    if last is not None:
        names = [name(row) for row in rows]
        if last not in names:
            raise Invalid("cursor: what it names is no longer there")
        start = names.index(last) + 1
    return page_of(rows[start : start + query.limit + 1], query.limit, name)
