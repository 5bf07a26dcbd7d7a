"""Pagination of lists: the length of a page, and the cursor of the next one (`gw/cursors.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta, Struct

from gw import cursors
from gw.admin.refusals import Invalid

PAGE_DEFAULT = 50
PAGE_MAX = 200
CURSOR_CHARACTERS_MAX = 400

T = TypeVar("T")
P = TypeVar("P")


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


def after_position(query: PageQuery) -> dict[str, Any]:
    """Return the parameters of a statement that lists by age. Raises Invalid."""
    position = query.position(cursors.Position)
    at, last_id = (None, None) if position is None else (position.at, position.id)
    return {"at": at, "id": last_id, "limit": query.limit + 1}


def page_of(rows: Sequence[T], limit: int, position: Callable[[T], Any]) -> Page[T]:
    """Return a page of rows, which were read with one more than `limit`."""
    kept = list(rows[:limit])
    cursor = cursors.write_position(position(kept[-1])) if len(rows) > limit else None
    return Page(kept, cursor)


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
