"""Adds models and prices of a price list to a configuration file.

Adds the models that a channel could serve and the file lacks, and a price to each model without
one. What an operator has written is kept; prices too, unless `is_replacing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.pricing import ImagePrice, MediaPrice
from actors.wallet.sheets import token_price
from channels.dialects.meter import Usage, UsageParts
from channels.families import CHAT_PRICES
from channels.prices import PriceSpec
from channels.registry import ModelSpec, Registry
from gw.config.config import Config
from gw.config.faults import FaultReport
from gw.config.load import load_text
from gw.price_list.reading import (
    CACHED_PRICES,
    Offer,
    PriceList,
    PriceRow,
    effective,
    offers,
    price_of,
    provided_by,
    rows_of,
)
from gw.price_list.writing import Edit, FileText, PriceText, edited, item, price, remark

UNPRICED = PriceSpec()


@dataclass(slots=True)
class Filled:
    """The new text of a file, and the ids of the models changed in it.

    `unpriced`: a channel could serve them, but the list has no price; they are not added.
    `without_price`: in the file, and still without a full price, a fault of the file.
    """

    text: str
    added: list[str] = field(default_factory=list)
    priced: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unpriced: list[str] = field(default_factory=list)
    without_price: list[str] = field(default_factory=list)


def fill(
    text: str,
    environ: Mapping[str, str],
    price_list: PriceList,
    *,
    source: Path,
    is_replacing: bool = False,
    only: frozenset[str] = frozenset(),
) -> Filled:
    """Add a list to `text`, the content of the file `source`; if `only` is given, these models.

    Raises ConfigFaults for a file with other faults than missing prices or a form that cannot be
    added to; if prices are replaced, also for a result that `gw check-config` would refuse.
    """
    config = load_text(text, environ, source=source, is_priced=False)
    file = FileText(text, source)
    filled = Filled(text)
    edits = _prices(config, file, price_list, filled, is_replacing=is_replacing, only=only)
    wanted = _wanted(config, price_list, filled, only)
    if wanted:
        edits.append(file.append("models", "".join(map(item, wanted))))
    filled.text = edited(text, edits)
    filled.added = [offer.model for offer in wanted]
    _check(filled, config, environ, source)
    if is_replacing:
        load_text(filled.text, environ, source=source)
    return filled


def _prices(
    config: Config,
    file: FileText,
    price_list: PriceList,
    filled: Filled,
    *,
    is_replacing: bool,
    only: frozenset[str],
) -> list[Edit]:
    """Return the edits that set prices of the file's models."""
    channels = provided_by(config.registry)
    edits = []
    for index, model in enumerate(config.registry.models.values()):
        if only and model.id not in only:
            continue
        rows = rows_of(model, price_list, channels)
        found = price_of(rows)
        is_lacking = lacks_price(model)
        if found is None or found == model.price:
            if is_lacking:
                filled.without_price.append(model.id)
        elif is_lacking and model.price == UNPRICED:
            filled.priced.append(model.id)
            edits.append(file.set_price("models", index, PriceText(price(found), remark(rows))))
        elif is_replacing:
            filled.replaced.append(model.id)
            edits.append(file.set_price("models", index, PriceText(price(found))))
        elif is_lacking:
            filled.without_price.append(model.id)
    return edits


def _wanted(
    config: Config, price_list: PriceList, filled: Filled, only: frozenset[str]
) -> list[Offer]:
    """Return the offers with a price that the file lacks."""
    wanted = []
    names = set(config.registry.models)
    names.update(alias for one in config.registry.models.values() for alias in one.aliases)
    for offer in offers(price_list, provided_by(config.registry)):
        if offer.model in names or (only and offer.model not in only):
            continue
        if offer.price is None:
            filled.unpriced.append(offer.model)
        elif names.isdisjoint(offer.aliases):
            wanted.append(offer)
            names.update({offer.model, *offer.aliases})
    return wanted


def lacks_price(model: ModelSpec) -> bool:
    """Whether a served model lacks a price that its calls are billed by."""
    if not model.callable or not model.bindings:
        return False
    if model.endpoint_type is not None:
        return model.price == UNPRICED
    return any(getattr(model.price, name) is None for name in CHAT_PRICES)


def _check(filled: Filled, before: Config, environ: Mapping[str, str], source: Path) -> None:
    """Parse the new text: old models are unchanged, new ones present. Raises ConfigFaults."""
    after = load_text(filled.text, environ, source=source, is_priced=False).registry
    changed = {*filled.priced, *filled.replaced}
    is_kept = after.channels == before.registry.channels and all(
        after.models.get(model.id) == model or model.id in changed
        for model in before.registry.models.values()
    )
    ids = [*before.registry.models, *filled.added]
    if not is_kept or list(after.models) != ids:
        report = FaultReport(str(source))
        report.top().blame(
            found="a form that cannot be added to without changing what is there",
            allowed="models as a list of a line or more for each item",
        )
        report.raise_if_any()


# Where a price list differs from a configuration, in money.
#
# A model's price in the file is compared with the list's price of the dearest of its channels. If
# calls are given, they are priced by both; each price includes the multiplier.


@dataclass(frozen=True, slots=True)
class Change:
    """One member of a model's price: its amount in the file and in the list; None: absent.

    `difference`: the list's amount minus the file's, in USD per million tokens or per unit; None if
    either has no amount.
    """

    member: str
    now: Decimal | None
    listed: Decimal | None
    difference: Decimal | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A model whose price differs in the list, with both complete prices."""

    model: ModelSpec
    listed: PriceSpec
    rows: tuple[PriceRow, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differing`, then ids of models: new in the list; in the list without a price; not in the
    list, although it has their provider."""

    differing: tuple[Difference, ...]
    new: tuple[str, ...]
    unpriced: tuple[str, ...]
    not_listed: tuple[str, ...]


