"""What images cost, against fractions: exact, and rounded once."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.pricing import MAX_NANO_USD, ImagePrice
from channels.prices import PriceSpec

AREA = PriceSpec(
    per_image=Decimal("0.04"),
    per_image_large=Decimal("0.08"),
    area_threshold_mp=Decimal("2.36"),
    per_reference=Decimal("0.005"),
)
prices = st.decimals(0, 1000, places=12) | st.none()
counts = st.integers(0, 20)


def test_images_and_references_add_up() -> None:
    price = ImagePrice.of(AREA, Decimal(1))
    assert price.cost_nano_usd(standard=2, large=1, references=3) == 175_000_000
    assert (
        ImagePrice.of(AREA, Decimal("0.3")).cost_nano_usd(standard=2, large=1, references=3)
        == 52_500_000
    )


def test_references_without_an_image_are_free() -> None:
    assert ImagePrice.of(AREA, Decimal(1)).cost_nano_usd(standard=0, large=0, references=10) == 0


@pytest.mark.parametrize(
    ("pixels", "is_large"), [(1536 * 1536, False), (2_360_000, False), (2_360_001, True)]
)
def test_more_than_the_threshold_is_large(pixels: int, is_large: bool) -> None:
    assert ImagePrice.of(AREA, Decimal(1)).is_large(pixels) is is_large


def test_without_a_large_price_nothing_is_large() -> None:
    price = ImagePrice.of(PriceSpec(per_image=Decimal("0.04")), Decimal(1))
    assert not price.is_large(10**12)
    assert price.cost_nano_usd(standard=0, large=1, references=0) == 40_000_000


@given(prices, prices, prices, st.decimals("0.001", 1000, places=9), counts, counts, counts)
def test_cost_is_the_exact_product_rounded_once(
    one: Decimal | None,
    large: Decimal | None,
    fee: Decimal | None,
    multiplier: Decimal,
    standard: int,
    larger: int,
    references: int,
) -> None:
    spec = PriceSpec(
        per_image=one,
        per_image_large=large,
        area_threshold_mp=None if large is None else Decimal(1),
        per_reference=fee,
    )
    price = ImagePrice.of(spec, multiplier)
    usual = Fraction(one or 0)
    exact = (
        usual * standard
        + (usual if large is None else Fraction(large)) * larger
        + Fraction(fee or 0) * references
    )
    nano = exact * Fraction(multiplier) * 10**9 if standard + larger else Fraction(0)
    assert price.cost_nano_usd(
        standard=standard, large=larger, references=references
    ) == math.floor(nano + Fraction(1, 2))


def test_cost_is_never_more_than_the_ledger_holds() -> None:
    price = ImagePrice.of(PriceSpec(per_image=Decimal(1_000_000)), Decimal(1000))
    assert price.cost_nano_usd(standard=100, large=0, references=0) == MAX_NANO_USD
