"""Numbers of new-api's tables: ratios as written, and quota as money."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from actors.wallet.money import MAX_NANO_USD, NANO_PER_USD, div_round_half_up
from gw.config.faults import ConfigFaults, Fault
from gw.moving_in.new_api.tables import json_of

QUOTA_PER_USD = Decimal(500_000)
_RATIO_MAX = Decimal(1_000_000)
_TOKENS = Decimal(1_000_000)
_PRICE_STEP = Decimal(1).scaleb(-12)


class Quota:
    """The conversion of new-api's quota into money; faults name `origin`.

    Raises ConfigFaults for amounts that cannot be parsed.
    """

    def __init__(self, options: Mapping[str, Any], origin: str) -> None:
        self._origin = origin
        self._per_usd = QUOTA_PER_USD
        if (written := options.get("QuotaPerUnit")) not in (None, ""):
            self._per_usd = decimal_of(written) or Decimal(0)
        if self._per_usd <= 0:
            self._refuse("QuotaPerUnit that is no number above zero", "so much quota for one USD")

    def price(self, ratio: Decimal) -> Decimal:
        """Return a ratio as USD per million tokens."""
        exact = ratio * _TOKENS / self._per_usd
        return exact.quantize(_PRICE_STEP).normalize()

    def nano_usd(self, quota: Any, what: str) -> int:
        """Return quota as nano-USD, rounded once; a debt is negative. Raises ConfigFaults."""
        number = decimal_of(quota if quota is not None else 0)
        if number is None:
            self._refuse(f"quota of {what} that is no number", "a whole number")
        assert number is not None
        amount = abs(Fraction(number)) / Fraction(self._per_usd) * NANO_PER_USD
        nano_usd = div_round_half_up(amount.numerator, amount.denominator)
        if nano_usd > MAX_NANO_USD:
            self._refuse(f"quota of {what} that is more than the ledger holds", "less")
        return -nano_usd if number < 0 else nano_usd

    def _refuse(self, found: str, allowed: str) -> None:
        raise ConfigFaults([Fault(self._origin, "", found, allowed)])


def numbers_of(text: Any) -> dict[str, Decimal]:
    """Return the numbers of a JSON object exactly as written; others are left out."""
    value = json_of(text)
    found = {}
    for name, written in value.items() if isinstance(value, dict) else ():
        number = decimal_of(written)
        if number is not None and 0 <= number <= _RATIO_MAX:
            found[name] = number
    return found


def decimal_of(written: Any) -> Decimal | None:
    try:
        number = Decimal(str(written))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
