"""What the channels of a configuration could serve of a price list, a model each.

A channel is of the provider that its `kind` names or, without one, whose address it has. Where
several channels have a model they stand in for each other, and it costs what the dearest of them
costs: whichever serves a call, it is paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from channels.families import CHAT_PROTOCOLS, FAMILIES, TOKEN_PRICES, UNIT_PRICES
from channels.kinds import KINDS
from channels.registry import Binding, ModelSpec, PriceSpec, Registry
from gw.price_list.reading import PriceList, PriceRow

_BY_ADDRESS: Mapping[str, str] = {
    kind.base_url: kind.name for kind in KINDS.values() if kind.base_url
}
CACHED_PRICES = ("cached_input", "cache_write")
# Prices of one of something; the others of a unit are a table and a bound.
_AMOUNTS = tuple(
    name for name in UNIT_PRICES if name not in ("area_threshold_mp", "per_second_by_resolution")
)


@dataclass(frozen=True, slots=True)
class Provided:
    """A channel: its id, whose models it has, and the protocols it speaks."""

    channel: str
    provider: str
    protocols: frozenset[str]


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that some channels could serve; `rows` are theirs, in the same order.

    `price` is None where it is not known.
    """

    model: str
    bindings: tuple[Binding, ...]
    rows: tuple[PriceRow, ...]
    price: PriceSpec | None

    @property
    def endpoint_type(self) -> str | None:
        return self.rows[0].endpoint_type

    @property
    def aliases(self) -> tuple[str, ...]:
        return self.rows[0].aliases

    @property
    def context_size(self) -> int | None:
        """What every channel takes."""
        return min((row.context_size for row in self.rows if row.context_size), default=None)

    @property
    def max_output_tokens(self) -> int | None:
        """What every channel gives."""
        known = (row.max_output_tokens for row in self.rows if row.max_output_tokens)
        return min(known, default=None)

    @property
    def capabilities(self) -> tuple[str, ...]:
        return self.rows[0].capabilities


def provided_by(registry: Registry) -> list[Provided]:
    """The channels whose provider is known, in the order of the file."""
    found = []
    for channel in registry.channels.values():
        provider = channel.kind or _BY_ADDRESS.get(channel.base_url, "")
        if provider:
            found.append(Provided(channel.id, provider, channel.protocols))
    return found


def offers(price_list: PriceList, channels: Sequence[Provided]) -> list[Offer]:
    """What these channels could serve, in the order of the list."""
    by_model: dict[str, list[tuple[Provided, PriceRow]]] = {}
    for row in price_list.rows:
        for channel in channels:
            if channel.provider == row.provider and _speaks(channel, row):
                by_model.setdefault(row.model, []).append((channel, row))
    return [_offer(model, found) for model, found in by_model.items()]


def rows_of(
    model: ModelSpec, price_list: PriceList, channels: Iterable[Provided]
) -> list[PriceRow]:
    """The rows of a configured model: of each of its channels, by its name over there."""
    providers = {one.channel: one.provider for one in channels}
    found = []
    for binding in model.bindings:
        provider = providers.get(binding.channel_id)
        if provider is not None:
            row = price_list.of(provider, binding.upstream_model or model.id)
            if row is not None and row.endpoint_type == model.endpoint_type:
                found.append(row)
    return found


def price_of(rows: Sequence[PriceRow]) -> PriceSpec | None:
    """What the dearest of these rows costs; None where one of them has no price."""
    prices = [row.price for row in rows if row.price is not None]
    if not prices or len(prices) < len(rows) or len({_billed_by(one) for one in prices}) > 1:
        return None
    return dearest(prices)


def dearest(prices: Sequence[PriceSpec]) -> PriceSpec:
    """The highest of each member. Where a cached price is not said the input price holds."""
    found: dict[str, Decimal | None] = {
        name: _most(prices, name) for name in (*TOKEN_PRICES, *_AMOUNTS)
    }
    for name in CACHED_PRICES:
        if found[name] is not None:
            costs = (effective(price, name) for price in prices)
            found[name] = max(cost for cost in costs if cost is not None)
    thresholds = [one.area_threshold_mp for one in prices if one.area_threshold_mp is not None]
    tables = [one.per_second_by_resolution or {} for one in prices]
    names = dict.fromkeys(name for table in tables for name in table)
    by_resolution = {name: max(one[name] for one in tables if name in one) for name in names}
    return PriceSpec(
        **found,
        area_threshold_mp=min(thresholds, default=None),
        per_second_by_resolution=by_resolution or None,
    )


def _speaks(channel: Provided, row: PriceRow) -> bool:
    """Whether the channel has the endpoint that the model is for."""
    if row.endpoint_type is None:
        return any(protocol in channel.protocols for protocol in CHAT_PROTOCOLS)
    family = next(one for one in FAMILIES.values() if one.serves(row.endpoint_type))
    return family.channel_protocol(row.model) in channel.protocols


def _offer(model: str, found: Sequence[tuple[Provided, PriceRow]]) -> Offer:
    """Bind the channels whose price is known, and billed as the first one's is; else all."""
    priced = [one for one in found if one[1].price is not None]
    if priced:
        first = priced[0][1]
        priced = [
            one
            for one in priced
            if one[1].endpoint_type == first.endpoint_type
            and _billed_by(one[1].price) == _billed_by(first.price)
        ]
    bound = priced or found
    rows = tuple(row for _, row in bound)
    bindings = tuple(
        Binding(channel.channel, None if row.upstream == model else row.upstream)
        for channel, row in bound
    )
    return Offer(model, bindings, rows, price_of(rows))


def _billed_by(price: PriceSpec | None) -> frozenset[str]:
    """The units a price is for; none of tokens."""
    return frozenset(name for name in _AMOUNTS if getattr(price, name, None) is not None)


def _most(prices: Sequence[PriceSpec], name: str) -> Decimal | None:
    amounts = [getattr(price, name) for price in prices]
    return max((one for one in amounts if one is not None), default=None)


def effective(price: PriceSpec, name: str) -> Decimal | None:
    """What a member costs; a cached token without a price of its own costs what input does."""
    own: Decimal | None = getattr(price, name)
    return price.input if own is None and name in CACHED_PRICES else own
