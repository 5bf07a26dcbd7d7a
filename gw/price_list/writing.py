"""Encodes models and prices as YAML of a configuration.

A source and its date follow each price as a comment, for later readers of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from channels.prices import PriceSpec
from channels.registry import Binding
from gw.price_list.offers import Offer
from gw.price_list.reading import PriceRow

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*", re.ASCII)
# Plain scalars that YAML 1.1 does not read as text.
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def item(offer: Offer) -> str:
    """Encode one model, whose price is known, as an item of a list without indentation."""
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
    """Encode a model without a known price as comments, to be completed by hand."""
    lines = [f"id: {scalar(offer.model)}", f"channels: {bindings(offer.bindings)}"]
    text = list_item([*lines, 'price: {input: "…", output: "…"}'])
    if offer.endpoint_type is not None:
        text = list_item([*lines, f"endpoint_type: {offer.endpoint_type}", 'price: {…: "…"}'])
    return "".join(f"# {line}\n" for line in text.splitlines())


def list_item(lines: Sequence[str]) -> str:
    """Format lines as one item of a block list."""
    return "".join(f"{'  ' if index else '- '}{line}\n" for index, line in enumerate(lines))


def bindings(bound: Sequence[Binding]) -> str:
    """Encode the channels of a model as a list in brackets."""
    texts = []
    for one in bound:
        named = one.upstream_model
        short = scalar(one.channel_id)
        texts.append(short if named is None else f"{{id: {short}, as: {scalar(named)}}}")
    return f"[{', '.join(texts)}]"


def price(spec: PriceSpec) -> str:
    """Encode a price as a mapping in braces."""
    return mapping(spec.stated())


def mapping(members: Mapping[str, Any]) -> str:
    """Encode the members that are not None as a mapping in braces."""
    texts = [
        f"{scalar(name)}: {_value(value)}" for name, value in members.items() if value is not None
    ]
    return f"{{{', '.join(texts)}}}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return mapping(value)
    if isinstance(value, list):
        return f"[{', '.join(map(mapping, value))}]"
    return str(value) if isinstance(value, int) else amount(Decimal(value))


def amount(value: Decimal) -> str:
    """Encode a decimal without trailing zeros, quoted because YAML would make it a float."""
    written = f"{value:f}"
    if "." in written:
        written = written.rstrip("0").rstrip(".")
    return f'"{written}"'


def remark(rows: Sequence[PriceRow]) -> str:
    """Return the comment after a price: sources with dates, then notes, each once."""
    found = dict.fromkeys(str(row.source) for row in rows)
    notes = dict.fromkeys(row.note for row in rows if row.note)
    text = "; ".join([*found, *notes])
    return f"  # {text}" if text else ""


def scalar(text: str) -> str:
    """Encode a text so that neither YAML nor the substitution of variables changes it."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text.replace("${", "$${"), ensure_ascii=False)
