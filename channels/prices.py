"""List prices as configured: immutable facts, in USD, before any arithmetic.

`families.py` lists the members, `gw/config` reads and checks them, and `actors/wallet/pricing.py`
computes costs, with `actors/wallet/sheets.py` for more than the four plain prices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Context, Decimal
from typing import Any

from channels.families import EACH_PRICES, TOKEN_PART_PRICES

# More digits than any product of a price and its factors has: nothing is rounded before the end.
EXACT = Context(prec=200)


@dataclass(frozen=True, slots=True)
class PriceStep:
    """Prices per million tokens, by member, of a call with more than `above` tokens of input."""

    above: int
    prices: Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class TierPrice:
    """The prices of a service tier: `factor` times the standard price of tokens, or own `prices`.

    Own prices are per million tokens, by member; other members cost as in the standard tier.
    """

    factor: Decimal | None = None
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    above_tokens: tuple[PriceStep, ...] = ()


@dataclass(frozen=True, slots=True)
class PriceSpec:
    """List prices in USD before the multiplier; None if the file has no price.

    The first four are per million tokens, `per_*` per unit. From `cache_write_1h` on they are for
    chat models: prices of parts of the tokens, per million, and of tools run by the upstream.
    """

    input: Decimal | None = None
    """Of a million tokens of input."""
    output: Decimal | None = None
    """Of a million tokens of output."""
    cached_input: Decimal | None = None
    """Of a million tokens read from a cache."""
    cache_write: Decimal | None = None
    """Of a million tokens written to a cache."""
    per_image: Decimal | None = None
    """Of an image."""
    per_second: Decimal | None = None
    """Of a second of video."""
    per_generation: Decimal | None = None
    """Of a song."""
    per_character: Decimal | None = None
    """Of a character of speech."""
    per_call: Decimal | None = None
    """Of a call."""
    per_image_large: Decimal | None = None
    """Of an image of more than `area_threshold_mp`, or of no stated size."""
    area_threshold_mp: Decimal | None = None
    """Megapixels of the largest image that costs `per_image`."""
    per_reference: Decimal | None = None
    """Of each reference image of a call."""
    per_second_by_resolution: Mapping[str, Decimal] | None = None
    """Of a second of video, by its resolution."""
    cache_write_1h: Decimal | None = None
    """Of a million tokens written to a cache for an hour; else they cost as `cache_write`."""
    audio_input: Decimal | None = None
    """Of a million tokens of sound in the input."""
    cached_audio_input: Decimal | None = None
    """Of a million tokens of sound read from a cache."""
    image_input: Decimal | None = None
    """Of a million tokens of images in the input."""
    cached_image_input: Decimal | None = None
    """Of a million tokens of images read from a cache."""
    audio_output: Decimal | None = None
    """Of a million tokens of sound in the output."""
    image_output: Decimal | None = None
    """Of a million tokens of images in the output."""
    reasoning_output: Decimal | None = None
    """Of a million tokens of thinking."""
    per_web_search: Decimal | Mapping[str, Decimal] | None = None
    """Of a search that the upstream runs: one price, or one by the size of its context."""
    per_file_search: Decimal | None = None
    """Of a search of files."""
    per_code_session: Decimal | None = None
    """Of a session of its code interpreter."""
    per_request: Decimal | None = None
    """Of the request itself."""
    above_tokens: tuple[PriceStep, ...] | None = None
    """Prices of tokens of calls with more than so much input, in rising order."""
    service_tiers: Mapping[str, TierPrice] | None = None
    """Of service tiers: a `factor`, or prices of their own, which may have `above_tokens`."""
    regions: Mapping[str, Decimal] | None = None
    """Factors of all prices of tokens, by the region that the upstream reports to have served."""
    factor: Decimal | None = None
    """A factor of all prices of tokens; of a model's channel alone."""

    @property
    def has_dimensions(self) -> bool:
        """Whether it has more than a price of each of the four kinds of tokens."""
        return any(getattr(self, name) is not None for name in DIMENSIONS)

    def stated(self) -> dict[str, Any]:
        """Return the configured members as JSON values: amounts are plain decimals as strings."""
        return {
            one.name: _stated(value)
            for one in fields(self)
            if (value := getattr(self, one.name)) is not None
        }

    @classmethod
    def of_stated(cls, stated: Mapping[str, Any]) -> PriceSpec:
        """Return the price for the result of `stated`."""
        members: dict[str, Any] = {
            name: {key: Decimal(one) for key, one in value.items()}
            if isinstance(value, Mapping)
            else Decimal(value)
            for name, value in stated.items()
            if name not in ("above_tokens", "service_tiers")
        }
        if "above_tokens" in stated:
            members["above_tokens"] = _steps(stated["above_tokens"])
        if "service_tiers" in stated:
            tiers = stated["service_tiers"]
            members["service_tiers"] = {name: _tier(one) for name, one in tiers.items()}
        return cls(**members)

    def members(self) -> dict[str, Decimal]:
        """Every amount that is stated, by its path such as `service_tiers.flex.input`."""
        return dict(_amounts("", self.stated()))

    def over(self, base: PriceSpec) -> PriceSpec:
        """This price, with what it leaves out taken from another."""
        if base.factor is not None and self.factor is not None:
            factor = EXACT.multiply(base.factor, self.factor)
            return replace(self.over(replace(base, factor=None)), factor=factor)
        mine = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(base, **{name: value for name, value in mine.items() if value is not None})


# The members of a price that a plain call is not billed by.
DIMENSIONS = (
    *TOKEN_PART_PRICES,
    *EACH_PRICES,
    "above_tokens",
    "service_tiers",
    "regions",
    "factor",
)


def _stated(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, PriceStep):
        return {"above": value.above, **_stated(value.prices)}
    if isinstance(value, TierPrice):
        factor = {} if value.factor is None else {"factor": _stated(value.factor)}
        steps = {"above_tokens": _stated(value.above_tokens)} if value.above_tokens else {}
        return {**factor, **_stated(value.prices), **steps}
    if isinstance(value, Mapping):
        return {name: _stated(one) for name, one in value.items()}
    return [_stated(one) for one in value]


def _steps(stated: Sequence[Mapping[str, Any]]) -> tuple[PriceStep, ...]:
    return tuple(PriceStep(one["above"], _prices(one)) for one in stated)


def _tier(stated: Mapping[str, Any]) -> TierPrice:
    factor = Decimal(stated["factor"]) if "factor" in stated else None
    return TierPrice(factor, _prices(stated), _steps(stated.get("above_tokens", ())))


def _prices(stated: Mapping[str, Any]) -> dict[str, Decimal]:
    others = ("above", "factor", "above_tokens")
    return {name: Decimal(value) for name, value in stated.items() if name not in others}


def _amounts(path: str, stated: Any) -> Iterator[tuple[str, Decimal]]:
    if isinstance(stated, str):
        yield path, Decimal(stated)
    elif isinstance(stated, Mapping):
        for name, value in stated.items():
            if name != "above":
                yield from _amounts(f"{path}.{name}" if path else name, value)
    else:
        for step in stated:
            yield from _amounts(f"{path}.{step['above']}", step)
