"""Converts any value to plain JSON values for a log line, without ever raising.

Bounded in depth, width and length: a log line is not the place for a request body. Secrets are
redacted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any, Final

from metrics.log_redaction import REDACTED, names_a_secret, redact

DEPTH_MAX: Final = 6
ITEMS_MAX: Final = 100
TEXT_CHARACTERS_MAX: Final = 8_000

_INTEGER_MAX: Final = 2**63


def plain(value: object, depth: int = DEPTH_MAX) -> Any:
    """Return `value` as str, int, float, bool, None, list or dict of those."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int) and abs(value) < _INTEGER_MAX:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if depth <= 0:
        return printed(value)
    try:
        if isinstance(value, Mapping):
            return _plain_mapping(value, depth)
        if isinstance(value, list | tuple | Set):
            return [plain(item, depth - 1) for item in list(value)[:ITEMS_MAX]]
    except Exception as error:  # noqa: BLE001 - a container of a foreign class may do anything
        return f"<unreadable {type(value).__name__}: {type(error).__name__}>"
    return printed(value)


def text(value: str) -> str:
    """Return `value` redacted and truncated to the maximum length in a log line."""
    # Truncated twice: the patterns must not scan megabytes, and redactions must not be split.
    shown = redact(value[: 2 * TEXT_CHARACTERS_MAX])
    if len(shown) <= TEXT_CHARACTERS_MAX and len(value) <= 2 * TEXT_CHARACTERS_MAX:
        return shown
    return f"{shown[:TEXT_CHARACTERS_MAX]}… ({len(value)} characters)"


def printed(value: object) -> str:
    """Return `value` as text: an error with its type, bytes decoded, anything else by `str`."""
    try:
        if isinstance(value, BaseException):
            return text(f"{type(value).__name__}: {value}".removesuffix(": "))
        if isinstance(value, bytes | bytearray):
            return text(bytes(value[: 2 * TEXT_CHARACTERS_MAX]).decode("utf-8", "replace"))
        return text(str(value))
    except Exception as error:  # noqa: BLE001 - its __str__ may do anything
        return f"<unprintable {type(value).__name__}: {type(error).__name__}>"


def _plain_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, item in list(value.items())[:ITEMS_MAX]:
        key = name if isinstance(name, str) else printed(name)
        shown[text(key)] = REDACTED if names_a_secret(key) else plain(item, depth - 1)
    return shown
