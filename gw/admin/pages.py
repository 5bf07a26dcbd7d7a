"""Lists page by page: how long a page is, and where the next one begins."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from gw.admin.refusals import Invalid

PAGE_DEFAULT = 50
PAGE_MAX = 200
CURSOR_CHARACTERS_MAX = 400

# An instant with its zone: in UTC as it is shown, in any as it is given.
Instant = Annotated[datetime, Meta(tz=True)]

T = TypeVar("T")
P = TypeVar("P")


class Page(Struct, Generic[T], frozen=True):
    """Some rows of a list. `next_cursor`: what to ask with for the next ones, null at the end."""

    data: list[T]
    next_cursor: str | None


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page of a list: its length, and where it begins."""

    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE_DEFAULT
    cursor: Annotated[str, Meta(max_length=CURSOR_CHARACTERS_MAX)] | None = None

    def position(self, kind: type[P]) -> P | None:
        """What the cursor holds; None at the beginning. Raises Invalid."""
        if self.cursor is None:
            return None
        try:
            body = base64.b64decode(
                self.cursor.encode() + b"=" * (-len(self.cursor) % 4), b"-_", validate=True
            )
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, binascii.Error, UnicodeEncodeError, RecursionError):
            raise Invalid("cursor: this is none of this list") from None


class Position(Struct, frozen=True, array_like=True):
    """Between two rows of a list by age: after the one made at this instant, of this id."""

    at: datetime
    id: Annotated[str, Meta(max_length=200, pattern=r"^[ -~]+$")]


def after(query: PageQuery) -> dict[str, Any]:
    """The parameters of a statement that lists by age. Raises Invalid."""
    position = query.position(Position)
    at, last_id = (None, None) if position is None else (position.at, position.id)
    return {"at": at, "id": last_id, "limit": query.limit + 1}


def page_of(rows: Sequence[T], limit: int, position: Callable[[T], Any]) -> Page[T]:
    """A page of rows, of which one more than `limit` was asked for."""
    kept = list(rows[:limit])
    cursor = cursor_of(position(kept[-1])) if len(rows) > limit else None
    return Page(kept, cursor)


def cursor_of(position: Any) -> str:
    """The text of a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()
