"""Readers of prices, for models, channels' entries of models and accounts.

`channels/prices.py` defines the members; `relations.py` checks prices against the rest of the
configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any

from channels.dialects.token_counts import served_region
from channels.families import SERVICE_TIERS, TOKEN_PART_PRICES, TOKEN_PRICES
from channels.prices import PriceSpec, PriceStep, TierPrice
from gw.config import mappings, readers
from gw.config.faults import Location
from gw.config.nodes import Node, Scalar

USD = readers.decimal("a price in USD", most=1_000_000, quoted=True)
FACTOR = readers.decimal("a factor", most=1000, above_zero=True, quoted=True)
# Steps of one price; providers have one or two.
STEPS_MAX = 10
TOKENS_MAX = 1_000_000_000
SEARCH_SIZES = ("low", "medium", "high")

_PER_MILLION: mappings.Schema = {
    name: mappings.Key(readers.optional(USD), None) for name in (*TOKEN_PRICES, *TOKEN_PART_PRICES)
}
STEP: mappings.Schema = {
    "above": mappings.Key(readers.whole(0, TOKENS_MAX), mappings.REQUIRED),
    **_PER_MILLION,
}


def steps() -> readers.Reader[tuple[PriceStep, ...]]:
    """Read the steps of a price for long prompts, in ascending order of their bounds."""
    read_steps = mappings.listing(
        mappings.mapping(STEP), "a list of {above: tokens, input: price, …}"
    )

    def read(node: Node, at: Location) -> tuple[PriceStep, ...]:
        found = read_steps(node, at)
        if len(found) > STEPS_MAX:
            raise readers.InvalidValue(found=f"{len(found)} steps", allowed=f"at most {STEPS_MAX}")
        last = -1
        for one in found:
            above = one.get("above")
            if above is None:
                continue
            if above <= last:
                one.location("above").blame(
                    found=f"{above} after {last}", allowed="steps in rising order of above"
                )
            last = above
        _blame_empty(found)
        return tuple(
            PriceStep(one.values["above"], _stated(one.values))
            for one in found
            if "above" in one.values
        )

    return read


def _blame_empty(found: Sequence[mappings.Section]) -> None:
    for one in found:
        if not one.locations.keys() - {"above"}:
            one.at.blame(found="a step without a price", allowed="a price that differs above it")


def _stated(values: Mapping[str, Any]) -> dict[str, Decimal]:
    return {name: values[name] for name in _PER_MILLION if values.get(name) is not None}


TIER: mappings.Schema = {
    "factor": mappings.Key(readers.optional(FACTOR), None),
    **_PER_MILLION,
    "above_tokens": mappings.Key(steps(), ()),
}


def tiers() -> readers.Reader[dict[str, TierPrice]]:
    """Read the prices of service tiers: a factor or own prices for each."""
    read_tiers = mappings.mapping(
        {
            name: mappings.Key(readers.optional(mappings.mapping(TIER)), None)
            for name in SERVICE_TIERS
        }
    )

    def read(node: Node, at: Location) -> dict[str, TierPrice]:
        sections: dict[str, mappings.Section | None] = dict(read_tiers(node, at).values)
        return {name: _tier(one) for name, one in sections.items() if one is not None}

    return read


def _tier(one: mappings.Section) -> TierPrice:
    factor, prices = one.get("factor"), _stated(one.values)
    own = one.get("above_tokens", ())
    if factor is not None and (prices or own):
        one.at.blame(found="a factor and prices", allowed="one of them")
    elif factor is None and not prices and not own and not one.locations:
        one.at.blame(found="no price", allowed="a factor, or prices of the tier's own")
    return TierPrice(factor, prices, own)


def by_size() -> readers.Reader[Decimal | dict[str, Decimal]]:
    """Read the price of a web search: one for all, or one per size of its context."""
    read_sizes = mappings.by_name(USD, f"a price of each of {', '.join(SEARCH_SIZES)}")

    def read(node: Node, at: Location) -> Decimal | dict[str, Decimal]:
        if isinstance(node, Scalar):
            return USD(node, at)
        found = read_sizes(node, at)
        for name in found.keys() - set(SEARCH_SIZES):
            at.key(name).blame(found=name, allowed=f"one of {', '.join(SEARCH_SIZES)}")
        return found

    return read


def regions() -> readers.Reader[dict[str, Decimal]]:
    """Read the factors of regions, by the names that upstreams report."""
    read_factors = mappings.by_name(FACTOR, "a factor for each region, such as {us: 1.1}")

    def read(node: Node, at: Location) -> dict[str, Decimal]:
        found = read_factors(node, at)
        for name in found:
            if served_region(name) != name:
                at.key(name).blame(
                    found=name, allowed="a region as upstreams report it, such as us"
                )
        return found

    return read


PRICE_KEYS = tuple(field.name for field in fields(PriceSpec) if field.name != "factor")
PRICE: mappings.Schema = {
    **{key: mappings.Key(readers.optional(USD), None) for key in PRICE_KEYS},
    "per_second_by_resolution": mappings.Key(
        readers.optional(mappings.by_name(USD, "a price of each")), None
    ),
    "per_web_search": mappings.Key(readers.optional(by_size()), None),
    "above_tokens": mappings.Key(readers.optional(steps()), None),
    "service_tiers": mappings.Key(readers.optional(tiers()), None),
    "regions": mappings.Key(readers.optional(regions()), None),
}
# The members of a channel's entry that override the model's price.
ENTRY_PRICE: mappings.Schema = {**PRICE, "factor": mappings.Key(readers.optional(FACTOR), None)}


def entry_price() -> readers.Reader[PriceSpec | None]:
    """Read the price of a model on one channel; None if it has no member."""
    read_price = mappings.mapping(ENTRY_PRICE)

    def read(node: Node, at: Location) -> PriceSpec | None:
        found = read_price(node, at)
        if len(found.values) < len(ENTRY_PRICE):
            return None  # already reported
        spec = PriceSpec(**found.values)
        return spec if found.locations and spec.stated() else None

    return read
