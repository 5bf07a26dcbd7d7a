"""A run's ceiling as a call names it: the most that the calls of its run may cost.

It is shared by every key of the account, and the least that anyone names holds (reference 11.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.wallet.money import MoneyError, parse_usd
from gw.errors import INVALID_REQUEST, GatewayError

HEADER: Final = "x-gateway-run-max-usd"


def read_ceiling(values: Sequence[str], run: str | None) -> int | None:
    """Return the ceiling in nano-USD of the header's values, None without one.

    Raises GatewayError for one that is no amount above 0, is repeated, or has no run.
    """
    if not values:
        return None
    if len(values) > 1:
        raise _refused("is given more than once.")
    try:
        ceiling = parse_usd(values[0])
    except MoneyError:
        ceiling = 0
    if ceiling <= 0:
        raise _refused("takes an amount of USD above 0, such as 2.5, with at most 9 decimals.")
    if run is None:
        raise _refused("needs the header `x-gateway-run`, which names the run.")
    return ceiling


def _refused(why: str) -> GatewayError:
    return GatewayError(INVALID_REQUEST, f"{HEADER} {why}", param=HEADER)
