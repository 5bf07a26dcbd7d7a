"""Parses a price list: rows of provider, model and price, each with its source and that one's date.

`bundled.yaml` is the default; another file of the same form may replace it. A list is checked as
strictly as a configuration: every fault is reported with its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from channels.families import CHAT_PRICES, ENDPOINT_TYPES
from channels.kinds import KINDS
from channels.prices import PriceSpec
from channels.registry import CAPABILITIES
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
