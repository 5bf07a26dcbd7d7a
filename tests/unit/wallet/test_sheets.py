"""Prices with more than the four plain members: disjoint buckets, tiers, steps, holds."""

from dataclasses import replace
from decimal import Decimal
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict
from msgspec.structs import replace as with_counts

from actors.wallet.money import MAX_NANO_USD
from actors.wallet.pricing import Billable, TokenPrice
from actors.wallet.sheets import (
    buckets,
    has_tier,
    hold_nano_usd,
    price_of,
    token_price,
    unpriced_in,
)
from channels.dialects.token_counts import Usage, UsageParts
from channels.families import DEARER_TIERS, TOKEN_PRICES
from channels.prices import PriceSpec, PriceStep, TierPrice
from channels.registry import Binding
from tests.support.prices import MEMBERS, SIZES, billable_of, spec_of, usage_of
from tests.support.rows import each
from tests.support.specs import make_model

chances = st.randoms(use_true_random=False)
ONE = Decimal(1)
# What a bucket of tokens is part of.
INPUT = [name for name in MEMBERS if "output" not in name]
OUTPUT = [name for name in MEMBERS if "output" in name]


@given(chances)
def test_buckets_are_disjoint_and_add_up_to_the_usage(random: Random) -> None:
    usage = usage_of(random)
    counted = buckets(usage)
    assert min(counted.values()) >= 0
    assert sum(counted[name] for name in INPUT) == usage.input_tokens
    assert sum(counted[name] for name in OUTPUT) == usage.output_tokens
    cached = counted["cached_input"] + counted["cached_audio_input"] + counted["cached_image_input"]
    assert cached == usage.cached_tokens
    assert counted["cache_write"] + counted["cache_write_1h"] == usage.cache_write_tokens
    assert counted["reasoning_output"] == usage.reasoning_tokens


@given(
    st.builds(
        UsageParts,
        **{name: st.integers(-5, 50) for name, one in asdict(UsageParts()).items() if one == 0},
    ),
    st.lists(st.integers(0, 20), min_size=4, max_size=4),
)
def test_parts_that_contradict_the_whole_count_as_far_as_there_is_room(
    parts: UsageParts, counts: list[int]
) -> None:
    fresh, cached, written, output = counts
    usage = Usage(
        input_tokens=fresh + cached + written,
        output_tokens=output,
        cached_tokens=cached,
        cache_write_tokens=written,
        parts=parts,
    )
    counted = buckets(usage)
    assert min(counted.values()) >= 0
    assert sum(counted[name] for name in INPUT) == usage.input_tokens
    assert sum(counted[name] for name in OUTPUT) == usage.output_tokens


# A count, and the counts that it is a part of.
COUNTS = {
    "output_tokens": (),
    "input_tokens": (),
    "cached_tokens": ("input_tokens",),
    "cache_write_tokens": ("input_tokens",),
    "reasoning_tokens": ("output_tokens",),
    "cache_write_1h_tokens": ("cache_write_tokens", "input_tokens"),
    "audio_input_tokens": ("input_tokens",),
    "cached_audio_tokens": ("audio_input_tokens", "cached_tokens", "input_tokens"),
    "image_input_tokens": ("input_tokens",),
    "cached_image_tokens": ("image_input_tokens", "cached_tokens", "input_tokens"),
    "audio_output_tokens": ("output_tokens",),
    "image_output_tokens": ("output_tokens",),
    "web_searches": (),
    "file_searches": (),
    "code_sessions": (),
}


def grown(usage: Usage, name: str, by: int) -> Usage:
    """The usage with more of one count, and so of each that it is a part of."""
    names, parts = (name, *COUNTS[name]), usage.parts or UsageParts()
    mine = [one for one in names if one in Usage.__struct_fields__]
    theirs = [one for one in names if one not in mine]
    parts = with_counts(parts, **{one: getattr(parts, one) + by for one in theirs})
    return with_counts(usage, parts=parts, **{one: getattr(usage, one) + by for one in mine})


