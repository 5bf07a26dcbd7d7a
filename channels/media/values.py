"""Parsers of single values in an upstream's response: they accept any JSON value, and never raise.

An invalid value is None, since an upstream may omit, misspell or invent anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from channels.json.lenient import read_loosely
from channels.json.outline import outline
from channels.links import LASTS_SECONDS_MAX, is_link
from channels.links import expires_at as end_in_link
from channels.media.model import ID_CHARACTERS_MAX, MediaResponse
from channels.storable_text import fit

NAME_CHARACTERS_MAX = 1000
LYRICS_CHARACTERS_MAX = 20_000
# The limit of values in one response: more would block the event loop.
VALUES_MAX = 100_000
# Longer lengths become this one: none is billed by it (`actors/jobs/settlement.py`).
MILLISECONDS_MAX = 10**15

_NUMERIC = re.compile(r"\s*+\+?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?+\d++)?+\s*+", re.ASCII)
_NUMERIC_CHARACTERS_MAX = 1000
# A whole number with more digits is a Decimal, like every other number. Digits after the 400th are
# dropped, which changes no rounding: no exponent is too large, none is refused.
_WHOLE_DIGITS_MAX = 40
_EXACTLY = Context(prec=400, rounding=ROUND_DOWN, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
# Ordinary numbers: less than the first, with fewer zeros after the point than the second.
_ORDINARY_MAX = 10**15
_ORDINARY_ZEROS_MAX = 1000
# A larger instant is in milliseconds: as seconds it would be after the year 5138.
_MILLISECONDS_FROM = 100_000_000_000


def is_too_large(response: MediaResponse) -> bool:
    """Whether a body was not read to its end, or has more than VALUES_MAX values."""
    if response.is_cut_off or len(response.body) <= VALUES_MAX:
        return response.is_cut_off
    rough = outline(response.body)
    return rough.count(b",") + rough.count(b"{") + rough.count(b"[") > VALUES_MAX


def json_of(response: MediaResponse) -> object:
    """Return the value of a body; None if it is no JSON, or too large.

    Numbers are exact: those with a point, an exponent or very many digits are a Decimal.
    """
    if is_too_large(response):
        return None
    return read_loosely(response.body, mends=False, numbers=_exact)


def _exact(digits: str) -> int | Decimal:
    if len(digits) <= _WHOLE_DIGITS_MAX and digits.lstrip("-").isdecimal():
        return int(digits)
    return _EXACTLY.create_decimal(digits)


def member(value: object, *path: str) -> object:
    """Return the value at a path of members; None if there is none."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def entries(value: object) -> list[Mapping[str, object]]:
    """Return the objects of a list, without its other entries."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def text(value: object, limit: int = NAME_CHARACTERS_MAX) -> str | None:
    """Return a non-empty text, cleaned and truncated to `limit` characters; else None."""
    return fit(value, limit) if isinstance(value, str) and value else None


def word(value: object) -> str:
    """Return a status word as the upstream writes it, for comparison and for the log."""
    return fit(value, 64).strip() if isinstance(value, str) else ""


def link(value: object) -> str | None:
    """Return an http or https link, or None."""
    return value if isinstance(value, str) and is_link(value) else None


def identifier(value: object) -> str | None:
    """Return an upstream's id, a text or a whole number that fits into a path and a row.

    None for any other. An id of only dots would change the path, even if escaped.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 10**30:
            return None
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= ID_CHARACTERS_MAX:
        return None
    if not value.isprintable() or value.strip(".") == "":
        return None
    return value


def number(value: object) -> int | float | None:
    """Return an ordinary JSON number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    if not -_ORDINARY_MAX < value < _ORDINARY_MAX:
        return None
    return value if isinstance(value, int) else float(value)


def decimal(value: object) -> Decimal | None:
    """Return an ordinary number from 0 on, also from its digits in a string, or None."""
    found = _numeric(value)
    return found if found is not None and found < _ORDINARY_MAX else None


def _numeric(value: object) -> Decimal | None:
    """Return a number from 0 on of any size, also from its digits in a string, or None."""
    if isinstance(value, str):
        if len(value) > _NUMERIC_CHARACTERS_MAX or not _NUMERIC.fullmatch(value):
            return None
        return _EXACTLY.create_decimal(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    found = value if isinstance(value, Decimal) else Decimal(value)
    return found if found >= 0 else None


def milliseconds(seconds: object) -> int | None:
    """Return a length above 0 in milliseconds, rounded half up once (reference 5.5).

    `seconds`: a number or a numeric string, with or without an exponent; at most MILLISECONDS_MAX.
    """
    value = _numeric(seconds)
    if value is None:
        return None
    if value >= MILLISECONDS_MAX // 1000:
        return MILLISECONDS_MAX
    return int(value.quantize(_MILLISECOND, ROUND_HALF_UP).scaleb(3)) or None


_MILLISECOND = Decimal("0.001")


def milliseconds_of_frames(frames: object, per_second: object) -> int | None:
    """Return the length of these frames, like `milliseconds`."""
    top, bottom = decimal(frames), decimal(per_second)
    if not top or not bottom or min(top.adjusted(), bottom.adjusted()) < -_ORDINARY_ZEROS_MAX:
        return None
    found = Fraction(top) * 1000 / Fraction(bottom)
    return min(int(found + Fraction(1, 2)), MILLISECONDS_MAX) or None


def progress_percent(value: object) -> int | None:
    """Return a percentage, rounded down and clamped to 0 to 100."""
    found = number(value)
    if found is None:
        return None
    return min(max(int(Decimal(str(found)).to_integral_value(ROUND_FLOOR)), 0), 100)


def instant(value: object, *, now: float) -> float | None:
    """Return Unix seconds from a number of seconds or milliseconds above 0, or from its digits.

    None for one so far ahead that no link lasts until then, or that no calendar has.
    """
    found = decimal(value)
    if not found:
        return None
    stated = float(found / 1000 if found > _MILLISECONDS_FROM else found)
    return stated if stated <= now + LASTS_SECONDS_MAX else None


def link_end(url: str | None, *, now: float, at_most: float | None = None) -> float | None:
    """Return when a link expires, by its parameters and at latest `at_most`; None if unknown."""
    stated = None if url is None else end_in_link(url)
    if stated is not None and not now < stated <= now + LASTS_SECONDS_MAX:
        stated = None
    ends = [end for end in (stated, at_most) if end is not None]
    return min(ends, default=None)
