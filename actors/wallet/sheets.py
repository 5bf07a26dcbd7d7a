"""The cost of a chat call for a model with more than the four plain prices of tokens.

A usage is split into disjoint buckets, each named after the member of the price that bills it; the
buckets of tokens add up to the usage's input and output. The served service tier and the whole
input select the prices, and one rounding makes the cost. A bucket without its own price is billed
with the plain price that it is a part of (`PLAIN_OF`).

A plain model uses this once per configuration, when its price is compiled.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from actors.wallet import pricing
from actors.wallet.money import MAX_NANO_USD, div_round_half_up
from channels import families, prices
from channels.dialects.token_counts import Usage, UsageParts
from channels.registry import ModelSpec

# The plain price of a part without its own.
PLAIN_OF: Mapping[str, str] = MappingProxyType(
    {
        "cached_input": "input",
        "cache_write": "input",
        "cache_write_1h": "cache_write",
        "audio_input": "input",
        "cached_audio_input": "cached_input",
        "image_input": "input",
        "cached_image_input": "cached_input",
        "audio_output": "output",
        "image_output": "output",
        "reasoning_output": "output",
    }
)
SEARCH_SIZE = "medium"  # of a web search that states none
_NO_PARTS = UsageParts()


def buckets(usage: Usage) -> dict[str, int]:
    """Split the usage into disjoint parts, by members of a price; those of tokens add up to it.

    Parts that an upstream states beyond the whole, or twice, are clamped.
    """
    parts = usage.parts or _NO_PARTS
    fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    cached, output = usage.cached_tokens, usage.output_tokens
    cached_audio = _within(parts.cached_audio_tokens, cached)
    cached_image = _within(parts.cached_image_tokens, cached - cached_audio)
    written_1h = _within(parts.cache_write_1h_tokens, usage.cache_write_tokens)
    audio = _within(parts.audio_input_tokens - parts.cached_audio_tokens, fresh)
    image = _within(parts.image_input_tokens - parts.cached_image_tokens, fresh - audio)
    audio_output = _within(parts.audio_output_tokens, output)
    image_output = _within(parts.image_output_tokens, output - audio_output)
    reasoning = _within(usage.reasoning_tokens, output - audio_output - image_output)
    return {
        "input": fresh - audio - image,
        "audio_input": audio,
        "image_input": image,
        "cached_input": cached - cached_audio - cached_image,
        "cached_audio_input": cached_audio,
        "cached_image_input": cached_image,
        "cache_write": usage.cache_write_tokens - written_1h,
        "cache_write_1h": written_1h,
        "output": output - audio_output - image_output - reasoning,
        "audio_output": audio_output,
        "image_output": image_output,
        "reasoning_output": reasoning,
    }


def calls_of_tools(usage: Usage) -> dict[str, int]:
    """Return the tools that the upstream ran, by members of a price."""
    parts = usage.parts or _NO_PARTS
    return {
        "per_web_search": parts.web_searches,
        "per_file_search": parts.file_searches,
        "per_code_session": parts.code_sessions,
    }


def _within(count: int, room: int) -> int:
    return max(0, min(count, room))


@dataclass(frozen=True, slots=True)
class _Level:
    """The prices of one tier and one step: `usd` as a receipt states them, and numerators over
    `denominator` nano-USD each. `notes` name the tier and the step."""

    usd: Mapping[str, Decimal]
    numerators: Mapping[str, int]
    denominator: int
    notes: Mapping[str, Any]

    def billable_nano_usd(
        self, input_tokens: int, output_tokens: int, billable: pricing.Billable
    ) -> int:
        """Return the cost of so many tokens if all have the highest price that is reached."""
        numerators, members = self.numerators, {*_UNASKED, *billable.members}
        dearest_input = max(numerators[one] for one in self._having("input", members & _INPUT))
        dearest_output = max(numerators[one] for one in self._having("output", members & _OUTPUT))
        total = dearest_input * input_tokens + dearest_output * output_tokens
        for name, count in (*billable.tools.items(), _REQUEST):
            total += numerators.get(name, 0) * count
        return div_round_half_up(total, self.denominator)

    def _having(self, plain: str, members: Set[str]) -> Set[str]:
        return {plain, *(members & self.numerators.keys())}

    def stated(self, parts: Mapping[str, int], multiplier: Decimal) -> dict[str, Any]:
        """Return the plain prices and those of these parts, as in `TokenPrice.stated`."""
        usd = self.usd
        found: dict[str, Any] = {"input": f"{usd['input']:f}", "output": f"{usd['output']:f}"}
        for name in ("cached_input", "cache_write"):
            if usd[name] != usd["input"]:
                found[name] = f"{usd[name]:f}"
        found |= {name: f"{usd[name]:f}" for name in parts}
        if multiplier != 1:
            found["multiplier"] = f"{multiplier:f}"
        return {**found, **self.notes}


class PriceSheet:
    """All prices of a model on one channel; compiled for a tier and a step when these first
    occur. `asked` is the tier that the channel itself asks for."""

    def __init__(
        self, spec: prices.PriceSpec, multiplier: Decimal, asked: str | None = None
    ) -> None:
        self._spec = spec
        self._multiplier = multiplier
        self._asked = asked
        self._tokens: dict[str, Decimal] = {
            name: value
            for name in (*families.TOKEN_PRICES, *families.TOKEN_PART_PRICES)
            if (value := getattr(spec, name)) is not None
        }
        self._levels: dict[tuple[str | None, str | None, int, str], _Level] = {}

    def tier(self, name: str | None) -> str | None:
        """Return the tier that prices a served tier; None: the standard price."""
        tiers = self._spec.service_tiers or {}
        return name if name in tiers else None

    def region(self, name: str | None) -> str | None:
        """Return the region whose factor applies to a region that served; None: no factor."""
        return name if name in (self._spec.regions or {}) else None

    def cost_nano_usd(self, usage: Usage) -> int:
        """Return the cost of a usage; of the common one, without parts, in few steps."""
        if usage.parts is not None:
            return self.priced(usage).cost_nano_usd
        level = self._level(None, None, usage.input_tokens, SEARCH_SIZE)
        usd, reasoning = level.numerators, usage.reasoning_tokens
        fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        total = (
            usd["input"] * fresh
            + usd["cached_input"] * usage.cached_tokens
            + usd["cache_write"] * usage.cache_write_tokens
            + usd["output"] * (usage.output_tokens - reasoning)
            + usd.get("reasoning_output", usd["output"]) * reasoning
            + usd.get("per_request", 0)
        )
        return min(div_round_half_up(total, level.denominator), MAX_NANO_USD)

    def priced(self, usage: Usage) -> pricing.Priced:
        """Return the cost of a usage: each of its buckets once, and one request."""
        parts = usage.parts or _NO_PARTS
        size = parts.web_search_size or SEARCH_SIZE
        tier, region = self.tier(parts.service_tier), self.region(parts.region)
        level = self._level(tier, region, usage.input_tokens, size)
        numerators, counted = level.numerators, dict[str, int]()
        total = 0
        for name, count in (*buckets(usage).items(), *calls_of_tools(usage).items(), _REQUEST):
            if not count:
                continue
            if name in numerators:
                total += numerators[name] * count
                if name not in families.TOKEN_PRICES:
                    counted[name] = count
            elif name in PLAIN_OF:
                total += numerators[PLAIN_OF[name]] * count
        cost = min(div_round_half_up(total, level.denominator), MAX_NANO_USD)
        return pricing.Priced(cost, level.stated(counted, self._multiplier), counted)

    def hold_nano_usd(
        self, *, input_tokens: int, output_tokens: int, billable: pricing.Billable
    ) -> int:
        """Return the maximum cost of so many tokens, in the tiers, regions and steps and with the
        parts reached."""
        sizes = [billable.search_size] if billable.search_size else self._sizes()
        regions = self._spec.regions or {} if billable.region is None else {billable.region}
        longest = max(input_tokens, billable.input_tokens)
        return max(
            self._level(tier, region, length, size).billable_nano_usd(
                input_tokens, output_tokens, billable
            )
            for tier in {None, self.tier(billable.tier), self.tier(self._asked)}
            for region in {None, *map(self.region, regions)}
            for length in (longest, *self._bounds_below(tier, longest))
            for size in sizes
        )

    def _bounds_below(self, tier: str | None, length: int) -> Sequence[int]:
        """Return the bounds of steps below an estimated length, which may be too long."""
        return [step.above for step in self._steps(tier) if step.above < length]

    def _steps(self, tier: str | None) -> Sequence[prices.PriceStep]:
        own = (self._spec.service_tiers or {}).get(tier or "", _STANDARD)
        return own.above_tokens or self._spec.above_tokens or ()

    def unpriced(self, usage: Usage) -> list[str]:
        """Return the parts of a usage that cost extra elsewhere, and have no price here."""
        parts = usage.parts or _NO_PARTS
        has_tier = self.tier(parts.service_tier) is not None
        has_region = self.region(parts.region) is not None
        priced: dict[str, bool] = dict.fromkeys(families.DEARER_TIERS, has_tier)
        priced["regions"] = has_region
        return [
            name
            for name in unpriced_in(usage)
            if not priced.get(name, getattr(self._spec, name, None) is not None)
        ]

    def _sizes(self) -> Sequence[str]:
        searches = self._spec.per_web_search
        return list(searches) if isinstance(searches, Mapping) else [SEARCH_SIZE]

    def _level(self, tier: str | None, region: str | None, input_tokens: int, size: str) -> _Level:
        own = (self._spec.service_tiers or {}).get(tier or "", _STANDARD)
        steps = self._steps(tier)
        index = bisect_left([step.above for step in steps], input_tokens)
        searches = self._spec.per_web_search
        if not isinstance(searches, Mapping) or size not in searches:
            size = ""
        key = (tier, region, index, size)
        level = self._levels.get(key)
        if level is None:
            step = steps[index - 1] if index else None
            level = self._levels[key] = self._compiled(own, tier, region, step, size)
        return level

    def _compiled(
        self,
        own: prices.TierPrice,
        tier: str | None,
        region: str | None,
        step: prices.PriceStep | None,
        size: str,
    ) -> _Level:
        tokens = self._tokens_of(own, step, region)
        each: dict[str, Any] = {name: getattr(self._spec, name) for name in families.EACH_PRICES}
        each = {name: value for name, value in each.items() if value is not None}
        notes: dict[str, Any] = {} if tier is None else {"service_tier": tier}
        if region is not None:
            notes["region"] = region
        if step is not None:
            notes["above_tokens"] = step.above
        searches = each.get("per_web_search")
        if isinstance(searches, Mapping):
            each["per_web_search"] = searches[size] if size in searches else max(searches.values())
        usd = {**tokens, **each}
        # All per million, as tokens are.
        of_million = [
            usd[name] * (1 if name in tokens else pricing.TOKENS_PER_PRICE) for name in usd
        ]
        numerators, denominator = pricing.over_one_denominator(
            of_million, self._multiplier, units=pricing.TOKENS_PER_PRICE
        )
        return _Level(usd, dict(zip(usd, numerators, strict=True)), denominator, notes)

    def _tokens_of(
        self, own: prices.TierPrice, step: prices.PriceStep | None, region: str | None
    ) -> dict[str, Decimal]:
        """Return the prices of tokens, factors included."""
        of_step = {} if step is None else step.prices
        # A step of the tier precedes the tier's prices; one for all tiers follows them.
        first, last = (own.prices, of_step) if own.above_tokens else (of_step, own.prices)
        tokens = {**self._tokens, **first, **last}
        for name in ("input", "output"):
            tokens.setdefault(name, Decimal(0))
        for name in ("cached_input", "cache_write"):
            tokens.setdefault(name, tokens["input"])
        of_region = None if region is None else (self._spec.regions or {})[region]
        for factor in (own.factor, of_region, self._spec.factor):
            if factor is not None:
                tokens = {
                    name: prices.EXACT.multiply(usd, factor).normalize(prices.EXACT)
                    for name, usd in tokens.items()
                }
        return tokens


_REQUEST = ("per_request", 1)
_STANDARD = prices.TierPrice()
# Reached by any request: upstreams reason, and some write to their caches, without being asked.
_UNASKED = ("reasoning_output", "cache_write")
_INPUT = {"input", "cache_write", "cache_write_1h", "audio_input", "image_input"}
_OUTPUT = {"output", "audio_output", "image_output", "reasoning_output"}
# Tokens of a model that advises the one called; a price sheet has no price for them.
ADVISOR = "advisor"
# Parts that providers bill above the plain price, by the members of `UsageParts`.
_RAISED = (
    ("cache_write_1h", "cache_write_1h_tokens"),
    ("audio_input", "audio_input_tokens"),
    ("audio_output", "audio_output_tokens"),
    ("image_output", "image_output_tokens"),
    ("per_web_search", "web_searches"),
    ("per_file_search", "file_searches"),
    ("per_code_session", "code_sessions"),
    (ADVISOR, "advisor_tokens"),
)


def unpriced_in(usage: Usage) -> list[str]:
    """Return the parts that cost more than plain tokens elsewhere: members of a price, a tier."""
    parts = usage.parts
    if parts is None:
        return []
    found = [name for name, count in _RAISED if getattr(parts, count)]
    if parts.region is not None:
        found.append("regions")
    return [*found, parts.service_tier] if parts.service_tier in families.DEARER_TIERS else found


def hold_nano_usd(
    price: pricing.TokenPrice, *, input_tokens: int, output_tokens: int, billable: pricing.Billable
) -> int:
    """Return the maximum cost of so many tokens on any channel of a model."""
    return max(
        one.sheet.hold_nano_usd(
            input_tokens=input_tokens, output_tokens=output_tokens, billable=billable
        )
        if one.sheet is not None
        else one.estimate_nano_usd(input_tokens=input_tokens, output_tokens=output_tokens)
        for one in (price, *(price.channels or {}).values())
    )


def has_tier(price: pricing.TokenPrice, tier: str) -> bool:
    """Whether a tier has a price on every channel that may serve the model."""
    sheets = [one.sheet for one in (price.channels or {"": price}).values()]
    return all(one is not None and one.tier(tier) is not None for one in sheets)


def has_region(price: pricing.TokenPrice, region: str) -> bool:
    """Whether a region has a factor on every channel that may serve the model."""
    sheets = [one.sheet for one in (price.channels or {"": price}).values()]
    return all(one is not None and one.region(region) is not None for one in sheets)


def token_price(
    spec: prices.PriceSpec, multiplier: Decimal, asked: str | None = None
) -> pricing.TokenPrice:
    """Compile a price, with whichever members it has; `asked` as in `PriceSheet`."""
    price = pricing.TokenPrice.of(spec, multiplier)
    if not spec.has_dimensions:
        return price
    return replace(price, sheet=PriceSheet(spec, multiplier, asked))


def price_of(model: ModelSpec) -> pricing.TokenPrice:
    """Return the price of a model with those of its channels, compiled once."""
    found: pricing.TokenPrice | None = model.derived.get(pricing.TokenPrice)
    if found is None:
        found = token_price(model.price, model.multiplier)
        if any(bound.price is not None or bound.tier for bound in model.bindings):
            own = {
                bound.channel_id: found
                if bound.price is None and not bound.tier
                else token_price(
                    (bound.price or prices.PriceSpec()).over(model.price),
                    model.multiplier,
                    bound.tier,
                )
                for bound in model.bindings
            }
            found = replace(found, channels=own)
        model.derived[pricing.TokenPrice] = found
    return found
