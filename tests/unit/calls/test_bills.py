"""What a call is held for, what it may reach, and the price of what was delivered."""

from dataclasses import dataclass
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.bounds import Bounds
from actors.wallet.live_calls import Delivered
from actors.wallet.money import MAX_NANO_USD
from actors.wallet.pricing import Billable, TokenPrice
from actors.wallet.sheets import price_of
from channels.dialects.token_counts import TOKENS_MAX, PartialUsage, Usage, UsageParts
from channels.prices import PriceSpec
from gw.calls.token_bill import TokenBill, estimate
from gw.calls.token_charge import NOTHING, TokenCharge, charge, delivered, tokens_of_bytes
from tests.support.rows import cases
from tests.support.specs import make_model

BOUNDS = Bounds(input_tokens=10**6, output_tokens=10**6, beside_tokens=10**6)
HOLD_PRICE = TokenPrice.of(PriceSpec(input=Decimal(1), output=Decimal(10)), Decimal(1))


def estimated(
    content_bytes: int, max_tokens: int | None, ceiling: int | None, *, body_bytes: int = 0
) -> TokenBill:
    return estimate(
        content_bytes=content_bytes,
        body_bytes=body_bytes or content_bytes,
        max_tokens=max_tokens,
        model_max_output_tokens=ceiling,
        price=HOLD_PRICE,
        bounds=BOUNDS,
    )


@cases("count, tokens", (0, 0), (1, 1), (4, 1), (5, 2), (400, 100))
def test_four_bytes_are_a_token_rounded_up(count: int, tokens: int) -> None:
    assert tokens_of_bytes(count) == tokens


@cases(
    "max_tokens, ceiling, assumed",
    (50, 4000, 50),
    (9000, 4000, 9000),  # explicit counts in full, above the ceiling too
    (None, 4000, 4000),
    (None, 128_000, 32_768),
    (None, None, 32_768),
)
def test_output_is_the_explicit_maximum_or_the_models_within_bounds(
    max_tokens: int | None, ceiling: int | None, assumed: int
) -> None:
    assert estimated(0, max_tokens, ceiling).output_tokens == assumed


