"""What a request may be billed by at most, and the dearer tiers that are refused."""

import json
from decimal import Decimal
from typing import Any

import pytest

from actors.wallet.sheets import hold_nano_usd, price_of
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
from gw.errors import INVALID_REQUEST, GatewayError
from tests.support.rows import cases, each
from tests.support.specs import make_model


def model(*tiers: str, **changes: Any) -> ModelSpec:
    own = {name: TierPrice(factor=Decimal(2)) for name in tiers}
    spec = PriceSpec(input=Decimal(1), output=Decimal(10), service_tiers=own or None)
    return make_model("a", price=spec, **changes)


def named(request: dict[str, str], of: ModelSpec) -> str | None:
    return tier_named(of, price_of(of), request)


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
    request = {"stream": "true", member: value}
    with pytest.raises(GatewayError, match="has no price") as refused:
        named(request, model())
    assert (refused.value.kind, refused.value.param) == (INVALID_REQUEST, member)
    assert named(request, model(tier)) == tier
    assert named(request, model(refuses_unpriced=False)) == tier


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
