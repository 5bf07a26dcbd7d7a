"""Values of exports, read exactly: counts, amounts and days."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from actors.wallet.money import NANO_PER_USD
from gw.price_list.exports.export import NoExport

# Far more than any account has; a figure with more digits is refused.
FIGURE_DIGITS_MAX = 30


def count_of(value: Any) -> Fraction:
    """Return a count; 0 without a value. Raises NoExport."""
    number = _number(0 if value is None or value == "" else value)
    if number < 0 or number.denominator != 1:
        raise NoExport(f"{str(value)[:40]!r} is no count")
    return number


def nano_usd_of(value: Any, currency: str) -> Fraction:
    if currency.upper() != "USD":
        raise NoExport(f"its amounts are in {currency[:10]}, which is not USD")
    return _number(value) * NANO_PER_USD


def _number(value: Any) -> Fraction:
    if isinstance(value, str):
        value = value.replace(",", "").strip()
    try:
        number = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        raise NoExport(f"{str(value)[:40]!r} is no number") from None
    if not number.is_finite() or abs(number.adjusted()) > FIGURE_DIGITS_MAX:
        raise NoExport(f"{str(value)[:40]!r} is no number of an account")
    return Fraction(number)


def day_of_unix(value: Any) -> date:
    try:
        return datetime.fromtimestamp(int(value), UTC).date()
    except (TypeError, ValueError, OverflowError, OSError):
        raise NoExport(f"{str(value)[:40]!r} is no instant in seconds") from None


_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.\d+)?)?)? ?(Z|UTC|[+-]\d\d:?\d\d)?",
    re.ASCII,
)


def day_of_text(value: Any) -> date:
    """Return the day (UTC) of an instant; without a time zone it is in UTC."""
    match = _STAMP.fullmatch(str(value).strip())
    if match is None:
        raise NoExport(f"{str(value)[:40]!r} is no day")
    day, minutes, seconds, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z", "UTC") else zone
    stamp = f"{day}T{minutes or '00:00'}:{seconds or '00'}{zone}"
    return datetime.fromisoformat(stamp).astimezone(UTC).date()
