"""Cursors: the start of the next page, as text that a client passes on as it came.

A plain one is the position of the last row, for lists whose permissions are checked for each page.
A sealed one is bytes that only the gateway can write.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from datetime import datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

SEAL_BYTES = 16

P = TypeVar("P")


class BadCursor(ValueError):
    """The text is no cursor of the gateway, or one of another list."""


class Position(Struct, frozen=True, array_like=True):
    """A position in a list by age: after the row of this instant and id."""

    at: datetime
    id: Annotated[str, Meta(max_length=200, pattern=r"\A[ -~]+\Z")]


def write_position(position: Any) -> str:
    """Return the cursor after a position."""
    return _text(msgspec.json.encode(position))


def read_position(text: str, kind: type[P]) -> P:
    """Return the position of a cursor. Raises BadCursor."""
    try:
        return msgspec.json.decode(_bytes(text), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadCursor from error


class Seal:
    """Seals with the first of some keys of 32 bytes, and validates with any."""

    def __init__(self, *keys: bytes) -> None:
        self._keys = keys

    def write(self, body: bytes, visible_to: bytes) -> str:
        """Return the cursor of a body; it is valid with this visibility only."""
        return _text(body + _mac(self._keys[0], visible_to + body))

    def read(self, text: str, visible_to: bytes) -> bytes:
        """Return the body of a cursor. Raises BadCursor."""
        sealed = _bytes(text)
        if _text(sealed) != text:
            raise BadCursor  # the spare bits of the last character are not covered by the seal
        body, mac = sealed[:-SEAL_BYTES], sealed[-SEAL_BYTES:]
        good = [_mac(key, visible_to + body) for key in self._keys]
        if not any(hmac.compare_digest(mac, one) for one in good):
            raise BadCursor
        return body


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")[:SEAL_BYTES]


def _text(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise BadCursor from error
