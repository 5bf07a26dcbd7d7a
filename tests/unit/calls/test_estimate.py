"""The pre-charge: bytes of the conversation in, the token maximum out."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.pricing import TokenPrice
from channels.prices import PriceSpec
from gw.calls.bills import Estimate, estimate, tokens_of_bytes

PRICE = TokenPrice.of(PriceSpec(input=Decimal(1), output=Decimal(10)), Decimal(1))


def estimated(content_bytes: int, max_tokens: int | None, ceiling: int | None) -> Estimate:
    return estimate(
        content_bytes=content_bytes,
        max_tokens=max_tokens,
        model_max_output_tokens=ceiling,
        price=PRICE,
    )


@pytest.mark.parametrize(("count", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (400, 100)])
def test_four_bytes_are_a_token_rounded_up(count: int, tokens: int) -> None:
    assert tokens_of_bytes(count) == tokens


@pytest.mark.parametrize(
    ("max_tokens", "ceiling", "assumed"),
    [
        (50, 4000, 50),
        (9000, 4000, 9000),  # explicit counts in full, above the ceiling too
        (None, 4000, 4000),
        (None, 128_000, 32_768),
        (None, None, 32_768),
    ],
)
def test_output_is_the_explicit_maximum_or_the_models_within_bounds(
    max_tokens: int | None, ceiling: int | None, assumed: int
) -> None:
    assert estimated(0, max_tokens, ceiling).output_tokens == assumed


@given(st.integers(0, 10**8), st.integers(1, 2**53))
def test_amount_is_both_parts_at_their_price(content_bytes: int, max_tokens: int) -> None:
    made = estimated(content_bytes, max_tokens, None)
    assert made.amount_nano_usd == -(-content_bytes // 4) * 1000 + max_tokens * 10_000
