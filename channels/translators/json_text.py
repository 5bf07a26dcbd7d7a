"""JSON as the translators write it, and the JSON text that a call's arguments are.

A lone surrogate, half of a character that an upstream cut in two, is no reason to end a stream: it
is written back as the same escape. Answers that are not well formed are read by
`channels/protocols/loose.py`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from channels.protocols.loose import read_loosely

_ENCODER = msgspec.json.Encoder()
_OBJECT = msgspec.json.Decoder(dict[str, Any])

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def dumps(value: Any) -> bytes:
    """Compact JSON."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def read_json(data: bytes) -> Any:
    """The value of JSON text, by forgiving rules where the strict ones fail; None when none."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return read_loosely(data)


def object_in(text: str) -> dict[str, Any] | None:
    """The object that JSON text holds; None when it is not one object. Blank text is `{}`."""
    if not text or text.isspace():
        return {}
    try:
        return _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def arguments_object(text: str) -> dict[str, Any]:
    """A call's arguments as the object that some protocols want.

    Models write what is not JSON at times; that is kept under a name of its own.
    """
    value = object_in(text)
    return {"raw_arguments": text} if value is None else value
