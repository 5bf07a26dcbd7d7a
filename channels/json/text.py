"""JSON as the translators write it, and the JSON text that a call's arguments are.

A lone surrogate, half of a character that an upstream cut in two, is no reason to end a stream: it
is written back as the same escape. Answers that are not well formed are read by
`channels/json/lenient.py`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from channels.json.lenient import read_loosely

_ENCODER = msgspec.json.Encoder()
_OBJECT = msgspec.json.Decoder(dict[str, Any])

# Blanks around a null, while it is looked for in every piece of a stream.
NO_ARGUMENTS_CHARACTERS_MAX = 16

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def dumps(value: Any) -> bytes:
    """Compact JSON. Raises RecursionError for a value that is nested too deeply."""
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, OverflowError):  # half a character, or a huge integer
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def read_json(data: bytes) -> Any:
    """The value of JSON text, by forgiving rules where the strict ones fail; None when none."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return read_loosely(data)


def call_arguments(text: str) -> str:
    """A call's arguments as they were written; `{}` where they say that there are none."""
    return "{}" if is_no_arguments(text) or text.isspace() else text


def is_no_arguments(text: str) -> bool:
    """Whether a call's arguments are blank or null, as models write them for want of any."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and text.strip() in ("", "null")


def may_say_no_arguments(text: str) -> bool:
    """Whether arguments that begin like this may still turn out to be none."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and "null".startswith(text.strip())


def object_in(text: str) -> dict[str, Any] | None:
    """The object that JSON text holds; None when it is not one object.

    Text that says that there are no arguments is `{}`.
    """
    if is_no_arguments(text) or text.isspace():
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