def compare(registry: Registry, price_list: PriceList) -> Comparison:
    """Compare the models of a configuration with a price list."""
    channels = provided_by(registry)
    providers = {one.channel: one.provider for one in channels}
    listed_providers = {row.provider for row in price_list.rows}
    differing, not_listed = [], []
    for model in registry.models.values():
        rows = rows_of(model, price_list, channels)
        bound = {providers.get(one.channel_id) for one in model.bindings}
        if not rows and bound & listed_providers:
            not_listed.append(model.id)
        listed = price_of(rows)
        if listed is not None and (changes := changes_of(model.price, listed)):
            differing.append(Difference(model, listed, tuple(rows), changes))
    names = _names(registry)
    offered = [one for one in offers(price_list, channels) if one.model not in names]
    return Comparison(
        differing=tuple(differing),
        new=tuple(one.model for one in offered if one.price is not None),
        unpriced=tuple(one.model for one in offered if one.price is None),
        not_listed=tuple(not_listed),
    )


def _names(registry: Registry) -> set[str]:
    aliases = (alias for model in registry.models.values() for alias in model.aliases)
    return {*registry.models, *aliases}


def changes_of(now: PriceSpec, listed: PriceSpec) -> tuple[Change, ...]:
    """Return the members that differ; each resolution is a member."""
    mine, theirs = now.members(), listed.members()
    names = dict.fromkeys([*mine, *theirs])
    return tuple(
        Change(name, mine.get(name), theirs.get(name), _more(now, listed, name))
        for name in names
        if mine.get(name) != theirs.get(name)
    )


def _more(now: PriceSpec, listed: PriceSpec, member: str) -> Decimal | None:
    """Return the listed amount minus the configured one; None if either has none."""
    mine, theirs = (
        effective(one, member) if member in CACHED_PRICES else one.members().get(member)
        for one in (now, listed)
    )
    return None if mine is None or theirs is None else theirs - mine


# The cost of recent calls by another price list.
#
# Each call is priced twice by the counts of its row, so that long prompts, tiers and tools are
# included. Rows are read in pages (`usage.sql`).

SQL = load("gw.price_list", "usage.sql")
ROWS_MAX = 5000


@dataclass(frozen=True, slots=True)
class Repriced:
    """The paid calls of one model, and how much more they would have cost by the list."""

    calls: int
    more_nano_usd: int


async def reprice(
    database: Database, differing: Sequence[Difference], *, since: datetime
) -> dict[str, Repriced]:
    """Return the additional cost of the calls since an instant, by ids of the models called."""
    by_id = {one.model.id: one for one in differing}
    names = {"since": since, "models": list(by_id)}
    found: dict[str, Repriced] = {}
    for account, model in await database.fetch_all(SQL["callers"], names):
        one = by_id[model]
        prices = [
            _RowPrice(replace(one.model, price=spec)) for spec in (one.model.price, one.listed)
        ]
        calls, more = 0, 0
        behind: dict[str, Any] = {"since": since, "id": 0}
        while rows := await database.fetch_all(
            SQL["calls"], {"account": account, "model": model, "limit": ROWS_MAX, **behind}
        ):
            for row in rows:
                now, listed = (price.cost_nano_usd(*row[2:]) for price in prices)
                more += listed - now
            calls += len(rows)
            behind = {"since": rows[-1][0], "id": rows[-1][1]}
        if calls:
            before = found.get(model, Repriced(0, 0))
            found[model] = Repriced(before.calls + calls, before.more_nano_usd + more)
    return found


_IMAGES = ("standard", "large", "references")


class _RowPrice:
    """The price of a model, applied to counts of rows."""

    def __init__(self, model: ModelSpec) -> None:
        self._model = model
        self._tokens = token_price(model.price, model.multiplier)
        self._images = ImagePrice.of(model.price, model.multiplier)

    def cost_nano_usd(self, given: int, output: int, cached: int, detail: Any) -> int:
        """Return the cost of one call."""
        detail = detail or {}
        units = detail.get("units")
        if self._model.endpoint_type is None or units is None:
            return self._tokens.cost_nano_usd(usage_of_row(given, output, cached, detail))
        if units.keys() & set(_IMAGES):
            standard, large, references = (units.get(name, 0) for name in _IMAGES)
            return self._images.cost_nano_usd(standard=standard, large=large, references=references)
        resolution = (detail.get("request") or {}).get("resolution")
        quantity = detail.get("milliseconds") or next(iter(units.values()), 0)
        return MediaPrice.of(self._model, resolution=resolution).cost_nano_usd(quantity)


def usage_of_row(given: int, output: int, cached: int, detail: Mapping[str, Any]) -> Usage:
    """The usage that a row was charged for, with what had no price then."""
    reported = detail.get("reported")
    return Usage(
        input_tokens=given,
        output_tokens=output,
        cached_tokens=cached,
        cache_write_tokens=max(0, min(detail.get("cache_write", 0), given - cached)),
        reasoning_tokens=min(detail.get("reasoning", 0), output),
        parts=msgspec.convert(reported, UsageParts) if reported else None,
    )


# Changes of prices so large that the import needs a confirmation.

MOVE_MAX = 10


def leaps(difference: Difference) -> list[Change]:
    """Return the members whose price changes tenfold or more, either way, or to or from 0."""
    found = []
    for change in difference.changes:
        if change.difference is None:
            continue
        listed = change.listed
        if listed is None:  # a cached token costs what an input token does
            listed = effective(difference.listed, change.member) or Decimal(0)
        least, most = sorted((listed - change.difference, listed))
        if most >= least * MOVE_MAX:
            found.append(change)
    return found
