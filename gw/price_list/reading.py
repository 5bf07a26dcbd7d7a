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
from gw.config import mappings, nodes, readers
from gw.config.faults import FaultReport, Location
from gw.config.load import read_text
from gw.config.models import endpoint_type, tokens
from gw.config.prices import PRICE
from gw.config.relations import check_price_units
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
    if isinstance(root, nodes.Unreadable):
        report.raise_if_any()
    tops = mappings.attempt(mappings.mapping(_LIST), root, report.top())
    for top in tops:
        _check(top)
    report.raise_if_any()
    values = tops[0].values
    sources = {key: PriceSource(**one.values) for key, one in values["sources"].items()}
    rows = tuple(_row(one.values, sources) for one in values["models"])
    return PriceList(str(source), values["dated"], rows)


def _date() -> readers.Reader[date]:
    allowed = "a date such as 2026-11-22"

    def read_date(node: nodes.Node, at: Location) -> date:
        written = readers.written_text(node, allowed)
        with suppress(ValueError):  # no such day
            if _DATE.fullmatch(written):
                return date.fromisoformat(written)
        raise readers.InvalidValue(found=nodes.described(node), allowed=allowed)

    return read_date


_SOURCE: mappings.Schema = {
    "url": mappings.Key(readers.text("an address"), mappings.REQUIRED),
    "dated": mappings.Key(readers.optional(_date()), mappings.REQUIRED),
}
_ROW: mappings.Schema = {
    "provider": mappings.Key(readers.choice(tuple(KINDS)), mappings.REQUIRED),
    "id": mappings.Key(readers.name_reader("a model id"), mappings.REQUIRED),
    "as": mappings.Key(
        readers.optional(readers.name_reader("the provider's name of the model")), None
    ),
    "source": mappings.Key(readers.text("the name of a source"), mappings.REQUIRED),
    "price": mappings.section(PRICE),
    "context_size": mappings.Key(tokens(), None),
    "max_output_tokens": mappings.Key(tokens(), None),
    "endpoint_type": mappings.Key(endpoint_type(), None),
    "capabilities": mappings.Key(mappings.choices(CAPABILITIES), ()),
    "aliases": mappings.Key(
        mappings.distinct(readers.name_reader("an alias"), "a list of model ids"), ()
    ),
    "note": mappings.Key(readers.text(may_be_empty=True), ""),
}
_LIST: mappings.Schema = {
    "dated": mappings.Key(_date(), mappings.REQUIRED),
    "sources": mappings.Key(
        mappings.by_name(mappings.mapping(_SOURCE), "a url and the date of each"), mappings.REQUIRED
    ),
    "models": mappings.Key(
        mappings.listing(mappings.mapping(_ROW), "a list of rows"), mappings.REQUIRED
    ),
}


def _check(top: mappings.Section) -> None:
    """Report rows with an unknown source, duplicates, and prices that bill no call."""
    sources: Mapping[str, Any] | None = top.get("sources")
    first: dict[tuple[str, str], Location] = {}
    for row in top.get("models") or ():
        key = row.get("source")
        if sources is not None and key is not None and key not in sources:
            row.location("source").blame(
                found=f"the source {nodes.quoted(key)}", allowed=f"one of {', '.join(sources)}"
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


def _check_price(row: mappings.Section) -> None:
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


def _is_priced(price: mappings.Section) -> bool:
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
