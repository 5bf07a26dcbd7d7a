"""Money as whole nano-USD: parsing, formatting, and the one rounding.

Decimals are used here and in pricing only; everywhere else an amount is an `int` whose name ends
in `_nano_usd`.
"""

from __future__ import annotations

import re
from decimal import Decimal

NANO_PER_USD = 1_000_000_000
# Fits a 64-bit column, as does the sum of two: four billion USD.
MAX_NANO_USD = 4_000_000_000 * NANO_PER_USD

_PLAIN_DECIMAL = re.compile(
    r"(?P<sign>-?)(?P<whole>\d{1,10})(?:\.(?P<fraction>\d{1,9}))?", re.ASCII
)


class MoneyError(ValueError):
    """An amount is not plain decimal USD with at most 9 decimals."""


def parse_usd(text: str) -> int:
    """Parse plain decimal USD such as `12.5` into nano-USD.

    Raises MoneyError for an exponent, more than 9 decimals, more than 10 digits before the point.
    """
    match = _PLAIN_DECIMAL.fullmatch(text.strip())
    if match is None:
        raise MoneyError(f"{text!r} is not an amount in USD: write plain decimals such as 12.50")
    fraction = (match["fraction"] or "").ljust(9, "0")
    amount = int(match["whole"]) * NANO_PER_USD + int(fraction)
    if amount > MAX_NANO_USD:
        raise MoneyError(f"{text!r} is more than the ledger holds")
    return -amount if match["sign"] else amount


def format_usd(amount_nano_usd: int) -> str:
    """Format nano-USD as plain decimal USD: no exponent, no trailing zeros, at most 9 decimals."""
    sign = "-" if amount_nano_usd < 0 else ""
    whole, fraction = divmod(abs(amount_nano_usd), NANO_PER_USD)
    if not fraction:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{fraction:09d}".rstrip("0")


def format_credits(amount_nano_usd: int, credits_per_usd: Decimal) -> str:
    """Format nano-USD as credits, rounded half up to 9 decimals (reference 5.1)."""
    numerator, denominator = credits_per_usd.as_integer_ratio()
    sign = -1 if amount_nano_usd < 0 else 1
    nano_credits = div_round_half_up(abs(amount_nano_usd) * numerator, denominator)
    return format_usd(sign * nano_credits)


def div_round_half_up(numerator: int, denominator: int) -> int:
    """Divide two non-negative integers, rounding half up. The only rounding of money."""
    assert numerator >= 0 < denominator
    return (2 * numerator + denominator) // (2 * denominator)
