"""What a price list says otherwise than a configuration, in money.

Compared is what a model of the file costs with what the dearest of its channels costs by the list;
and, where calls are known, what they would have cost by either, each price with the multiplier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal

from actors.wallet.pricing import TokenPrice
from channels.registry import ModelSpec, PriceSpec, Registry
from channels.usage import Usage
from gw.price_list.offers import effective, offers, price_of, provided_by, rows_of
from gw.price_list.reading import PriceList, PriceRow


@dataclass(frozen=True, slots=True)
class Change:
    """One member of a model's price: what it is in the file and in the list; None: not there.

    `difference` is how much more it costs by the list, in USD per million tokens or for one; None
    where one of the two has no price for it at all.
    """

    member: str
    now: Decimal | None
    listed: Decimal | None
    difference: Decimal | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A model whose price is another in the list, with both prices whole."""

    model: ModelSpec
    listed: PriceSpec
    rows: tuple[PriceRow, ...]
    changes: tuple[Change, ...]

    def more_nano_usd(self, usage: Usage) -> int:
        """How much more a usage would have cost by the list than by the file."""
        now = TokenPrice.of(self.model.price, self.model.multiplier).cost_nano_usd(usage)
        return TokenPrice.of(self.listed, self.model.multiplier).cost_nano_usd(usage) - now


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differing`, then ids: new in the list, in the list without a price, and not in the list
    although their provider is."""

    differing: tuple[Difference, ...]
    new: tuple[str, ...]
    unpriced: tuple[str, ...]
    not_listed: tuple[str, ...]


def compare(registry: Registry, price_list: PriceList) -> Comparison:
    """Compare the models of a configuration with a list."""
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
    names = set(registry.models)
    names.update(alias for model in registry.models.values() for alias in model.aliases)
    offered = [one for one in offers(price_list, channels) if one.model not in names]
    return Comparison(
        differing=tuple(differing),
        new=tuple(one.model for one in offered if one.price is not None),
        unpriced=tuple(one.model for one in offered if one.price is None),
        not_listed=tuple(not_listed),
    )


def changes_of(now: PriceSpec, listed: PriceSpec) -> tuple[Change, ...]:
    """The members that differ, those by resolution each on its own."""
    mine, theirs = _members(now), _members(listed)
    names = dict.fromkeys([*mine, *theirs])
    return tuple(
        Change(name, mine.get(name), theirs.get(name), _more(now, listed, name))
        for name in names
        if mine.get(name) != theirs.get(name)
    )


def _more(now: PriceSpec, listed: PriceSpec, member: str) -> Decimal | None:
    name, _, key = member.partition(".")
    if key:
        mine = (getattr(now, name) or {}).get(key)
        theirs = (getattr(listed, name) or {}).get(key)
    else:
        mine, theirs = effective(now, name), effective(listed, name)
    return None if mine is None or theirs is None else theirs - mine


def _members(price: PriceSpec) -> Mapping[str, Decimal]:
    found: dict[str, Decimal] = {}
    for one in fields(PriceSpec):
        value = getattr(price, one.name)
        if isinstance(value, Mapping):
            found.update((f"{one.name}.{name}", amount) for name, amount in value.items())
        elif value is not None:
            found[one.name] = value
    return found
