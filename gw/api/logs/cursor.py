"""The cursor: the start of the next page, sealed so that only the gateway can write one.

It contains the window of the first page, the order and the last row shown. Its seal covers the
visibility, so a cursor of another key or scope is invalid; visibility is checked again for each
page all the same.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from gw.api.logs.visibility import Visibility
from gw.api.logs.window import Window
from gw.instants import of_microseconds, to_microseconds

Order = Literal["desc", "asc"]

_VERSION = 1
_LAYOUT = struct.Struct(">BBqqqq")  # version, order, window, the last row's instant and id
_SEAL_BYTES = 16
_TEXT_CHARACTERS = -(-4 * (_LAYOUT.size + _SEAL_BYTES) // 3)
_ORDERS: tuple[Order, Order] = ("desc", "asc")


class BadCursor(ValueError):
    """The text is no cursor of the gateway, or one of another visibility."""


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
    """Writes cursors with the first of some keys of 32 bytes, and validates them with any."""

    def __init__(self, *keys: bytes) -> None:
        self._keys = keys

    def __repr__(self) -> str:
        return "<CursorSeal>"

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
        sealed = body + _seal(self._keys[0], body, visibility)
        return _text(sealed)

    def read(self, text: str, visibility: Visibility) -> LogCursor:
        """Parse and validate a cursor. Raises BadCursor."""
        if len(text) != _TEXT_CHARACTERS or not text.isascii():
            raise BadCursor
        try:
            sealed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except binascii.Error:
            raise BadCursor from None
        if _text(sealed) != text:
            raise BadCursor  # the spare bits of the last character are not covered by the seal
        body, seal = sealed[: _LAYOUT.size], sealed[_LAYOUT.size :]
        good = [_seal(key, body, visibility) for key in self._keys]
        if not any(hmac.compare_digest(seal, one) for one in good):
            raise BadCursor
        version, order, start, end, at, row_id = _LAYOUT.unpack(body)
        if version != _VERSION:
            raise BadCursor
        window = Window(of_microseconds(start), of_microseconds(end))
        return LogCursor(window, _ORDERS[order], PagePosition(of_microseconds(at), row_id))


def _seal(key: bytes, body: bytes, visibility: Visibility) -> bytes:
    whose = f"{visibility.scope}\0{visibility.account_id}\0{visibility.key_id or ''}\0"
    return hmac.digest(key, whose.encode() + body, "sha256")[:_SEAL_BYTES]


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).decode().rstrip("=")