@given(chances, st.sampled_from(sorted(COUNTS)), st.integers(1, 500_000))
def test_more_of_any_count_never_costs_less(random: Random, name: str, by: int) -> None:
    # A step may be cheaper than what is below it: then a longer prompt is.
    spec = replace(spec_of(random), above_tokens=None)
    tiers = spec.service_tiers or {}
    spec = replace(
        spec, service_tiers={key: replace(one, above_tokens=()) for key, one in tiers.items()}
    )
    price, usage = token_price(spec, ONE), usage_of(random)
    assert price.cost_nano_usd(grown(usage, name, by)) >= price.cost_nano_usd(usage)


@given(chances)
def test_a_price_of_the_four_members_costs_the_same_by_a_sheet(random: Random) -> None:
    spec, usage = spec_of(random), usage_of(random)
    four = PriceSpec(**{name: getattr(spec, name) for name in TOKEN_PRICES})
    plain = token_price(four, ONE)
    assert plain.sheet is None
    # A price of nothing for what there is none of makes a sheet, and no other cost.
    dimensional = token_price(replace(four, per_request=Decimal(0)), ONE)
    assert dimensional.sheet is not None
    assert dimensional.cost_nano_usd(usage) == plain.cost_nano_usd(usage)
    # The short way to a cost, and the one that keeps its parts.
    price = token_price(spec, ONE)
    for one in (usage, with_counts(usage, parts=None)):
        assert price.sheet is None or (
            price.cost_nano_usd(one) == price.sheet.priced(one).cost_nano_usd
        )


@given(chances, st.lists(st.booleans(), min_size=3, max_size=3))
def test_what_is_held_covers_whatever_is_reached(random: Random, is_own: list[bool]) -> None:
    specs = [spec_of(random) for _ in is_own]
    # What comes from a cache is never dearer, as the hold of a plain call has it, too.
    specs = [without_cached(spec) for spec in specs]
    model = make_model(
        *(
            Binding(f"c{i}", price=spec if own else None)
            for i, (spec, own) in enumerate(zip(specs, is_own, strict=True))
        ),
        price=specs[0],
        multiplier=Decimal("1.3"),
    )
    price, usage = price_of(model), usage_of(random)
    parts = usage.parts or UsageParts()
    billable = billable_of(usage)
    if random.random() < 0.5:
        billable = with_counts(billable, search_size=None)
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    held = hold_nano_usd(price, **tokens, billable=billable)
    anywhere = hold_nano_usd(price, **tokens, billable=with_counts(billable, region=None))
    for channel in ("c0", "c1", "c2"):
        served = (price.channels or {}).get(channel, price)
        assert served.cost_nano_usd(usage) <= held
        # Served in the standard tier after all.
        standard = with_counts(usage, parts=with_counts(parts, service_tier=None))
        assert served.cost_nano_usd(standard) <= held
        # Served in a region that the upstream chooses where the request names none.
        elsewhere = with_counts(usage, parts=with_counts(parts, region=random.choice(("us", "eu"))))
        assert served.cost_nano_usd(elsewhere) <= anywhere


def test_a_hold_covers_what_comes_without_being_requested() -> None:
    steps = (PriceStep(200, {"input": Decimal(3)}), PriceStep(500, {"input": Decimal(2)}))
    price = priced(cache_write=Decimal("1.25"), above_tokens=steps)

    def held(count: int, billable: Billable) -> int:
        return hold_nano_usd(price, input_tokens=count, output_tokens=0, billable=billable)

    assert held(100, Billable()) == 125_000  # upstreams write to caches of their own accord
    assert held(600, Billable()) == 1_800_000  # an estimate may be too long
    assert held(100, Billable(input_tokens=201)) == 300_000  # and count less than the whole request
    # A tier that the channel's own headers ask for.
    twice = {"priority": TierPrice(factor=Decimal(2))}
    base = PriceSpec(input=ONE, output=ONE, service_tiers=twice)
    price = price_of(make_model(Binding("a", tier="priority"), price=base))
    assert held(100, Billable()) == 200_000


