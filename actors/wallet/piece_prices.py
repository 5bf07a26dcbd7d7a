"""The cost of a call billed by the piece: exact integers, rounded once (reference 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, TypeAlias

from actors.wallet.money import MAX_NANO_USD, div_round_half_up
from actors.wallet.pricing import over_one_denominator
from channels.families import ENDPOINT_TYPES, IMAGES
from channels.prices import PriceSpec
from channels.registry import ModelSpec

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
