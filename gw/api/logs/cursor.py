"""The sealed cursor of the call log.

It contains the window of the first page, the order and the last row shown. Its seal covers the
visibility, so a cursor of another key or scope is invalid; visibility is checked again for each
page all the same.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from gw.api.logs.visibility import Visibility
from gw.api.logs.window import Window
from gw.cursors import BadCursor, Seal
from gw.instants import of_microseconds, to_microseconds

Order = Literal["desc", "asc"]

_VERSION = 1
_LAYOUT = struct.Struct(">BBqqqq")  # version, order, window, the last row's instant and id
_ORDERS: tuple[Order, Order] = ("desc", "asc")


@dataclass(frozen=True, slots=True)
class PagePosition:
    """A row's position among all rows: by its instant, then by its id."""

    created_at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class LogCursor:
    """Continue after `position`, in this order, within this window."""

    window: Window
    order: Order
    position: PagePosition


class CursorSeal:
    """Writes and reads cursors under a seal."""

    def __init__(self, *keys: bytes) -> None:
        self._seal = Seal(*keys)

    def write(self, cursor: LogCursor, visibility: Visibility) -> str:
        """Return the opaque text of a cursor."""
        body = _LAYOUT.pack(
            _VERSION,
            _ORDERS.index(cursor.order),
            to_microseconds(cursor.window.start),
            to_microseconds(cursor.window.end),
            to_microseconds(cursor.position.created_at),
            cursor.position.id,
        )
        return self._seal.write(body, _visible_to(visibility))

    def read(self, text: str, visibility: Visibility) -> LogCursor:
        """Parse and validate a cursor. Raises BadCursor."""
        body = self._seal.read(text, _visible_to(visibility))
        if len(body) != _LAYOUT.size:
            raise BadCursor
        version, order, start, end, at, row_id = _LAYOUT.unpack(body)
        if version != _VERSION:
            raise BadCursor
        window = Window(of_microseconds(start), of_microseconds(end))
        return LogCursor(window, _ORDERS[order], PagePosition(of_microseconds(at), row_id))


def _visible_to(visibility: Visibility) -> bytes:
    return f"{visibility.scope}\0{visibility.account_id}\0{visibility.key_id or ''}\0".encode()