def without_cached(spec: PriceSpec) -> PriceSpec:
    names = ("cached_input", "cached_audio_input", "cached_image_input")

    def rest(prices: dict[str, Decimal]) -> dict[str, Decimal]:
        return {name: value for name, value in prices.items() if name not in names}

    def steps(found: tuple[PriceStep, ...]) -> tuple[PriceStep, ...]:
        return tuple(PriceStep(one.above, rest(dict(one.prices))) for one in found)

    tiers = {
        name: TierPrice(one.factor, rest(dict(one.prices)), steps(one.above_tokens))
        for name, one in (spec.service_tiers or {}).items()
    }
    return replace(
        spec,
        **dict.fromkeys(names),
        above_tokens=steps(spec.above_tokens or ()),
        service_tiers=tiers,
    )


def priced(**members: object) -> TokenPrice:
    spec = PriceSpec(input=Decimal(1), output=Decimal(10), **members)  # type: ignore[arg-type]
    return token_price(spec, ONE)


def test_unpriced_usage_is_named() -> None:
    parts = UsageParts(web_searches=2, cache_write_1h_tokens=1, service_tier="priority")
    usage = Usage(input_tokens=9, output_tokens=1, cache_write_tokens=1, parts=parts)
    some = priced(per_web_search=Decimal("0.01"))
    assert some.sheet is not None
    assert some.sheet.unpriced(usage) == ["cache_write_1h", "priority"]
    tiers = {"priority": TierPrice(factor=Decimal(2))}
    all_ = priced(per_web_search=Decimal(0), cache_write_1h=Decimal(2), service_tiers=tiers)
    assert all_.sheet is not None
    assert all_.sheet.unpriced(usage) == []


def test_a_region_and_an_adviser_without_a_price_are_named() -> None:
    usage = Usage(100, 10, parts=UsageParts(region="us", advisor_tokens=500))
    assert unpriced_in(usage) == ["advisor", "regions"]
    price = token_price(PriceSpec(input=Decimal(1), regions={"us": Decimal(2)}), Decimal(1))
    assert price.sheet is not None
    assert price.sheet.unpriced(usage) == ["advisor"]
    assert price.sheet.priced(usage).stated["region"] == "us"
    elsewhere = Usage(100, 10, parts=UsageParts(region="eu"))
    assert price.sheet.unpriced(elsewhere) == ["regions"]
    assert "region" not in price.sheet.priced(elsewhere).stated
    assert price.cost_nano_usd(usage) == 2 * price.cost_nano_usd(elsewhere)


@each("tier", DEARER_TIERS)
def test_a_tier_has_a_price_where_every_channel_has_it(tier: str) -> None:
    own = PriceSpec(service_tiers={tier: TierPrice(factor=Decimal(2))})
    base = PriceSpec(input=ONE, output=ONE)
    half = make_model(Binding("a", price=own), Binding("b"), price=base)
    assert not has_tier(price_of(half), tier)
    both = make_model(Binding("a", price=own), Binding("b", price=own), price=base)
    assert has_tier(price_of(both), tier)
    assert not has_tier(priced(), tier)


def test_fast_speed_and_priority_are_priced_apart() -> None:
    priority = priced(service_tiers={"priority": TierPrice(factor=Decimal(2))})
    fast = Usage(input_tokens=10**6, output_tokens=0, parts=UsageParts(service_tier="fast"))
    assert priority.cost_nano_usd(fast) == 10**9
    assert not has_tier(priority, "fast")
    assert not has_tier(priced(service_tiers={"fast": TierPrice(factor=Decimal(6))}), "priority")


def test_nothing_is_charged_beyond_what_the_ledger_holds() -> None:
    price = priced(per_web_search=Decimal(10**6))
    usage = Usage(input_tokens=0, output_tokens=0, parts=UsageParts(web_searches=10**9))
    assert price.cost_nano_usd(usage) == MAX_NANO_USD


@each("size", [None, *SIZES])
def test_a_search_of_an_unlisted_size_costs_the_dearest(size: str | None) -> None:
    prices = {"low": Decimal("0.01"), "high": Decimal("0.03")}
    price = priced(per_web_search=prices)
    usage = Usage(
        input_tokens=0, output_tokens=0, parts=UsageParts(web_searches=1, web_search_size=size)
    )
    expected = prices.get(size or "medium", Decimal("0.03"))
    assert price.cost_nano_usd(usage) == expected * 10**9
