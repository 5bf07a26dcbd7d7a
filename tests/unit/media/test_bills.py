"""What media cost."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.money import MAX_NANO_USD
from actors.wallet.piece_prices import MediaPrice
from channels.prices import PriceSpec
from channels.registry import ModelSpec
from gw.media.film_length import priced_resolution
from tests.support.rows import cases
from tests.support.specs import make_model
from tests.unit.media.bodies import ABSENT, read

BY_RESOLUTION = {"1080p": Decimal("0.2"), "max": Decimal("0.3"), "standard": Decimal("0.05")}


def film(**changes: Any) -> ModelSpec:
    fields: dict[str, Any] = {
        "id": "film",
        "endpoint_type": "videos_generations",
        "price": PriceSpec(per_second=Decimal("0.1"), per_second_by_resolution=BY_RESOLUTION),
    }
    return make_model(**(fields | changes))


@cases(
    "kind, resolution, nano_usd_per_second",
    ("general", ABSENT, 100_000_000),
    ("general", "720p", 100_000_000),
    ("general", "1080p", 200_000_000),
    ("general", "1080P", 100_000_000),
    ("dh-avatar", ABSENT, 100_000_000),
    ("dh-motion", ABSENT, 50_000_000),
    ("dh-motion", "fast", 100_000_000),
    ("dh-motion", "max", 300_000_000),
)
def test_price_follows_the_resolution(kind: str, resolution: Any, nano_usd_per_second: int) -> None:
    request = read(kind, resolution=resolution)
    price = MediaPrice.of(film(), resolution=priced_resolution(request))
    assert price.cost_nano_usd(1000) == nano_usd_per_second


prices = st.decimals(min_value=0, max_value=100, places=9)
multipliers = st.sampled_from([Decimal(1), Decimal("0.6"), Decimal("0.333333333333"), Decimal(3)])


@given(price=prices, multiplier=multipliers, milliseconds=st.integers(0, 86_400_000))
def test_cost_is_the_exact_product_rounded_once(
    price: Decimal, multiplier: Decimal, milliseconds: int
) -> None:
    model = film(price=PriceSpec(per_second=price), multiplier=multiplier)
    exact = Fraction(price) * Fraction(multiplier) * Fraction(milliseconds, 1000) * 10**9
    cost = MediaPrice.of(model).cost_nano_usd(milliseconds)
    assert cost == min((exact + Fraction(1, 2)).__floor__(), MAX_NANO_USD)


@given(price=prices, characters=st.integers(1, 50_000))
def test_speech_costs_by_the_character(price: Decimal, characters: int) -> None:
    model = film(endpoint_type="audio_speech", price=PriceSpec(per_character=price))
    exact = Fraction(price) * characters * 10**9
    cost = MediaPrice.of(model).cost_nano_usd(characters)
    assert cost == (exact + Fraction(1, 2)).__floor__()
