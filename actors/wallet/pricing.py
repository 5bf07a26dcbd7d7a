"""The cost of a call billed by tokens: exact integers, one rounding at the end (contract §3).

Prices are configured as decimal USD per million tokens. They are brought to a common denominator
when a model is loaded, so that a cost is a sum of products and one `div_round_half_up`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import lcm
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from channels.dialects.meter import Usage
from channels.families import ENDPOINT_TYPES, IMAGES
from channels.prices import PriceSpec
from channels.registry import ModelSpec

# Money as whole nano-USD: parsing, formatting, and the one rounding.
#
# Decimals are used here and in pricing only; everywhere else an amount is an `int` whose name ends
# in `_nano_usd`.

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
    """Format nano-USD as credits, rounded half up to 9 decimals (contract §3: plain decimal)."""
    numerator, denominator = credits_per_usd.as_integer_ratio()
    sign = -1 if amount_nano_usd < 0 else 1
    nano_credits = div_round_half_up(abs(amount_nano_usd) * numerator, denominator)
    return format_usd(sign * nano_credits)


def div_round_half_up(numerator: int, denominator: int) -> int:
    """Divide two non-negative integers, rounding half up. The only rounding of money."""
    assert numerator >= 0 < denominator
    return (2 * numerator + denominator) // (2 * denominator)


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
        """Price the most that a call may cost: all input fresh (spec: Chat pre-charge)."""
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


# The cost of a call billed by the piece: exact integers, one rounding at the end (contract §3).

PIXELS_PER_MEGAPIXEL = 1_000_000
(_ENDPOINT,) = IMAGES.endpoint_types
# What a price in USD may be for, besides images, and how many counted ones make up its unit. Calls
# and generations are not counted: there is one.
PricedBy: TypeAlias = Literal["per_second", "per_character", "per_generation", "per_call"]
COUNTED_PER_UNIT: Mapping[PricedBy, int] = {
    "per_second": 1000,
    "per_character": 1,
    "per_generation": 1,
    "per_call": 1,
}
# The counted unit, as a receipt names it.
COUNTED: Mapping[PricedBy, str] = {
    "per_second": "milliseconds",
    "per_character": "characters",
    "per_generation": "generations",
    "per_call": "calls",
}


@dataclass(frozen=True, slots=True)
class ImagePrice:
    """Prices of one image model, multiplier included: numerators over `denominator` nano-USD.

    An image of more than `threshold_pixels` costs `large`; None if every size has the same price.
    `stated` is the same in the form of a receipt (`receipt.py`), the multiplier separate.
    """

    standard: int
    large: int
    reference: int
    denominator: int
    threshold_pixels: Decimal | None
    stated: Mapping[str, str] = field(compare=False)

    @classmethod
    def of(cls, price: PriceSpec, multiplier: Decimal) -> ImagePrice:
        """Compile list prices in USD: a missing one is 0, a missing large one the standard one."""
        usual = price.per_image if price.per_image is not None else Decimal(0)
        higher = price.per_image_large if price.per_image_large is not None else usual
        fee = price.per_reference if price.per_reference is not None else Decimal(0)
        (standard, large, reference), denominator = over_one_denominator(
            (usual, higher, fee), multiplier, units=1
        )
        threshold = price.area_threshold_mp if price.per_image_large is not None else None
        return cls(
            standard=standard,
            large=large,
            reference=reference,
            denominator=denominator,
            threshold_pixels=None if threshold is None else threshold * PIXELS_PER_MEGAPIXEL,
            stated=_stated_prices(price, multiplier),
        )

    def is_large(self, pixels: int) -> bool:
        """Whether an image of this area has the higher price."""
        return self.threshold_pixels is not None and pixels > self.threshold_pixels

    def cost_nano_usd(self, *, standard: int, large: int, references: int) -> int:
        """Price the images of both tiers, and the reference images.

        Without an image the cost is 0, whatever was sent. Never more than the ledger holds.
        """
        if not standard + large:
            return 0
        cost = div_round_half_up(
            self.standard * standard + self.large * large + self.reference * references,
            self.denominator,
        )
        return min(cost, MAX_NANO_USD)


def _stated_prices(price: PriceSpec, multiplier: Decimal) -> Mapping[str, str]:
    """Return plain decimals, USD per piece, and megapixels, without those that have no effect."""
    stated = {"per_image": f"{price.per_image or Decimal(0):f}"}
    for name in _ENDPOINT.more_prices:
        value = getattr(price, name)
        if value is not None:
            stated[name] = f"{value:f}"
    if multiplier != 1:
        stated["multiplier"] = f"{multiplier:f}"
    return stated


@dataclass(frozen=True, slots=True)
class MediaPrice:
    """The price of a job or a call that is not billed by images or tokens, multiplier included:
    `numerator` over `denominator` nano-USD per millisecond of video, per character, or for all.

    `stated` is the same in the form of a receipt: the price under the name of its unit.
    """

    priced_by: PricedBy
    numerator: int
    denominator: int
    stated: Mapping[str, str] = field(compare=False)

    @classmethod
    def of(cls, model: ModelSpec, *, resolution: str | None = None) -> MediaPrice:
        """Compile the first list price that the model has of those its endpoint type is billed by.

        A resolution with its own price per second costs that. A model without any price costs
        nothing.
        """
        price = model.price
        names = ENDPOINT_TYPES[model.endpoint_type or ""].prices
        by_resolution = price.per_second_by_resolution or {}
        if resolution is not None and resolution in by_resolution:
            return cls._compiled("per_second", by_resolution[resolution], model.multiplier)
        for name in COUNTED_PER_UNIT:
            usd: Decimal | None = getattr(price, name)
            if name in names and usd is not None:
                return cls._compiled(name, usd, model.multiplier)
        return cls._compiled("per_call", Decimal(0), model.multiplier)

    @classmethod
    def as_stated(cls, stated: Mapping[str, str]) -> MediaPrice:
        """Compile the price that a job keeps in the form of a receipt."""
        (name,) = (name for name in COUNTED_PER_UNIT if name in stated)
        return cls._compiled(name, Decimal(stated[name]), Decimal(stated.get("multiplier", "1")))

    @classmethod
    def _compiled(cls, priced_by: PricedBy, usd: Decimal, multiplier: Decimal) -> MediaPrice:
        (numerator,), denominator = over_one_denominator(
            (usd,), multiplier, units=COUNTED_PER_UNIT[priced_by]
        )
        stated: dict[str, str] = {priced_by: f"{usd:f}"}
        if multiplier != 1:
            stated["multiplier"] = f"{multiplier:f}"
        return cls(priced_by, numerator, denominator, stated)

    def count(self, quantity: int) -> int:
        """Return how many milliseconds or characters are billed, or 1 for the whole."""
        counts = self.priced_by in ("per_second", "per_character")
        return quantity if counts else min(quantity, 1)

    def units(self, quantity: int) -> Mapping[str, int]:
        """Return the count in the form of a receipt (`receipt.py`)."""
        return {COUNTED[self.priced_by]: self.count(quantity)}

    def cost_nano_usd(self, quantity: int) -> int:
        """Price so many milliseconds or characters; 0 of them cost nothing."""
        cost = div_round_half_up(self.numerator * self.count(quantity), self.denominator)
        return min(cost, MAX_NANO_USD)
