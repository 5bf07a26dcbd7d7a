"""Prices agreed with an account."""

from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.piece_prices import ImagePrice
from actors.wallet.sheets import price_of
from channels.dialects.token_counts import Usage
from channels.prices import PriceSpec
from channels.registry import Binding
from gw.admin.prices import read_factor, read_patterns, read_prices
from gw.keys.agreed_prices import AgreedPrices
from gw.nouns.refused import Invalid
from tests.support.prices import spec_of
from tests.support.rows import cases
from tests.support.specs import make_model

MODEL = make_model("a", id="gpt-5", multiplier=Decimal("0.5"))


def agreed(*rows: dict[str, Any]) -> AgreedPrices:
    usual = {"models": ["*"], "factor": "2", "prices": None, "valid_from": 0, "valid_until": None}
    return AgreedPrices.of_rows(
        [{"id": str(number), **usual, **row} for number, row in enumerate(rows)]
    )


def test_the_one_that_is_valid_since_last_counts() -> None:
    prices = agreed(
        {"valid_from": 10},
        {"valid_from": 20, "models": ["claude-*"]},
        {"valid_from": 30, "valid_until": 40},
    )
    held = [prices.model_at(MODEL, now)[1] for now in (9, 10, 29, 30, 39.9, 40)]
    assert held == [None, "0", "0", "2", "2", "0"]
    assert prices.model_at(MODEL, 9)[0] is MODEL


def test_a_model_is_priced_once() -> None:
    prices = agreed({})
    first, _ = prices.model_at(MODEL, 1)
    assert prices.model_at(MODEL, 2)[0] is first
    reloaded = make_model("a", id="gpt-5", multiplier=Decimal(3))
    assert prices.model_at(reloaded, 2)[0].multiplier == 6


def test_a_factor_is_on_top_of_the_multiplier_and_of_a_channels_price() -> None:
    own = Binding("b", price=PriceSpec(input=Decimal(4)))
    model, _ = agreed({"factor": "0.8"}).model_at(make_model("a", own), 1)
    price, usage = price_of(model), Usage(input_tokens=10**6, output_tokens=0)
    assert price.channels is not None
    assert price.channels["a"].cost_nano_usd(usage) == 800_000_000
    assert price.channels["b"].cost_nano_usd(usage) == 3_200_000_000


def test_a_factor_is_on_whatever_a_model_sells() -> None:
    picture = make_model("a", price=PriceSpec(per_image=Decimal("0.04")))
    model, _ = agreed({"factor": "0.5"}).model_at(picture, 1)
    price = ImagePrice.of(model.price, model.multiplier)
    assert price.cost_nano_usd(standard=2, large=0, references=0) == 40_000_000
    assert price.stated["multiplier"] == "0.5"


def test_own_prices_go_before_those_of_model_and_channel() -> None:
    own = Binding("b", price=PriceSpec(input=Decimal(4), output=Decimal(40)))
    row = {"factor": None, "prices": {"input": "3"}}
    model, _ = agreed(row).model_at(make_model("a", own), 1)
    channels = price_of(model).channels
    assert channels is not None
    usage = Usage(input_tokens=10**6, output_tokens=10**6)
    assert channels["a"].cost_nano_usd(usage) == 13 * 10**9
    assert channels["b"].cost_nano_usd(usage) == 43 * 10**9


@given(st.randoms(use_true_random=False))
def test_a_price_comes_back_from_what_is_stored(random: Random) -> None:
    spec = spec_of(random)
    assert PriceSpec.of_stated(spec.stated()) == spec


@cases(
    "text, found",
    ("", "not JSON"),
        ("[1]", "an object"),
        ("{}", "none is stated"),
        ('{"inptu": "1"}', "did you mean input"),
        ('{"input": "-1"}', "plain decimal"),
        ('{"input": "1", "above_tokens": [{"above": 5, "input": "1"}, {"above": 5, "input": "1"}]}',
         "rising order"),
        ('{"service_tiers": {"warp": {"factor": "2"}}}', "unknown key"),
        ('{"service_tiers": {"flex": {"factor": "0"}}}', "a factor"),
        ('{"input": "${HOME}"}', "HOME"),
        ("[" * 100_000, "characters"),
        ("[" * 10_000, "not JSON"),
)  # fmt: skip
def test_prices_that_cannot_be_read_are_refused(text: str, found: str) -> None:
    with pytest.raises(Invalid, match=found):
        read_prices(text)


@cases("text", "0", "-1", "1001", "x", "1e3", "")
def test_a_factor_is_a_plain_decimal_above_zero(text: str) -> None:
    with pytest.raises(Invalid):
        read_factor(text)
    assert read_factor("0.85") == Decimal("0.85")


def test_patterns_are_bounded() -> None:
    assert read_patterns([]) == ["*"]
    assert read_patterns(["a", "a"]) == ["a"]
    for wrong in ([""], ["x" * 201], ["a\nb"], [str(n) for n in range(101)]):
        with pytest.raises(Invalid):
            read_patterns(wrong)
