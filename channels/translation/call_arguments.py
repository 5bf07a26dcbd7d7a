"""The arguments of a tool call: JSON text, whole or in pieces.

Models also write none, null, or text that is no JSON. Each piece is scanned once, however
small the pieces are.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

_OBJECT = msgspec.json.Decoder(dict[str, Any])

# Limit of white space around a null, which is searched in every piece of a stream.
NO_ARGUMENTS_CHARACTERS_MAX = 16


def call_arguments(text: str) -> str:
    """Return a call's arguments unchanged; `{}` if they mean no arguments."""
    return "{}" if is_no_arguments(text) or text.isspace() else text


def is_no_arguments(text: str) -> bool:
    """Whether a call's arguments are blank or null, which models write for none."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and text.strip() in ("", "null")


def may_say_no_arguments(text: str) -> bool:
    """Whether arguments with this beginning may still turn out to mean none."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and "null".startswith(text.strip())


def object_in(text: str) -> dict[str, Any] | None:
    """Decode JSON text that must be one object; None otherwise.

    Text that means no arguments is `{}`.
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
    """Return a call's arguments as an object, for protocols that require one.

    Models sometimes write invalid JSON; that is kept under its own name.
    """
    value = object_in(text)
    return raw_arguments(text) if value is None else value


def raw_arguments(text: str) -> dict[str, Any]:
    """Return the object for arguments that are not an object."""
    return {"raw_arguments": text}
