"""What a token-billed call costs: exact integers, one rounding at the end (contract §3).

Prices come as decimal USD per million tokens. They are brought to one common denominator when a
model is loaded, so that a cost is three multiplications and one `div_round_half_up`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import lcm

from actors.wallet.money import MAX_NANO_USD, NANO_PER_USD, div_round_half_up
from channels.registry import PriceSpec
from channels.usage import Usage

TOKENS_PER_PRICE = 1_000_000


def over_one_denominator(
    prices_usd: Sequence[Decimal], multiplier: Decimal, *, units: int
) -> tuple[list[int], int]:
    """Prices for so many units in nano-USD for one, times the multiplier, as exact fractions.

    Returns their numerators in the same order, and the denominator that they share.
    """
    times, over = multiplier.as_integer_ratio()
    ratios = []
    for price in prices_usd:
        top, bottom = price.as_integer_ratio()
        ratios.append((top * times * NANO_PER_USD, bottom * over * units))
    common = lcm(*(bottom for _, bottom in ratios))
    return [top * (common // bottom) for top, bottom in ratios], common


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Prices of one model, multiplier included: each is a numerator over `denominator` nano-USD.

    `stated` is the same in the words of a receipt (`receipt.py`), the multiplier apart.
    """

    fresh_input: int
    cached_input: int
    cache_write: int
    output: int
    denominator: int
    stated: Mapping[str, str] = field(compare=False)

    @classmethod
    def of(cls, price: PriceSpec, multiplier: Decimal) -> TokenPrice:
        """Compile list prices (USD per 1M tokens). A missing price is 0, a missing cached or
        cache-write price is the input price (contract §3, §7)."""
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

        At most what the ledger holds, whatever an upstream says.
        """
        fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        cost = div_round_half_up(
            self.fresh_input * fresh
            + self.cached_input * usage.cached_tokens
            + self.cache_write * usage.cache_write_tokens
            + self.output * usage.output_tokens,
            self.denominator,
        )
        return min(cost, MAX_NANO_USD)

    def estimate_nano_usd(self, *, input_tokens: int, output_tokens: int) -> int:
        """Price what a call may cost at most: all input fresh (spec: Chat pre-charge)."""
        return div_round_half_up(
            self.fresh_input * input_tokens + self.output * output_tokens, self.denominator
        )


def _stated(
    fresh: Decimal, cached: Decimal, write: Decimal, output: Decimal, multiplier: Decimal
) -> Mapping[str, str]:
    """Plain decimals, USD per 1M tokens; what equals the input price, or 1, is left out."""
    stated = {"input": f"{fresh:f}", "output": f"{output:f}"}
    if cached != fresh:
        stated["cached_input"] = f"{cached:f}"
    if write != fresh:
        stated["cache_write"] = f"{write:f}"
    if multiplier != 1:
        stated["multiplier"] = f"{multiplier:f}"
    return stated
