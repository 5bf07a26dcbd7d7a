"""Where a price list differs from a configuration, in money.

A model's price in the file is compared with the list's price of the dearest of its channels. If
calls are given, they are priced by both; each price includes the multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from channels.prices import PriceSpec
from channels.registry import ModelSpec, Registry
from gw.price_list.offers import CACHED_PRICES, effective, offers, price_of, provided_by, rows_of
from gw.price_list.reading import PriceList, PriceRow


@dataclass(frozen=True, slots=True)
class PriceChange:
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
    changes: tuple[PriceChange, ...]


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
        if model.chain:  # its models have prices
            continue
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


def changes_of(now: PriceSpec, listed: PriceSpec) -> tuple[PriceChange, ...]:
    """Return the members that differ; each resolution is a member."""
    mine, theirs = now.members(), listed.members()
    names = dict.fromkeys([*mine, *theirs])
    return tuple(
        PriceChange(name, mine.get(name), theirs.get(name), _more(now, listed, name))
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


MOVE_MAX = 10


def leaps(difference: Difference) -> list[PriceChange]:
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
