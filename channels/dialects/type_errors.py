"""Say what is wrong with a request body: which member, what was found, what is allowed.

For the reader's type errors, whatever the dialect; each dialect brings its own words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from channels.errors import InvalidRequest

# "Expected … - at `$.messages[0].role`"; no path where the fault is in the body as a whole.
_PATH = re.compile(r" - at `\$\.?(.*)`\Z", re.S)
_MISSING = re.compile(r"Object missing required field `(.*?)`")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

_FOUND_CHARACTERS_MAX = 60
_ABSENT = object()


def invalid_member(
    body: bytes, error: msgspec.ValidationError, allowed: Mapping[str, str]
) -> InvalidRequest:
    """Make the client's error of a reader's; `allowed` has `messages[].role` for any index."""
    reason = str(error)
    path = found[1] if (found := _PATH.search(reason)) else ""
    if missing := _MISSING.match(reason):
        path = f"{path}.{missing[1]}" if path else missing[1]
    words = allowed.get(re.sub(r"\[\d+\]", "[]", path))
    if words is None:
        return InvalidRequest(f"{path or 'The request body'}: {reason}", path or None)
    try:
        value = _value_at(body, path)
    except RecursionError:
        return InvalidRequest(f"{path}: expected {words}, found too deep a nesting.", path)
    if value is _ABSENT:
        return InvalidRequest(f"{path} is missing: expected {words}.", path)
    return InvalidRequest(f"{path}: expected {words}, found {described(value)}.", path)


def described(value: Any) -> str:
    """A JSON value in words, short enough for an error message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = ascii(value[: _FOUND_CHARACTERS_MAX + 1])
        kind = "the string"
    elif isinstance(value, list):
        return "an array" if value else "an empty array"
    elif isinstance(value, Mapping):
        return "an object"
    else:
        text, kind = _number(value), "the number"
    if len(text) > _FOUND_CHARACTERS_MAX:
        text = text[:_FOUND_CHARACTERS_MAX] + "…"
    return f"{kind} {text}"


def _number(value: float | msgspec.Raw) -> str:
    if isinstance(value, msgspec.Raw):
        return bytes(memoryview(value)[: _FOUND_CHARACTERS_MAX + 1]).decode("ascii", "replace")
    return str(value)


def _value_at(body: bytes, path: str) -> Any:
    """The value a path leads to; a number too large to read stays as its text."""
    value: Any = msgspec.Raw(body)
    for index, name in _STEP.findall(path):
        if index:
            value = msgspec.json.decode(value, type=list[msgspec.Raw])[int(index)]
        else:
            value = msgspec.json.decode(value, type=dict[str, msgspec.Raw]).get(name, _ABSENT)
        if value is _ABSENT:
            return _ABSENT
    try:
        return msgspec.json.decode(value)
    except msgspec.ValidationError:
        return value
