"""The models of a price list that the channels of a configuration could serve.

A channel's provider is its `kind` or, without one, the kind with the same address. Several
channels of a model stand in for each other, and it costs what the dearest of them costs, so that
each call covers its cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from channels import families
from channels.kinds import KINDS
from channels.prices import DIMENSIONS, PriceSpec
from channels.registry import Binding, ChannelSpec, ModelSpec, Registry
from gw.price_list.reading import PriceList, PriceRow, bundled

_BY_ADDRESS: Mapping[str, str] = {
    kind.base_url: kind.name for kind in KINDS.values() if kind.base_url
}
CACHED_PRICES = ("cached_input", "cache_write")
# Prices per unit; the other members of a price per unit are a table and a bound.
_AMOUNTS = tuple(
    name
    for name in families.UNIT_PRICES
    if name not in ("area_threshold_mp", "per_second_by_resolution")
)


@dataclass(frozen=True, slots=True)
class Provided:
    """A channel: its id, the provider of its models, and its protocols."""

    channel: str
    provider: str
    protocols: frozenset[str]


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that some channels could serve; `rows` are in the order of `bindings`.

    `price` is None if unknown.
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
        """The smallest known limit of its channels, in tokens."""
        return min((row.context_size for row in self.rows if row.context_size), default=None)

    @property
    def max_output_tokens(self) -> int | None:
        """The smallest known limit of its channels, in tokens."""
        known = (row.max_output_tokens for row in self.rows if row.max_output_tokens)
        return min(known, default=None)

    @property
    def capabilities(self) -> tuple[str, ...]:
        return self.rows[0].capabilities


def provider_of(channel: ChannelSpec) -> str:
    """Return the kind whose models a channel has; empty if unknown."""
    return channel.kind or _BY_ADDRESS.get(channel.base_url, "")


def provided_by(registry: Registry) -> list[Provided]:
    """Return the channels with a known provider, in the order of the file."""
    found = []
    for channel in registry.channels.values():
        provider = provider_of(channel)
        if provider:
            found.append(Provided(channel.id, provider, channel.protocols))
    return found


def offers(price_list: PriceList, channels: Sequence[Provided]) -> list[Offer]:
    """Return the models that these channels could serve, in the order of the list."""
    by_model: dict[str, list[tuple[Provided, PriceRow]]] = {}
    for row in price_list.rows:
        for channel in channels:
            if channel.provider == row.provider and _speaks(channel, row):
                by_model.setdefault(row.model, []).append((channel, row))
    return [_offer(model, found) for model, found in by_model.items()]


def rows_of(
    model: ModelSpec, price_list: PriceList, channels: Iterable[Provided]
) -> list[PriceRow]:
    """Return the rows of a configured model, one per channel, by its upstream names."""
    providers = {one.channel: one.provider for one in channels}
    found = []
    for binding in model.bindings:
        provider = providers.get(binding.channel_id)
        if provider is not None:
            row = price_list.of(provider, binding.upstream_model or model.id)
            if row is not None and row.endpoint_type == model.endpoint_type:
                found.append(row)
    return found


def cost_of(model: ModelSpec, channel: ChannelSpec, upstream_model: str) -> PriceSpec | None:
    """Return the price that a channel's provider charges, of the bundled list; None if unknown."""
    row = bundled().of(provider_of(channel), upstream_model)
    return None if row is None or row.endpoint_type != model.endpoint_type else row.price


def price_of(rows: Sequence[PriceRow]) -> PriceSpec | None:
    """Return the highest price of rows; None if a row has none, or they differ in unit."""
    prices = [row.price for row in rows if row.price is not None]
    if not prices or len(prices) < len(rows) or len({_billed_by(one) for one in prices}) > 1:
        return None
    return dearest(prices)


def dearest(prices: Sequence[PriceSpec]) -> PriceSpec:
    """Return the maximum of each member; a missing cached price counts as the input price."""
    if all(one == prices[0] for one in prices):
        return prices[0]
    found: dict[str, Any] = {name: _first(prices, name) for name in DIMENSIONS}
    found |= {name: _most(prices, name) for name in (*families.TOKEN_PRICES, *_AMOUNTS)}
    for name in CACHED_PRICES:
        if found[name] is not None:
            costs = (effective(price, name) for price in prices)
            found[name] = max(cost for cost in costs if cost is not None)
    thresholds = [one.area_threshold_mp for one in prices if one.area_threshold_mp is not None]
    return PriceSpec(
        **found,
        area_threshold_mp=min(thresholds, default=None),
        per_second_by_resolution=_dearest_by_resolution(prices) or None,
    )


def _dearest_by_resolution(prices: Sequence[PriceSpec]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for one in prices:
        for name, amount in (one.per_second_by_resolution or {}).items():
            found[name] = max(amount, found.get(name, amount))
    return found


def _speaks(channel: Provided, row: PriceRow) -> bool:
    """Whether the channel has the endpoint of the model."""
    if row.endpoint_type is None:
        return any(protocol in channel.protocols for protocol in families.CHAT_PROTOCOLS)
    family = next(
        one
        for one in families.FAMILIES.values()
        if row.endpoint_type in families.MODEL_TYPES[one.protocol]
    )
    return family.channel_protocol(row.model) in channel.protocols


def _offer(model: str, found: Sequence[tuple[Provided, PriceRow]]) -> Offer:
    """Bind the channels with a known price of the first one's unit or, if none is known, all."""
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
    """Return the units of a price; empty for a price of tokens."""
    return frozenset(name for name in _AMOUNTS if getattr(price, name, None) is not None)


def _most(prices: Sequence[PriceSpec], name: str) -> Decimal | None:
    amounts = [getattr(price, name) for price in prices]
    return max((one for one in amounts if one is not None), default=None)


def _first(prices: Sequence[PriceSpec], name: str) -> Any:
    """Return the first stated value, of a member that is no single amount."""
    stated = (getattr(price, name) for price in prices)
    return next((value for value in stated if value is not None), None)


def effective(price: PriceSpec, name: str) -> Decimal | None:
    """Return the price of a member; cached tokens without one cost what input tokens do."""
    own: Decimal | None = getattr(price, name)
    return price.input if own is None and name in CACHED_PRICES else own
