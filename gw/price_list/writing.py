"""Writes models as the configuration has them: items of a YAML list, and prices.

A source and its date follow each price as a comment, for whoever reads the file later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any

from channels.registry import Binding, PriceSpec
from gw.price_list.offers import Offer
from gw.price_list.reading import PriceRow

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*", re.ASCII)
# What YAML 1.1 takes for something else than text.
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def item(offer: Offer) -> str:
    """One model as an item of a list, its dash at the margin. Its price is known."""
    assert offer.price is not None
    lines = [f"id: {scalar(offer.model)}", f"channels: {bindings(offer.bindings)}"]
    for name in ("context_size", "max_output_tokens", "endpoint_type"):
        value = getattr(offer, name)
        if value is not None:
            lines.append(f"{name}: {value}")
    for name in ("capabilities", "aliases"):
        values: Sequence[str] = getattr(offer, name)
        if values:
            lines.append(f"{name}: [{', '.join(map(scalar, values))}]")
    lines.append(f"price: {price(offer.price)}{remark(offer.rows)}")
    return list_item(lines)


def unpriced(offer: Offer) -> str:
    """A model whose price is not known, as comments of a list: it waits for somebody to add one."""
    lines = [f"id: {scalar(offer.model)}", f"channels: {bindings(offer.bindings)}"]
    text = list_item([*lines, 'price: {input: "…", output: "…"}'])
    if offer.endpoint_type is not None:
        text = list_item([*lines, f"endpoint_type: {offer.endpoint_type}", 'price: {…: "…"}'])
    return "".join(f"# {line}\n" for line in text.splitlines())


def list_item(lines: Sequence[str]) -> str:
    """Lay lines out as one item of a block list."""
    return "".join(f"{'  ' if index else '- '}{line}\n" for index, line in enumerate(lines))


def bindings(bound: Sequence[Binding]) -> str:
    """The channels of a model, as a list in brackets."""
    texts = []
    for one in bound:
        named = one.upstream_model
        short = scalar(one.channel_id)
        texts.append(short if named is None else f"{{id: {short}, as: {scalar(named)}}}")
    return f"[{', '.join(texts)}]"


def price(spec: PriceSpec) -> str:
    """A price, as a mapping in braces."""
    return mapping({one.name: getattr(spec, one.name) for one in fields(PriceSpec)})


def mapping(members: Mapping[str, Any]) -> str:
    """What is there of these amounts, as a mapping in braces."""
    texts = []
    for name, value in members.items():
        if isinstance(value, Mapping):
            texts.append(f"{scalar(name)}: {mapping(value)}")
        elif value is not None:
            texts.append(f"{scalar(name)}: {amount(value)}")
    return f"{{{', '.join(texts)}}}"


def amount(value: Decimal) -> str:
    """A plain decimal without needless zeros, as text: YAML would make a float of it."""
    written = f"{value:f}"
    if "." in written:
        written = written.rstrip("0").rstrip(".")
    return f'"{written}"'


def remark(rows: Sequence[PriceRow]) -> str:
    """The comment after a price: when, where, and what it does not say; each once."""
    found = dict.fromkeys(str(row.source) for row in rows)
    notes = dict.fromkeys(row.note for row in rows if row.note)
    text = "; ".join([*found, *notes])
    return f"  # {text}" if text else ""


def scalar(text: str) -> str:
    """A text as YAML and the configuration's own substitution take it for itself."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)
