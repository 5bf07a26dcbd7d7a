"""Parses a price list: rows of provider, model and price, each with its source and that one's date.

`bundled.yaml` is the default; another file of the same form may replace it. A list is checked as
strictly as a configuration: every fault is reported with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from channels.families import (
    CHAT_PRICES,
    CHAT_PROTOCOLS,
    ENDPOINT_TYPES,
    FAMILIES,
    MODEL_TYPES,
    TOKEN_PRICES,
    UNIT_PRICES,
)
from channels.kinds import KINDS
from channels.prices import DIMENSIONS, PriceSpec
from channels.registry import CAPABILITIES, Binding, ChannelSpec, ModelSpec, Registry
from gw.config.faults import FaultReport, Location
from gw.config.load import read_text
from gw.config.mappings import (
    REQUIRED,
    Key,
    Schema,
    Section,
    attempt,
    by_name,
    choices,
    distinct,
    listing,
    mapping,
    section,
)
from gw.config.nodes import Node, Unreadable, described, quoted
from gw.config.prices import PRICE
from gw.config.readers import (
    InvalidValue,
    Reader,
    choice,
    name_reader,
    optional,
    text,
    whole,
    written_text,
)
from gw.config.relations import check_price_units
from gw.config.schema import MAX_TOKENS, TYPE_NAMES
from gw.config.yaml_source import parse

BUNDLED = "bundled.yaml"
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class PriceSource:
    """Where a price was read; `dated` is None if that page has no date."""

    url: str
    dated: date | None

    def __str__(self) -> str:
        return f"{self.url}, {self.dated or 'undated'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """One model at one provider. `price` is None if unknown, and never zero for that reason."""

    provider: str  # one of KINDS
    model: str  # its name in the gateway, the same for each of its providers
    upstream: str  # the provider's name
    price: PriceSpec | None
    source: PriceSource
    context_size: int | None
    max_output_tokens: int | None
    endpoint_type: str | None  # None: a chat model
    capabilities: tuple[str, ...]
    aliases: tuple[str, ...]
    note: str  # what the price omits


@dataclass(frozen=True, slots=True)
class PriceList:
    """The rows of a list in order, each pair of provider and upstream name once.

    `unmapped`: entries of a list in another form that no row can express, as text.
    """

    file: str
    dated: date
    rows: tuple[PriceRow, ...]
    unmapped: tuple[str, ...] = ()

    def of(self, provider: str, upstream: str) -> PriceRow | None:
        """Return the row of a model by its upstream name or, failing that, by an alias."""
        rows = [row for row in self.rows if row.provider == provider]
        named = (row for row in rows if row.upstream == upstream)
        return next(named, None) or next((row for row in rows if upstream in row.aliases), None)


@cache
def bundled() -> PriceList:
    """Parse the bundled list."""
    return read(Path(str(files("gw.price_list") / BUNDLED)))


def read(path: Path) -> PriceList:
    """Parse the list at `path`. Raises ConfigFaults, with all its faults."""
    return read_list(read_text(path), source=path)


def read_list(content: str, *, source: Path) -> PriceList:
    """Parse the text of a list. Raises ConfigFaults, with all its faults."""
    report = FaultReport(str(source))
    root = parse(content, {}, report)
    if isinstance(root, Unreadable):
        report.raise_if_any()
    tops = attempt(mapping(_LIST), root, report.top())
    for top in tops:
        _check(top)
    report.raise_if_any()
    values = tops[0].values
    sources = {key: PriceSource(**one.values) for key, one in values["sources"].items()}
    rows = tuple(_row(one.values, sources) for one in values["models"])
    return PriceList(str(source), values["dated"], rows)


def _date() -> Reader[date]:
    allowed = "a date such as 2026-11-22"

    def read_date(node: Node, at: Location) -> date:
        written = written_text(node, allowed)
        with suppress(ValueError):  # no such day
            if _DATE.fullmatch(written):
                return date.fromisoformat(written)
        raise InvalidValue(found=described(node), allowed=allowed)

    return read_date


_SOURCE: Schema = {
    "url": Key(text("an address"), REQUIRED),
    "dated": Key(optional(_date()), REQUIRED),
}
_ROW: Schema = {
    "provider": Key(choice(tuple(KINDS)), REQUIRED),
    "id": Key(name_reader("a model id"), REQUIRED),
    "as": Key(optional(name_reader("the provider's name of the model")), None),
    "source": Key(text("the name of a source"), REQUIRED),
    "price": section(PRICE),
    "context_size": Key(optional(whole(1, MAX_TOKENS)), None),
    "max_output_tokens": Key(optional(whole(1, MAX_TOKENS)), None),
    "endpoint_type": Key(optional(choice(TYPE_NAMES, "null for a chat model, or")), None),
    "capabilities": Key(choices(CAPABILITIES), ()),
    "aliases": Key(distinct(name_reader("an alias"), "a list of model ids"), ()),
    "note": Key(text(may_be_empty=True), ""),
}
_LIST: Schema = {
    "dated": Key(_date(), REQUIRED),
    "sources": Key(by_name(mapping(_SOURCE), "a url and the date of each"), REQUIRED),
    "models": Key(listing(mapping(_ROW), "a list of rows"), REQUIRED),
}


def _check(top: Section) -> None:
    """Report rows with an unknown source, duplicates, and prices that bill no call."""
    sources: Mapping[str, Any] | None = top.get("sources")
    first: dict[tuple[str, str], Location] = {}
    for row in top.get("models") or ():
        key = row.get("source")
        if sources is not None and key is not None and key not in sources:
            row.location("source").blame(
                found=f"the source {quoted(key)}", allowed=f"one of {', '.join(sources)}"
            )
        _check_price(row)
        provider, upstream = row.get("provider"), row.get("as") or row.get("id")
        if provider is None or upstream is None:
            continue
        if (provider, upstream) in first:
            row.at.blame(
                found=f"{upstream} of {provider}, as in {first[provider, upstream].path}",
                allowed="each model of a provider once",
            )
        first.setdefault((provider, upstream), row.at)


def _check_price(row: Section) -> None:
    price = row.get("price")
    if price is None or "endpoint_type" not in row.values or not _is_priced(price):
        return
    endpoint_type = row.values["endpoint_type"]
    billed = CHAT_PRICES if endpoint_type is None else ENDPOINT_TYPES[endpoint_type].prices
    lacking = [key for key in billed if key in price.values and price.values[key] is None]
    if lacking and (endpoint_type is None or len(lacking) == len(billed)):
        price.at.blame(
            found=f"no {' and no '.join(lacking)}",
            allowed="all that the model is billed by, or no price at all",
        )
    check_price_units(price, endpoint_type)


def _is_priced(price: Section) -> bool:
    return any(price.get(key) is not None for key in price.locations)


def _row(values: Mapping[str, Any], sources: Mapping[str, PriceSource]) -> PriceRow:
    price = values["price"]
    return PriceRow(
        provider=values["provider"],
        model=values["id"],
        upstream=values["as"] or values["id"],
        price=PriceSpec(**price.values) if _is_priced(price) else None,
        source=sources[values["source"]],
        context_size=values["context_size"],
        max_output_tokens=values["max_output_tokens"],
        endpoint_type=values["endpoint_type"],
        capabilities=tuple(values["capabilities"]),
        aliases=tuple(values["aliases"]),
        note=values["note"],
    )


# The models of a price list that the channels of a configuration could serve.
#
# A channel's provider is its `kind` or, without one, the kind with the same address. Several
# channels of a model stand in for each other, and it costs what the dearest of them costs, so that
# each call covers its cost.

_BY_ADDRESS: Mapping[str, str] = {
    kind.base_url: kind.name for kind in KINDS.values() if kind.base_url
}
CACHED_PRICES = ("cached_input", "cache_write")
# Prices per unit; the other members of a price per unit are a table and a bound.
_AMOUNTS = tuple(
    name for name in UNIT_PRICES if name not in ("area_threshold_mp", "per_second_by_resolution")
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
    found |= {name: _most(prices, name) for name in (*TOKEN_PRICES, *_AMOUNTS)}
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
        return any(protocol in channel.protocols for protocol in CHAT_PROTOCOLS)
    family = next(
        one for one in FAMILIES.values() if row.endpoint_type in MODEL_TYPES[one.protocol]
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
