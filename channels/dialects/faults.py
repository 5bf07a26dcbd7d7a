"""Descriptions of faults: the member, the value found, the allowed values.

For the decoder's type errors, in any dialect; each dialect has its own texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from channels.errors import InvalidRequest

# "Expected … - at `$.messages[0].role`"; no path if the fault is in the body as a whole.
_PATH = re.compile(r" - at `\$\.?(.*)`\Z", re.S)
_MISSING = re.compile(r"Object missing required field `(.*?)`")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

# A number up to this length is a setting; a longer one may be anything.
_NUMBER_CHARACTERS_MAX = 20
# A value quoted in a decoder's own message.
_QUOTED = re.compile(r" '.*'", re.S)
_ABSENT = object()


def invalid_member(
    body: bytes, error: msgspec.ValidationError, allowed: Mapping[str, str]
) -> InvalidRequest:
    """Convert a decoder's error to the client's; `allowed` has `messages[].role` for any index."""
    reason = str(error)
    path = found[1] if (found := _PATH.search(reason)) else ""
    if missing := _MISSING.match(reason):
        path = f"{path}.{missing[1]}" if path else missing[1]
    words = allowed.get(re.sub(r"\[\d+\]", "[]", path))
    if words is None:
        reason = _QUOTED.sub("", reason)
        return InvalidRequest(f"{path or 'The request body'}: {reason}", path or None)
    try:
        value = _value_at(body, path)
    except RecursionError:
        return InvalidRequest(f"{path}: expected {words}, found too deep a nesting.", path)
    if value is _ABSENT:
        return InvalidRequest(f"{path} is missing: expected {words}.", path)
    return InvalidRequest(f"{path}: expected {words}, found {described(value)}.", path)


def fault_within(at: str, error: msgspec.ValidationError) -> InvalidRequest:
    """Convert a decoder's error about the value at a path, in a part that has no words."""
    reason = str(error)
    inner = found[1] if (found := _PATH.search(reason)) else ""
    if missing := _MISSING.match(reason):
        inner = f"{inner}.{missing[1]}" if inner else missing[1]
    path = f"{at}.{inner}" if at and inner and not inner.startswith("[") else at + inner
    reason = _QUOTED.sub("", _PATH.sub("", reason))
    return InvalidRequest(f"{path or 'The request body'}: {reason}.", path or None)


def described(value: object) -> str:
    """Describe a JSON value by its kind and size: a client's content is never quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"a string of {_characters(len(value))}" if value else "an empty string"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    if isinstance(value, Mapping):
        return "an object"
    size = len(value) if isinstance(value, msgspec.Raw) else len(str(value))
    if size > _NUMBER_CHARACTERS_MAX:
        return f"a number of {_characters(size)}"
    number = bytes(value).decode("ascii") if isinstance(value, msgspec.Raw) else str(value)
    return f"the number {number}"


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count} characters"


def _value_at(body: bytes, path: str) -> object:
    """Return the value at a path; a number too large to decode stays as its text."""
    value = msgspec.Raw(body)
    for index, name in _STEP.findall(path):
        if index:
            value = msgspec.json.decode(value, type=list[msgspec.Raw])[int(index)]
        else:
            members = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
            if name not in members:
                return _ABSENT
            value = members[name]
    try:
        return msgspec.json.decode(value)
    except msgspec.ValidationError:
        return value
