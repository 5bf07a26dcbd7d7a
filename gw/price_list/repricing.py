"""The cost of recent calls by another price list.

Each call is priced twice by the counts of its row, so that long prompts, tiers and tools are
included. Rows are read in pages (`usage.sql`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.piece_prices import ImagePrice, MediaPrice
from actors.wallet.sheets import token_price
from channels.dialects.token_counts import Usage, UsageParts
from channels.registry import ModelSpec
from gw.price_list.comparison import Difference

SQL = load("gw.price_list", "usage.sql")
ROWS_MAX = 5000


@dataclass(frozen=True, slots=True)
class Repriced:
    """The paid calls of one model, and how much more they would have cost by the list."""

    calls: int
    more_nano_usd: int


async def reprice(
    database: Database, differing: Sequence[Difference], *, since: datetime
) -> dict[str, Repriced]:
    """Return the additional cost of the calls since an instant, by ids of the models called."""
    by_id = {one.model.id: one for one in differing}
    names = {"since": since, "models": list(by_id)}
    found: dict[str, Repriced] = {}
    for account, model in await database.fetch_all(SQL["callers"], names):
        one = by_id[model]
        prices = [
            _RowPrice(replace(one.model, price=spec)) for spec in (one.model.price, one.listed)
        ]
        calls, more = 0, 0
        behind: dict[str, Any] = {"since": since, "id": 0}
        while rows := await database.fetch_all(
            SQL["calls"], {"account": account, "model": model, "limit": ROWS_MAX, **behind}
        ):
            for row in rows:
                now, listed = (price.cost_nano_usd(*row[2:]) for price in prices)
                more += listed - now
            calls += len(rows)
            behind = {"since": rows[-1][0], "id": rows[-1][1]}
        if calls:
            before = found.get(model, Repriced(0, 0))
            found[model] = Repriced(before.calls + calls, before.more_nano_usd + more)
    return found


_IMAGES = ("standard", "large", "references")


class _RowPrice:
    """The price of a model, applied to counts of rows."""

    def __init__(self, model: ModelSpec) -> None:
        self._model = model
        self._tokens = token_price(model.price, model.multiplier)
        self._images = ImagePrice.of(model.price, model.multiplier)

    def cost_nano_usd(self, given: int, output: int, cached: int, detail: Any) -> int:
        """Return the cost of one call."""
        detail = detail or {}
        units = detail.get("units")
        if self._model.endpoint_type is None or units is None:
            return self._tokens.cost_nano_usd(usage_of_row(given, output, cached, detail))
        if units.keys() & set(_IMAGES):
            standard, large, references = (units.get(name, 0) for name in _IMAGES)
            return self._images.cost_nano_usd(standard=standard, large=large, references=references)
        resolution = (detail.get("request") or {}).get("resolution")
        quantity = detail.get("milliseconds") or next(iter(units.values()), 0)
        return MediaPrice.of(self._model, resolution=resolution).cost_nano_usd(quantity)


def usage_of_row(given: int, output: int, cached: int, detail: Mapping[str, Any]) -> Usage:
    """The usage that a row was charged for, with what had no price then."""
    reported = detail.get("reported")
    return Usage(
        input_tokens=given,
        output_tokens=output,
        cached_tokens=cached,
        cache_write_tokens=max(0, min(detail.get("cache_write", 0), given - cached)),
        reasoning_tokens=min(detail.get("reasoning", 0), output),
        parts=msgspec.convert(reported, UsageParts) if reported else None,
    )
