"""The cost of a call billed by tokens: exact integers, one rounding at the end (reference 5.1).

Prices are configured as decimal USD per million tokens. They are brought to a common denominator
when a model is loaded, so that a cost is a sum of products and one `div_round_half_up`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import lcm
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct

from actors.wallet.money import MAX_NANO_USD, NANO_PER_USD, div_round_half_up
from channels.dialects.token_counts import Usage
from channels.prices import PriceSpec

TOKENS_PER_PRICE = 1_000_000


def over_one_denominator(
    prices_usd: Sequence[Decimal], multiplier: Decimal, *, units: int
) -> tuple[list[int], int]:
    """Return nano-USD per unit from prices per `units`, times the multiplier, as exact fractions.

    The result is their numerators in the same order, and their common denominator.
    """
    times, over = multiplier.as_integer_ratio()
    ratios = []
    for price in prices_usd:
        top, bottom = price.as_integer_ratio()
        ratios.append((top * times * NANO_PER_USD, bottom * over * units))
    common = lcm(*(bottom for _, bottom in ratios))
    return [top * (common // bottom) for top, bottom in ratios], common


class Billable(Struct, frozen=True, kw_only=True):
    """The most that a request may be billed by, as far as it states that.

    `region` is the one that it names, empty for anywhere; None: it names none, and the upstream
    may serve it in one of its own choice. `input_tokens` are those of the whole request, which may
    be more than a hold counts. `members` are the prices of token parts that it may use, `tools` the
    most calls of each tool.
    """

    tier: str | None = None
    region: str | None = None
    input_tokens: int = 0
    members: frozenset[str] = frozenset()
    tools: Mapping[str, int] = MappingProxyType({})
    search_size: str | None = None


class Priced(Struct, frozen=True):
    """A cost, the prices that it was computed with, and the counts beside those of its row.

    `parts` are the buckets billed by their own price, by its name (`receipt.py`).
    """

    cost_nano_usd: int
    stated: Mapping[str, Any]
    parts: Mapping[str, int]


class Sheet(Protocol):
    """All prices of a model that has more than the four plain ones (`sheets.py`)."""

    def tier(self, name: str | None) -> str | None:
        """Return the tier that prices a served tier; None: the standard price."""

    def region(self, name: str | None) -> str | None:
        """Return the region whose factor applies; None: no factor."""

    def cost_nano_usd(self, usage: Usage) -> int:
        """Return the cost of a usage."""

    def priced(self, usage: Usage) -> Priced:
        """Return the cost of a usage."""

    def hold_nano_usd(self, *, input_tokens: int, output_tokens: int, billable: Billable) -> int:
        """Return the maximum cost of so many tokens."""

    def unpriced(self, usage: Usage) -> Sequence[str]:
        """Return the parts of a usage that cost extra elsewhere, and have no price here."""


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Prices of one model, multiplier included: each is a numerator over `denominator` nano-USD.

    `stated` is the same in the form of a receipt (`receipt.py`), the multiplier separate. `sheet`
    has the model's prices besides these four, `channels` the price on each channel; None if there
    are none.
    """

    fresh_input: int
    cached_input: int
    cache_write: int
    output: int
    denominator: int
    stated: Mapping[str, Any] = field(compare=False)
    sheet: Sheet | None = field(default=None, compare=False)
    channels: Mapping[str, TokenPrice] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, price: PriceSpec, multiplier: Decimal) -> TokenPrice:
        """Compile list prices (USD per 1M tokens). A missing price is 0, a missing cached or
        cache-write price is the input price (reference 5.2)."""
        fresh = price.input if price.input is not None else Decimal(0)
        output = price.output if price.output is not None else Decimal(0)
        cached = price.cached_input if price.cached_input is not None else fresh
        write = price.cache_write if price.cache_write is not None else fresh
        (fresh_input, cached_input, cache_write, output_price), denominator = over_one_denominator(
            (fresh, cached, write, output), multiplier, units=TOKENS_PER_PRICE
        )
        return cls(
            fresh_input=fresh_input,
            cached_input=cached_input,
            cache_write=cache_write,
            output=output_price,
            denominator=denominator,
            stated=_stated(fresh, cached, write, output, multiplier),
        )

    def cost_nano_usd(self, usage: Usage) -> int:
        """Price a usage, each token once: fresh input, cache read, cache write, output.

        Never more than the ledger holds, whatever an upstream reports.
        """
        if self.sheet is not None:
            return self.sheet.cost_nano_usd(usage)
        fresh, cached, written = usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens
        cost = self.output * usage.output_tokens
        if cached or written:
            fresh -= cached + written
            cost += self.cached_input * cached + self.cache_write * written
        cost = div_round_half_up(cost + self.fresh_input * fresh, self.denominator)
        return MAX_NANO_USD if cost > MAX_NANO_USD else cost

    def estimate_nano_usd(self, *, input_tokens: int, output_tokens: int) -> int:
        """Price the most that a call may cost: all input fresh (reference 5.3)."""
        return div_round_half_up(
            self.fresh_input * input_tokens + self.output * output_tokens, self.denominator
        )


def _stated(
    fresh: Decimal, cached: Decimal, write: Decimal, output: Decimal, multiplier: Decimal
) -> Mapping[str, str]:
    """Return plain decimals, USD per 1M tokens, without those equal to the input price, or 1."""
    stated = {"input": f"{fresh:f}", "output": f"{output:f}"}
    if cached != fresh:
        stated["cached_input"] = f"{cached:f}"
    if write != fresh:
        stated["cache_write"] = f"{write:f}"
    if multiplier != 1:
        stated["multiplier"] = f"{multiplier:f}"
    return stated
