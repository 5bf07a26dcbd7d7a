"""The price of what was delivered, row by row of the policy."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.pricing import MAX_NANO_USD, TokenPrice
from actors.wallet.wallets import Delivered
from channels.dialects.meter import PartialUsage, Usage
from channels.prices import PriceSpec
from gw.calls.bills import NOTHING, PLAUSIBLE_TOKENS_MAX, Charge, charge, delivered

PRICE = TokenPrice.of(
    PriceSpec(input=Decimal(1), output=Decimal(10), cached_input=Decimal("0.1")), Decimal(1)
)


@dataclass
class Reading:
    usage: Usage | None = None
    partial_usage: PartialUsage | None = None
    characters: int = 0
    finished: bool = False
    error_seen: object = None


def charged(reading: Reading) -> Charge:
    return charge(reading, input_estimate_tokens=11, price=PRICE)


def test_nothing_delivered_is_nothing_charged() -> None:
    assert charged(Reading()) is NOTHING
    assert charged(Reading(finished=True, error_seen="an error")) is NOTHING
    assert delivered(Reading(), input_estimate_tokens=11, price=PRICE) is None


def test_usage_is_believed_whatever_else_was_seen() -> None:
    usage = Usage(input_tokens=100, output_tokens=5, cached_tokens=60)
    for reading in (
        Reading(usage),
        Reading(usage, characters=999),
        Reading(usage, finished=True),
        Reading(usage, error_seen="an error"),
    ):
        made = charged(reading)
        assert (made.usage, made.cost_nano_usd) == (usage, 40 * 1000 + 60 * 100 + 5 * 10_000)
        assert made.basis == "stated"


def test_zero_is_a_statement() -> None:
    zero = Usage(input_tokens=0, output_tokens=0)
    made = charged(Reading(zero, characters=999, finished=True))
    assert (made.cost_nano_usd, made.basis) == (0, "stated")


def test_output_without_usage_is_estimated() -> None:
    for reading in (
        Reading(characters=9),
        Reading(characters=9, finished=True),
        Reading(characters=9, error_seen="an error, after something was said"),
    ):
        made = charged(reading)
        assert made.basis == "estimated"
        assert made.usage == Usage(input_tokens=11, output_tokens=3)
        assert made.cost_nano_usd == 11 * 1000 + 3 * 10_000


def test_usage_beyond_belief_is_replaced_by_the_estimate() -> None:
    absurd = Usage(input_tokens=10, output_tokens=PLAUSIBLE_TOKENS_MAX + 1)
    assert charged(Reading(absurd, characters=4)).usage == Usage(input_tokens=11, output_tokens=1)
    assert charged(Reading(absurd)) is NOTHING


def test_what_the_heartbeat_reports_is_what_would_be_charged() -> None:
    usage = Usage(input_tokens=100, output_tokens=5, cached_tokens=60)
    cost = charged(Reading(usage)).cost_nano_usd
    reported = delivered(Reading(usage), input_estimate_tokens=11, price=PRICE)
    assert reported == Delivered(cost, 100, 5, 60)


@given(
    st.integers(0, PLAUSIBLE_TOKENS_MAX),
    st.integers(0, PLAUSIBLE_TOKENS_MAX),
    st.decimals(min_value=0, max_value=10**9, places=2),
)
def test_no_price_overflows_the_ledger(tokens: int, characters: int, usd: Decimal) -> None:
    price = TokenPrice.of(PriceSpec(input=usd, output=usd), Decimal(10))
    usage = Usage(input_tokens=tokens, output_tokens=tokens)
    for reading in (Reading(usage), Reading(characters=characters)):
        made = charge(reading, input_estimate_tokens=tokens, price=price)
        assert 0 <= made.cost_nano_usd <= MAX_NANO_USD


def test_stated_input_alone_is_nothing_delivered() -> None:
    stated = Usage(input_tokens=100, output_tokens=0, cached_tokens=40)
    partial = PartialUsage(input=stated, output_tokens=1)
    assert charged(Reading(partial_usage=partial)) is NOTHING
    assert charged(Reading(partial_usage=partial, error_seen="an error")) is NOTHING
    assert charged(Reading(partial_usage=partial, finished=True)).usage.input_tokens == 100


@pytest.mark.parametrize(
    ("total", "characters", "split"),
    [(30, 40, (20, 10)), (5, 40, (0, 5)), (7, 0, (7, 0)), (10**12, 40, (11, 10))],
    ids=["both", "less than the output seems", "no text", "beyond belief"],
)
def test_total_alone_is_what_input_and_output_come_to(
    total: int, characters: int, split: tuple[int, int]
) -> None:
    partial = PartialUsage(None, None, total_tokens=total)
    found = charged(Reading(partial_usage=partial, characters=characters, finished=True))
    assert (found.usage.input_tokens, found.usage.output_tokens) == split
    assert found.basis == "partly_stated"


def test_cut_stream_takes_its_input_from_what_was_stated() -> None:
    stated = Usage(input_tokens=100, output_tokens=0, cached_tokens=40)
    partial = PartialUsage(input=stated, output_tokens=1)
    found = charged(Reading(partial_usage=partial, characters=20))
    assert found.basis == "partly_stated"
    assert found.usage == Usage(input_tokens=100, output_tokens=5, cached_tokens=40)
    assert found.cost_nano_usd == 60 * 1000 + 40 * 100 + 5 * 10_000
