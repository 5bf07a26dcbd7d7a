"""Adds models and prices of a price list to a configuration file.

Adds the models that a channel could serve and the file lacks, and a price to each model without
one. What an operator has written is kept; prices too, unless `is_replacing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from channels.families import CHAT_PRICES
from channels.prices import PriceSpec
from channels.registry import ModelSpec
from gw.config.config import Config
from gw.config.faults import FaultReport
from gw.config.load import load_text
from gw.price_list import file_text
from gw.price_list.offers import Offer, offers, price_of, provided_by, rows_of
from gw.price_list.reading import PriceList
from gw.price_list.writing import item, price, remark

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
    file = file_text.FileText(text, source)
    filled = Filled(text)
    edits = _prices(config, file, price_list, filled, is_replacing=is_replacing, only=only)
    wanted = _wanted(config, price_list, filled, only)
    if wanted:
        edits.append(file.append("models", "".join(map(item, wanted))))
    filled.text = file_text.edited(text, edits)
    filled.added = [offer.model for offer in wanted]
    _check(filled, config, environ, source)
    if is_replacing:
        load_text(filled.text, environ, source=source)
    return filled


def _prices(
    config: Config,
    file: file_text.FileText,
    price_list: PriceList,
    filled: Filled,
    *,
    is_replacing: bool,
    only: frozenset[str],
) -> list[file_text.Edit]:
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
            edits.append(
                file.set_price("models", index, file_text.PriceText(price(found), remark(rows)))
            )
        elif is_replacing:
            filled.replaced.append(model.id)
            edits.append(file.set_price("models", index, file_text.PriceText(price(found))))
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
