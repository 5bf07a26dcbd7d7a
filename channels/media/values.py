"""Read single values of an upstream's response: each function takes any JSON value, none raises.

What is not as it should be is None: an upstream may leave out, misspell or invent anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal, DecimalException
from math import isfinite
from typing import Any

from channels.json.lenient import read_loosely
from channels.media.model import ID_CHARACTERS_MAX, MediaResponse
from channels.signed_links import LASTS_SECONDS_MAX, is_link
from channels.signed_links import expires_at as end_in_link
from channels.text import fit

NAME_CHARACTERS_MAX = 1000
LYRICS_CHARACTERS_MAX = 20_000
# A reported length above a day is a mistake of units, and nothing to be billed by.
SECONDS_MAX = 86_400

_NUMERIC = re.compile(r"\s*\d{1,15}(?:\.\d{1,30})?\s*", re.ASCII)
# An instant above this is in milliseconds: as seconds it would be after the year 5138.
_MILLISECONDS_FROM = 100_000_000_000


def json_of(response: MediaResponse) -> Any:
    """The value of a body; None where it is no JSON, or was not read to its end."""
    return None if response.is_cut_off else read_loosely(response.body, mends=False)


def member(value: Any, *path: str) -> Any:
    """The value at the end of a path of members; None where it leads nowhere."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def entries(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; what else is in it is left out."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def text(value: Any, limit: int = NAME_CHARACTERS_MAX) -> str | None:
    """A text that is not blank, fit to be stored, of at most so many characters."""
    return fit(value, limit) if isinstance(value, str) and value else None


def word(value: Any) -> str:
    """A status word as the upstream writes it, for comparison and for a log line."""
    return fit(value, 64).strip() if isinstance(value, str) else ""


def link(value: Any) -> str | None:
    """An http or https link to something."""
    return value if isinstance(value, str) and is_link(value) else None


def identifier(value: Any) -> str | None:
    """An upstream's id: a text or a whole number, which fits into a path and a row."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 10**30:
            return None
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= ID_CHARACTERS_MAX:
        return None
    if not value.isprintable() or value.strip(".") == "":
        return None
    return value


def number(value: Any) -> int | float | None:
    """A JSON number of ordinary size."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isfinite(value) and abs(value) < 1e15 else None


def decimal(value: Any) -> Decimal | None:
    """A number that is not negative, or its digits as a string."""
    if isinstance(value, str):
        return Decimal(value.strip()) if len(value) <= 64 and _NUMERIC.fullmatch(value) else None
    found = number(value)
    return None if found is None or found < 0 else Decimal(str(found))


def milliseconds(seconds: Any) -> int | None:
    """A length above 0 in whole milliseconds, rounded half up (contract: real seconds)."""
    value = seconds if isinstance(seconds, Decimal) else decimal(seconds)
    if value is None or value > SECONDS_MAX:
        return None
    return int((value * 1000).to_integral_value(ROUND_HALF_UP)) or None


def quotient(dividend: Any, divisor: Any) -> Decimal | None:
    """One number divided by another: frames by frames per second."""
    top, bottom = decimal(dividend), decimal(divisor)
    if top is None or not bottom:
        return None
    try:
        return top / bottom
    except DecimalException:
        return None


def progress(value: Any) -> int | None:
    """Percent, rounded down and clamped to 0 to 100."""
    found = number(value)
    if found is None:
        return None
    return min(max(int(Decimal(str(found)).to_integral_value(ROUND_FLOOR)), 0), 100)


def instant(value: Any) -> float | None:
    """Unix seconds: a number of them, or of milliseconds, above 0, or its digits."""
    found = decimal(value)
    if not found:
        return None
    return float(found / 1000 if found > _MILLISECONDS_FROM else found)


def link_end(url: str | None, *, now: float, at_most: float | None = None) -> float | None:
    """When a link ends: by its own parameters, and not after `at_most`; None without either."""
    stated = None if url is None else end_in_link(url)
    if stated is not None and not now < stated <= now + LASTS_SECONDS_MAX:
        stated = None
    ends = [end for end in (stated, at_most) if end is not None]
    return min(ends, default=None)
