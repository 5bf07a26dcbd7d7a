"""A receipt comes to the cost that was settled, whatever the price and the counts."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.wallet.bounds import Bounds
from actors.wallet.money import MAX_NANO_USD
from actors.wallet.piece_prices import ImagePrice
from actors.wallet.pricing import TokenPrice
from actors.wallet.receipt import (
    NoPrice,
    formula,
    lines_of,
    multiplier_of,
    token_lines,
    total_nano_usd,
)
from actors.wallet.sheets import token_price
from channels.dialects.meter import Meter, MeterReading
from channels.dialects.token_counts import PartialUsage, Usage, UsageParts
from channels.prices import PriceSpec
from gw.calls.token_bill import TokenBill
from gw.price_list.repricing import usage_of_row
from tests.support.prices import spec_of, usage_of
from tests.support.rows import cases, each

usd = st.decimals(min_value=0, max_value=100_000, places=9)
multipliers = st.decimals(min_value=0, max_value=10, places=4)
counts = st.integers(0, 3_000_000)

chances = st.randoms(use_true_random=False)
usages = chances.map(usage_of)


@st.composite
def prices(draw: st.DrawFn) -> TokenPrice:
    """A price of the four plain members alone, or with all others."""
    spec = draw(st.builds(PriceSpec, *[st.none() | usd for _ in range(4)]) | chances.map(spec_of))
    return token_price(spec, draw(multipliers))


@dataclass
class Response:
    """What a meter has read of an answer."""

    usage: Usage | None
    partial_usage: PartialUsage | None
    characters: int
    finished: bool
    unstated_characters: int
    error_seen: None = None
    finish_reason: str | None = None
    response_id: str | None = None
    response_model: str | None = None


responses = st.builds(
    Response,
    usage=st.none() | usages,
    partial_usage=st.none()
    | st.builds(
        PartialUsage,
        input=st.none()
        | st.integers(0, 10**6).map(lambda n: Usage(input_tokens=n, output_tokens=0)),
        output_tokens=st.none() | counts,
    ),
    characters=counts,
    finished=st.booleans(),
    unstated_characters=st.just(0) | counts,
)


@given(prices(), responses, st.none() | st.just(0.5), counts)
def test_what_is_kept_of_a_call_comes_to_its_cost(
    price: TokenPrice, response: Response, first_byte_seconds: float | None, estimate: int
) -> None:
    _: MeterReading = response
    bounds = Bounds(10**6, 10**6, 10**6)
    bill = TokenBill(price, estimate, 1, 1, True, bounds, estimate, None)
    bill.meter = cast(Meter, response)
    charged = bill.charged(first_byte_seconds=first_byte_seconds)
    # As the row keeps it, and as it comes back.
    detail = json.loads(json.dumps({**bill.terms, **charged.detail}))
    lines = lines_of(
        detail,
        input_tokens=charged.usage.input_tokens,
        cached_tokens=charged.usage.cached_tokens,
        output_tokens=charged.usage.output_tokens,
    )
    assert total_nano_usd(lines, multiplier_of(detail)) == charged.cost_nano_usd
    assert all(line.count >= 0 for line in lines)
    # What another price would have made of the call can be worked out, too.
    row = (charged.usage.input_tokens, charged.usage.output_tokens, charged.usage.cached_tokens)
    again = usage_of_row(*row, detail)
    assert replace(again, parts=again.parts or UsageParts()) == replace(
        charged.usage, parts=charged.usage.parts or UsageParts()
    )
    tokens = [line for line in lines if line.per != 1]
    assert sum(line.count for line in tokens) == (
        charged.usage.input_tokens + charged.usage.output_tokens
    )
    so_far = bill.delivered()
    if so_far is not None and first_byte_seconds is not None:
        # What recovery would write of it comes to the same.
        assert so_far.cost_nano_usd == charged.cost_nano_usd
        assert so_far.cache_write_tokens == charged.usage.cache_write_tokens
        assert {**bill.terms, **(so_far.detail or {})}["price"] == detail["price"]
        for kept in ("parts", "reported"):
            assert (so_far.detail or {}).get(kept) == detail.get(kept)


@given(
    st.builds(
        PriceSpec, per_image=usd, per_image_large=st.none() | usd, per_reference=st.none() | usd
    ),
    multipliers,
    st.integers(0, 50),
    st.integers(0, 50),
    st.integers(0, 10),
)
def test_pieces_come_to_their_cost(
    spec: PriceSpec, multiplier: Decimal, standard: int, large: int, references: int
) -> None:
    price = ImagePrice.of(spec, multiplier)
    references = references if standard + large else 0  # no image, nothing to pay
    cost = price.cost_nano_usd(standard=standard, large=large, references=references)
    counted = {"standard": standard, "large": large, "references": references}
    detail = {"price": price.stated, "units": {name: n for name, n in counted.items() if n}}
    lines = lines_of(json.loads(json.dumps(detail)))
    assert total_nano_usd(lines, multiplier_of(detail)) == cost


@cases(
    "detail",
    {},
    {"price": {"per_image": "1"}, "units": {"songs": 2}},
    {"price": {"input": "1", "output": "1"}, "parts": {"audio_input": 1}},
)
def test_what_has_no_price_is_shown_as_such(detail: dict[str, Any]) -> None:
    with pytest.raises(NoPrice):
        lines_of(detail, input_tokens=1, cached_tokens=0, output_tokens=1)


def test_nothing_is_charged_beyond_what_the_ledger_holds() -> None:
    price = TokenPrice.of(PriceSpec(output=Decimal(10**9)), Decimal(1))
    usage = Usage(input_tokens=0, output_tokens=10**9)
    kept = {"price": price.stated}
    lines = lines_of(kept, input_tokens=0, cached_tokens=0, output_tokens=usage.output_tokens)
    assert total_nano_usd(lines, "1") == price.cost_nano_usd(usage) == MAX_NANO_USD


FORMULAS = {
    (1, 0, 1, "0.5"): "(1 x 2 + 1 x 8) x 0.5 / 1000000 = 0.000005 USD",
    (1, 0, 1, "1"): "(1 x 2 + 1 x 8) / 1000000 = 0.00001 USD",
    (7, 5, 0, "1"): "(2 x 2 + 5 x 0.25) / 1000000 = 0.00000525 USD",
    (0, 0, 3, "0.5"): "3 x 8 x 0.5 / 1000000 = 0.000012 USD",
    (0, 0, 3, "1"): "3 x 8 / 1000000 = 0.000024 USD",
    (0, 0, 0, "0.5"): "nothing to pay for = 0 USD",
}


def test_a_formula_of_parts_and_fees_can_be_followed() -> None:
    lines = token_lines(
        {"input": "2", "output": "8", "cache_write_1h": "4", "per_web_search": "0.01"},
        input_tokens=10,
        cached_tokens=0,
        cache_write_tokens=7,
        output_tokens=1,
        parts={"cache_write_1h": 5, "per_web_search": 3},
    )
    tokens = "(3 x 2 + 2 x 2 + 1 x 8 + 5 x 4) / 1000000"
    assert formula(lines, "1") == f"{tokens} + 3 x 0.01 = 0.030038 USD"
    assert formula(lines, "0.5") == f"({tokens} + 3 x 0.01) x 0.5 = 0.015019 USD"


@each("counted", FORMULAS)
def test_formula_can_be_followed(counted: tuple[int, int, int, str]) -> None:
    went_in, cached, came_out, multiplier = counted
    lines = token_lines(
        {"input": "2", "output": "8", "cached_input": "0.25"},
        input_tokens=went_in,
        cached_tokens=cached,
        cache_write_tokens=0,
        output_tokens=came_out,
    )
    assert formula(lines, multiplier) == FORMULAS[counted]
