"""Read JSON by the most forgiving rules, for responses that are not as their dialect documents
them.

The meters read strictly first, which is fast; what they cannot read comes here. Requests never do:
what a client sends is refused instead (`channels/json/members.py`).
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

NOTHING = msgspec.Raw(b"null")

# Strings are stepped over, brackets are counted.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.S)
_CLOSER = {"{": "}", "[": "]"}
# Events this long hold media, and are worth no repair.
_REPAIRED_CHARACTERS_MAX = 4 * 1024 * 1024
# No response nests like this, and its reader may recurse as deep as it does.
DEPTH_MAX = 200
# Members that hold text, or parts that do.
_TEXT_MEMBERS = ("text", "refusal", "thinking", "content")


def read_loosely(data: bytes, *, mends: bool = True) -> Any:
    """The value of some JSON text; None when there is none to be had, or one nested too deeply.

    Control characters, lone surrogates, bytes that are no UTF-8, and NaN (read as null) are put up
    with; and if it `mends`, closing brackets that are missing at the end.
    """
    text = data.decode("utf-8", "replace")
    value = _read(text)
    if value is None and mends and (tail := _missing_tail(text)):
        value = _read(text + tail)
    return None if _is_too_deep(value) else value


def text_of(value: Any) -> str | None:
    """A string; None for anything else."""
    return value if isinstance(value, str) else None


def is_stated(raw: msgspec.Raw) -> bool:
    """Whether a member is there and says more than null."""
    # The default is shared, so an absent member costs no comparison of bytes.
    return raw is not NOTHING and bytes(raw) != b"null"


def raw_of(value: Any) -> msgspec.Raw:
    """A value as JSON text again, lone surrogates replaced; nothing for one that is too deep."""
    if value is None:
        return NOTHING
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (UnicodeEncodeError, OverflowError):  # msgspec has no surrogates and no huge integers
        pass
    except RecursionError:
        return NOTHING
    try:
        return msgspec.Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        return NOTHING


def characters_of(value: Any) -> int:
    """Characters of a string, or of the text in parts and arrays of them, however deep."""
    count = 0
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            count += len(one)
        elif isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            left += [one[name] for name in _TEXT_MEMBERS if name in one]
    return count


def length_of(raw: msgspec.Raw) -> int:
    """Characters of a string's value, or of any other value's JSON text without white space.

    Null and `{}` count as nothing: both stand where something may follow.
    """
    if raw is NOTHING:
        return 0
    try:
        if bytes(memoryview(raw)[:1]) == b'"':
            return len(msgspec.json.decode(raw, type=str))
        text = msgspec.json.format(bytes(raw), indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0
    except RecursionError:
        text = bytes(raw)  # too deep to be read, and counted as it stands
    return 0 if text in (b"null", b"{}") else len(text.decode("utf-8", "replace"))


def _read(text: str) -> Any:
    try:
        return json.loads(text, strict=False, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _is_too_deep(value: Any) -> bool:
    """Whether it nests deeper than DEPTH_MAX; looked at level by level."""
    level = [value]
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
        if not below:
            return False
        level = below
    return True


def _missing_tail(text: str) -> str:
    """The brackets that are open at the end; empty when closing them would not help."""
    if len(text) > _REPAIRED_CHARACTERS_MAX or text[:1] not in _CLOSER:
        return ""
    tail: list[str] = []
    for token in _TOKEN.findall(text):
        if token in _CLOSER:
            tail.append(_CLOSER[token])
        elif token in ("}", "]") and (not tail or tail.pop() != token):
            return ""
    return "".join(reversed(tail))
