"""Reading, printing and rounding money."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.money import (
    MAX_NANO_USD,
    MoneyError,
    div_round_half_up,
    format_credits,
    format_usd,
    parse_usd,
)
from tests.support.rows import cases


@cases(
    "text, nano",
    ("1", 1_000_000_000),
    ("0.30", 300_000_000),
    ("0.000000001", 1),
    ("-2.5", -2_500_000_000),
    (" 12.000 ", 12_000_000_000),
    ("007", 7_000_000_000),
)
def test_plain_decimal_is_read(text: str, nano: int) -> None:
    assert parse_usd(text) == nano


@cases(
    "text",
    "",
    "1e3",
    "NaN",
    "inf",
    "1.0000000001",
    "1,5",
    "$1",
    "+1",
    "0x1",
    "1.",
    ".5",
    "١",
    "9999999999",
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(MoneyError):
        parse_usd(text)


@given(st.integers(min_value=-MAX_NANO_USD, max_value=MAX_NANO_USD))
def test_printed_money_reads_back(nano: int) -> None:
    text = format_usd(nano)
    assert parse_usd(text) == nano
    assert "e" not in text.lower()
    assert not ("." in text and text.endswith("0"))


@given(st.integers(min_value=0, max_value=10**20), st.integers(min_value=1, max_value=10**12))
def test_rounding_is_half_up(numerator: int, denominator: int) -> None:
    rounded = div_round_half_up(numerator, denominator)
    # The distance to the exact value is at most a half, and a half goes up.
    assert -denominator <= 2 * (numerator - rounded * denominator) < denominator


def test_credits_follow_the_factor() -> None:
    assert format_credits(1_234_567, Decimal(1000)) == "1.234567"
    assert format_credits(-1_000_000_000, Decimal("0.5")) == "-0.5"
    assert format_credits(1, Decimal("0.5")) == "0.000000001"  # a half of the last place goes up
