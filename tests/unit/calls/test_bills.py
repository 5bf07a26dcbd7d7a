"""What a call is held for, what it may reach, and the price of what was delivered."""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.bounds import Bounds
from actors.wallet.live_calls import Delivered
from actors.wallet.money import MAX_NANO_USD
from actors.wallet.pricing import TokenPrice
from actors.wallet.sheets import hold_nano_usd, price_of
from channels.dialects.token_counts import TOKENS_MAX, PartialUsage, Usage, UsageParts
from channels.prices import PriceSpec, TierPrice
from channels.registry import ModelSpec
from gw.calls.billable import (
    LOOKED_THROUGH_BYTES_MAX,
    TOOL_CALLS_MAX,
    billable_of,
    refuse_advisor,
    region_named,
    tier_named,
)
from gw.calls.token_bill import TokenBill, estimate
from gw.calls.token_charge import NOTHING, TokenCharge, charge, delivered, tokens_of_bytes
from gw.errors import INVALID_REQUEST, GatewayError
from tests.support.rows import cases, each
from tests.support.specs import make_model

BOUNDS = Bounds(input_tokens=10**6, output_tokens=10**6, beside_tokens=10**6)
HOLD_PRICE = TokenPrice.of(PriceSpec(input=Decimal(1), output=Decimal(10)), Decimal(1))


def estimated(content_bytes: int, max_tokens: int | None, ceiling: int | None) -> TokenBill:
    return estimate(
        content_bytes=content_bytes,
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


# --- The price of what was delivered, row by row of the policy ---

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


# --- What a request may be billed by at most, and the dearer tiers that are refused ---


def model(*tiers: str, **changes: Any) -> ModelSpec:
    own = {name: TierPrice(factor=Decimal(2)) for name in tiers}
    spec = PriceSpec(input=Decimal(1), output=Decimal(10), service_tiers=own or None)
    return make_model("a", price=spec, **changes)


def named(asked: dict[str, str], of: ModelSpec) -> str | None:
    return tier_named(of, price_of(of), asked)


@cases(
    "member, value, tier",
    ("service_tier", "priority", "priority"),
    ("service_tier", "Priority", "priority"),
    ("service_tier", "fast", "priority"),
    ("service_tier", "ultrafast", "ultrafast"),
    ("speed", "fast", "fast"),
    ("serviceTier", "SERVICE_TIER_PRIORITY", "priority"),
)
def test_a_dearer_tier_without_a_price_is_refused_by_its_member(
    member: str, value: str, tier: str
) -> None:
    asked = {"stream": "true", member: value}
    with pytest.raises(GatewayError, match="has no price") as refused:
        named(asked, model())
    assert (refused.value.kind, refused.value.param) == (INVALID_REQUEST, member)
    assert named(asked, model(tier)) == tier
    assert named(asked, model(refuses_unpriced=False)) == tier


@cases("value", "auto", "default", "standard", "standard_only", "", "scale")
def test_the_standard_tier_needs_no_price(value: str) -> None:
    assert named({"service_tier": value}, model()) is None


@cases("value", "flex", "batch")
def test_a_cheaper_tier_needs_no_price(value: str) -> None:
    assert named({"service_tier": value}, model()) == value


def regional(**changes: Any) -> ModelSpec:
    spec = PriceSpec(input=Decimal(1), output=Decimal(10), regions={"us": Decimal("1.1")})
    return make_model("a", price=spec, **changes)


def region(value: str, of: ModelSpec) -> str:
    return region_named(of, price_of(of), {"inference_geo": value})


@each("value", ("us", "US"))
def test_a_region_without_a_price_is_refused(value: str) -> None:
    with pytest.raises(GatewayError, match="inference_geo: `us` has no price") as refused:
        region(value, model())
    assert (refused.value.kind, refused.value.param) == (INVALID_REQUEST, "inference_geo")
    assert region(value, regional()) == "us"
    with pytest.raises(GatewayError, match="`eu` has no price"):
        region("eu", regional())
    assert region(value, model(refuses_unpriced=False)) == "us"


@each("value", ("global", "", '["us"]', "not a region"))
def test_anywhere_needs_no_price(value: str) -> None:
    assert region(value, model()) == ""


@cases("place, held", ("us", 2_200_000), (None, 2_200_000), ("", 2_000_000), ("eu", 2_000_000))
def test_the_hold_is_for_the_region_named_or_any_where_none_is(
    place: str | None, held: int
) -> None:
    # (1000 x 1 + 100 x 10) / 1M, and a tenth more where an upstream's own default is that region.
    billable = billable_of(b"{}", None, place)
    price = price_of(regional())
    assert hold_nano_usd(price, input_tokens=1000, output_tokens=100, billable=billable) == held


def test_an_adviser_is_refused_where_what_has_no_price_is() -> None:
    with pytest.raises(GatewayError, match="tools: `advisor` has no price") as refused:
        refuse_advisor(model(), ("web_search", "advisor"))
    assert refused.value.param == "tools"
    refuse_advisor(model(), ("web_search",))
    refuse_advisor(model(refuses_unpriced=False), ("advisor",))


def reached(**members: Any) -> Any:
    return billable_of(json.dumps(members).encode(), None)


def test_a_plain_request_reaches_nothing_more() -> None:
    text = 'she wrote {"cache_control": 1} and "input_audio"'
    found = reached(messages=[{"role": "user", "content": text}])
    assert (found.members, found.tools) == (frozenset(), {})


@cases(
    "member, part",
    ("audio_input", {"type": "input_audio", "input_audio": {"data": ""}}),
    ("audio_input", {"inlineData": {"mimeType": "audio/wav"}}),
    ("image_input", {"type": "image_url"}),
    ("image_input", {"type": "image", "source": {}}),
)
def test_parts_of_the_content_are_seen(member: str, part: dict[str, Any]) -> None:
    assert reached(messages=[{"role": "user", "content": [part]}]).members == {member}


def test_an_hour_in_the_cache_is_seen() -> None:
    found = reached(system=[{"cache_control": {"type": "ephemeral", "ttl": "1h"}}])
    assert found.members == {"cache_write_1h"}


@cases(
    "tools, calls",
    ([{"type": "web_search_20250305", "max_uses": 5}], {"per_web_search": 5}),
    ([{"type": "web_search"}], {"per_web_search": 1}),
    ([{"type": "web_search"}, {"max_tool_calls": 4}], {"per_web_search": 4}),
    ([{"type": "web_search", "max_uses": 10**8}], {"per_web_search": TOOL_CALLS_MAX}),
    ([{"googleSearch": {}}, {"codeExecution": {}}], {"per_web_search": 1, "per_code_session": 1}),
    ([{"type": "file_search"}], {"per_file_search": 1}),
)
def test_tools_of_the_upstream_are_counted(
    tools: list[dict[str, Any]], calls: dict[str, int]
) -> None:
    assert reached(tools=tools).tools == calls


def test_the_size_of_a_search_is_seen() -> None:
    options = {"search_context_size": "high"}
    assert reached(web_search_options=options).search_size == "high"
    assert reached(web_search_options={}).search_size is None


def test_a_long_body_is_looked_through_at_both_ends() -> None:
    filler = "x" * LOOKED_THROUGH_BYTES_MAX
    part = {"type": "image_url"}
    found = reached(system=[part], messages=[filler], tools=[{"type": "file_search"}])
    assert (found.members, set(found.tools)) == ({"image_input"}, {"per_file_search"})
    assert found.input_tokens > LOOKED_THROUGH_BYTES_MAX / 4
    assert reached(a=filler, b=part, c=filler).members == frozenset()