@given(st.integers(0, 10**8), st.integers(1, 2**53))
def test_amount_is_both_parts_at_their_price(content_bytes: int, max_tokens: int) -> None:
    made = estimated(content_bytes, max_tokens, None)
    assert made.hold_nano_usd == -(-content_bytes // 4) * 1000 + max_tokens * 10_000
    assert made.budget_hold_nano_usd == made.hold_nano_usd


def test_budgets_are_held_for_the_whole_body_by_what_it_may_be_billed() -> None:
    made = estimated(400, 100, None, body_bytes=4000)
    assert made.hold_nano_usd == 100 * 1000 + 100 * 10_000
    assert made.budget_hold_nano_usd == 1000 * 1000 + 100 * 10_000
    # Still of the prices that were asked for, whichever channel answers.
    sheet = PriceSpec(input=Decimal(1), output=Decimal(10), per_request=Decimal("0.5"))
    made = estimate(
        content_bytes=400,
        body_bytes=4000,
        max_tokens=100,
        model_max_output_tokens=None,
        price=price_of(make_model("a", price=sheet)),
        bounds=BOUNDS,
        billable=Billable(),
    )
    assert made.budget_hold_nano_usd - made.hold_nano_usd == 900 * 1000


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
    unstated_characters: int = 0


def charged(reading: Reading) -> TokenCharge:
    return charge(reading, input_estimate_tokens=11, price=PRICE, bounds=BOUNDS)


def test_nothing_delivered_is_nothing_charged() -> None:
    assert charged(Reading()) is NOTHING
    assert charged(Reading(finished=True, error_seen="an error")) is NOTHING
    assert delivered(Reading(), input_estimate_tokens=11, price=PRICE, bounds=BOUNDS) is None


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


def test_zero_is_a_statement_where_nothing_was_sent() -> None:
    zero = Usage(input_tokens=0, output_tokens=0)
    made = charged(Reading(zero, finished=True))
    assert (made.cost_nano_usd, made.basis) == (0, "stated")
    made = charged(Reading(zero, characters=40, unstated_characters=40, finished=True))
    assert (made.usage, made.basis) == (Usage(11, 10), "estimated")
    free = Usage(input_tokens=20, output_tokens=0)
    made = charged(Reading(free, characters=40, unstated_characters=40, finished=True))
    assert (made.usage, made.basis) == (Usage(20, 10), "partly_stated")


def test_what_was_sent_after_the_usage_is_estimated() -> None:
    usage = Usage(input_tokens=20, output_tokens=3, cached_tokens=5)
    made = charged(Reading(usage, characters=400, unstated_characters=390))
    assert (made.usage, made.basis) == (Usage(20, 101, cached_tokens=5), "partly_stated")


def test_tools_and_tier_are_charged_without_a_usage() -> None:
    parts = UsageParts(web_searches=3, service_tier="flex")
    partial = PartialUsage(None, None, parts=parts)
    for reading in (Reading(partial_usage=partial), Reading(partial_usage=partial, characters=8)):
        made = charged(reading)
        assert made.usage == Usage(11, tokens_of_bytes(reading.characters), parts=parts)
        assert made.basis == "estimated"
    assert charged(Reading(partial_usage=partial, error_seen="an error")) is NOTHING
    assert charged(Reading(partial_usage=PartialUsage(None, None, parts=UsageParts()))) is NOTHING


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
    absurd = Usage(input_tokens=10, output_tokens=3 * 10**6, reasoning_tokens=5)
    made = charged(Reading(absurd, characters=4))
    assert made.usage == Usage(input_tokens=10, output_tokens=1)
    assert (made.basis, made.doubted) == ("partly_stated", {"output": 3 * 10**6})


def test_what_the_heartbeat_reports_is_what_would_be_charged() -> None:
    usage = Usage(input_tokens=100, output_tokens=5, cached_tokens=60)
    cost = charged(Reading(usage)).cost_nano_usd
    reported = delivered(Reading(usage), input_estimate_tokens=11, price=PRICE, bounds=BOUNDS)
    assert reported == Delivered(cost, 100, 5, 60)


@given(
    st.integers(0, TOKENS_MAX),
    st.integers(0, TOKENS_MAX),
    st.decimals(min_value=0, max_value=10**9, places=2),
)
def test_no_price_overflows_the_ledger(tokens: int, characters: int, usd: Decimal) -> None:
    price = TokenPrice.of(PriceSpec(input=usd, output=usd), Decimal(10))
    usage = Usage(input_tokens=tokens, output_tokens=tokens)
    for reading in (Reading(usage), Reading(characters=characters)):
        made = charge(reading, input_estimate_tokens=tokens, price=price, bounds=BOUNDS)
        assert 0 <= made.cost_nano_usd <= MAX_NANO_USD


def test_stated_input_alone_is_nothing_delivered() -> None:
    stated = Usage(input_tokens=100, output_tokens=0, cached_tokens=40)
    partial = PartialUsage(input=stated, output_tokens=1)
    assert charged(Reading(partial_usage=partial)) is NOTHING
    assert charged(Reading(partial_usage=partial, error_seen="an error")) is NOTHING
    assert charged(Reading(partial_usage=partial, finished=True)).usage.input_tokens == 100


@cases(
    "total, characters, split",
    (30, 40, (20, 10)),
    (5, 40, (0, 5)),
    (7, 0, (7, 0)),
    (10**9, 40, (11, 10)),
)
def test_total_alone_is_what_input_and_output_come_to(
    total: int, characters: int, split: tuple[int, int]
) -> None:
    partial = PartialUsage(None, None, total_tokens=total)
    found = charged(Reading(partial_usage=partial, characters=characters, finished=True))
    assert (found.usage.input_tokens, found.usage.output_tokens) == split
    assert found.basis == "partly_stated"
    assert bool(found.doubted) == (total == 10**9)


def test_cut_stream_takes_its_input_from_what_was_stated() -> None:
    stated = Usage(input_tokens=100, output_tokens=0, cached_tokens=40)
    partial = PartialUsage(input=stated, output_tokens=1)
    found = charged(Reading(partial_usage=partial, characters=20))
    assert found.basis == "partly_stated"
    assert found.usage == Usage(input_tokens=100, output_tokens=5, cached_tokens=40)
    assert found.cost_nano_usd == 60 * 1000 + 40 * 100 + 5 * 10_000
