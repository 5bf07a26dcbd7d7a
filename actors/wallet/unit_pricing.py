"""What a call billed by the piece costs: exact integers, one rounding at the end (contract §3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from actors.wallet.money import MAX_NANO_USD, div_round_half_up
from actors.wallet.pricing import over_one_denominator
from channels.families import IMAGES
from channels.registry import PriceSpec

PIXELS_PER_MEGAPIXEL = 1_000_000
(_ENDPOINT,) = IMAGES.endpoint_types


@dataclass(frozen=True, slots=True)
class ImagePrice:
    """Prices of one image model, multiplier included: numerators over `denominator` nano-USD.

    An image of more than `threshold_pixels` costs `large`; None where there is one price for every
    size. `stated` is the same in the words of a receipt (`receipt.py`), the multiplier apart.
    """

    standard: int
    large: int
    reference: int
    denominator: int
    threshold_pixels: Decimal | None
    stated: Mapping[str, str] = field(compare=False)

    @classmethod
    def of(cls, price: PriceSpec, multiplier: Decimal) -> ImagePrice:
        """Compile list prices in USD. A missing price is 0; a missing large one is the other."""
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
            stated=_stated(price, multiplier),
        )

    def is_large(self, pixels: int) -> bool:
        """Does an image of this area cost the higher price?"""
        return self.threshold_pixels is not None and pixels > self.threshold_pixels

    def cost_nano_usd(self, *, standard: int, large: int, references: int) -> int:
        """Price so many images of either tier, and so many reference images.

        Without an image there is nothing to pay, whatever was sent along. At most what the ledger
        holds.
        """
        if not standard + large:
            return 0
        cost = div_round_half_up(
            self.standard * standard + self.large * large + self.reference * references,
            self.denominator,
        )
        return min(cost, MAX_NANO_USD)


def _stated(price: PriceSpec, multiplier: Decimal) -> Mapping[str, str]:
    """Plain decimals: USD for one, and megapixels; what has no effect is left out."""
    stated = {"per_image": f"{price.per_image or Decimal(0):f}"}
    for name in _ENDPOINT.more_prices:
        value = getattr(price, name)
        if value is not None:
            stated[name] = f"{value:f}"
    if multiplier != 1:
        stated["multiplier"] = f"{multiplier:f}"
    return stated
