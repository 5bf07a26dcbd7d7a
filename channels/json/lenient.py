"""JSON that deviates from its dialect or from JSON itself, read and written as far as possible.

The meters decode strictly first, which is fast, and use this on failure. Requests are never
decoded leniently but refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

NULL = msgspec.Raw(b"null")
# Some servers begin every text with it. Strict decoders refuse it, so whoever receives a whole body
# that is no recording drops it.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Skips strings, counts brackets.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.S)
_CLOSER = {"{": "}", "[": "]"}
# Longer events contain media, and are not repaired.
_REPAIRED_CHARACTERS_MAX = 4 * 1024 * 1024
# No response nests deeper, and its reader may recurse to this depth.
DEPTH_MAX = 200
# Members that hold text, or parts with text.
_TEXT_MEMBERS = ("text", "refusal", "thinking", "content")


def read_loosely(
    data: bytes, *, mends: bool = True, numbers: Callable[[str], Any] | None = None
) -> Any:
    """Decode some JSON text; None if that fails, or if it nests too deeply.

    It accepts a byte order mark, control characters, lone surrogates, invalid UTF-8, and NaN (as
    null); and with `mends`, missing closing brackets at the end. `numbers` converts the characters
    of a number; without it they are int and float.
    """
    text = data.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
    value = _read(text, numbers)
    if value is None and mends and (tail := _missing_tail(text)):
        value = _read(text + tail, numbers)
    return None if _is_too_deep(value) else value


def text_of(value: Any) -> str | None:
    """Return a string; None for anything else."""
    return value if isinstance(value, str) else None


def text_in(members: Mapping[str, object], name: str) -> str:
    """Return a member that is a string; empty for any other, and without it."""
    value = members.get(name)
    return value if isinstance(value, str) else ""


def is_stated(raw: msgspec.Raw) -> bool:
    """Whether a member is present and not null."""
    # The default is shared, so an absent member costs no comparison of bytes.
    return raw is not NULL and bytes(raw) != b"null"


def raw_of(value: Any) -> msgspec.Raw:
    """Encode a value as JSON, lone surrogates replaced; null if it nests too deeply."""
    if value is None:
        return NULL
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, or a huge integer
        pass
    except RecursionError:
        return NULL
    try:
        return msgspec.Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        return NULL


def characters_of(value: Any) -> int:
    """Count the characters of a string, or of the text in nested parts and arrays."""
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
    """Count the characters of a string, or of another value's JSON text without white space.

    Null and `{}` count as nothing: both are placeholders before content.
    """
    if raw is NULL:
        return 0
    try:
        if bytes(memoryview(raw)[:1]) == b'"':
            return len(msgspec.json.decode(raw, type=str))
        text = msgspec.json.format(bytes(raw), indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0
    except RecursionError:
        text = bytes(raw)  # too deep to be decoded, and counted as is
    return 0 if text in (b"null", b"{}") else len(text.decode("utf-8", "replace"))


def _read(text: str, numbers: Callable[[str], Any] | None) -> Any:
    try:
        return json.loads(
            text,
            strict=False,
            parse_constant=lambda _: None,
            parse_int=numbers,
            parse_float=numbers,
        )
    except (ValueError, RecursionError):
        return None


def _is_too_deep(value: Any) -> bool:
    """Whether it nests deeper than DEPTH_MAX; checked level by level."""
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
    """Return the missing closing brackets; empty if they would not help."""
    if len(text) > _REPAIRED_CHARACTERS_MAX or text[:1] not in _CLOSER:
        return ""
    tail: list[str] = []
    for token in _TOKEN.findall(text):
        if token in _CLOSER:
            tail.append(_CLOSER[token])
        elif token in ("}", "]") and (not tail or tail.pop() != token):
            return ""
    return "".join(reversed(tail))


_ENCODER = msgspec.json.Encoder()

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def dumps(value: Any) -> bytes:
    """Encode as compact JSON. Raises RecursionError for a value that nests too deeply.

    A lone surrogate, half of a character that an upstream split, must not end a stream: it is
    encoded as the same escape.
    """
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, or a huge integer
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def read_json(data: bytes) -> Any:
    """Decode JSON text, leniently if the strict way fails; None on failure."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return read_loosely(data)
