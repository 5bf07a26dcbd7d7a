"""Encodes models and prices as YAML of a configuration, and edits configuration files as text.

A source and its date follow each price as a comment, for later readers of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from textwrap import indent
from typing import Any, NoReturn

import yaml

from channels.kinds import KINDS, Kind
from channels.prices import PriceSpec
from channels.registry import Binding
from gw.config.faults import FaultReport, Location, Mark
from gw.config.substitution import shielded
from gw.price_list.reading import Offer, PriceList, PriceRow, Provided, offers

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


# Edits of a configuration file as text, so that all comments and blanks are kept.
#
# PyYAML only gives positions. What cannot be edited so is refused with its position, and the caller
# parses the result before it replaces the file.

# The indentation of items in a list that was empty.
INDENT = 2


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` replaces what is between `start` and `end`, both indexes into the whole text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class PriceText:
    """A price in braces, and a comment for the end of its line."""

    price: str
    remark: str = ""


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Apply edits, which do not overlap."""
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


class FileText:
    """The text of one file and the positions of its nodes. Raises ConfigFaults."""

    def __init__(self, text: str, source: Path) -> None:
        self.text = text
        self._report = FaultReport(str(source))
        self._newline = "\r\n" if "\r\n" in text else "\n"
        try:
            root = yaml.compose(shielded(text), Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:  # the caller has parsed it by the same parser
            self._refuse(None, str(error), "valid YAML")
        if root is not None and not isinstance(root, yaml.MappingNode):
            self._refuse(root, "no mapping", "a mapping of keys")
        self._root: yaml.MappingNode | None = root

    def append(self, key: str, items: str) -> Edit:
        """Return the edit that adds items, given without indentation, to the end of a list."""
        found = self._value(self._root, key)
        if found is None:
            return self._new_list(key, items)
        name, value = found
        if _is_empty(value):
            # An empty value is removed, and the list follows on the lines below.
            end = self._line_end(value.end_mark.index)
            rest = self.text[value.end_mark.index : end]
            lead = self.text[name.end_mark.index : value.start_mark.index].rstrip(" ")
            body = self._indented(items, name.start_mark.column + INDENT)
            text = f"{lead}{rest.rstrip()}{self._newline}{body}"
            return Edit(name.end_mark.index, self._after(end), text)
        if not isinstance(value, yaml.SequenceNode) or value.flow_style:
            self._refuse(value, f"{key} in brackets", "a list of a line or more for each item")
        self._expect_own(name, value)
        index, column = self._end_of(value), value.start_mark.column
        position = self._behind_comments(self._after(self._line_end(index)), column)
        start = self._newline if position and self.text[position - 1] not in "\r\n" else ""
        return Edit(position, position, start + self._indented(items, column))

    def set_price(self, key: str, index: int, price: PriceText) -> Edit:
        """Return the edit that sets the price of the item at `index` of the list `key`."""
        found = self._value(self._root, key)
        assert found is not None
        assert isinstance(found[1], yaml.SequenceNode)
        model = found[1].value[index]
        self._expect_own(found[0], model)
        own = self._value(model, "price")
        if own is None:
            return self._new_price(model, price)
        name, value = own
        self._expect_own(name, value)
        if isinstance(value, yaml.ScalarNode) and not value.value:
            end = name.end_mark.index + 1  # after the colon
            return Edit(end, end, f" {price.price}")
        return Edit(value.start_mark.index, self._end_of(value), price.price)

    def _new_list(self, key: str, items: str) -> Edit:
        """Return the edit that adds the list at the end of the file."""
        if self._root is not None and self._root.flow_style:
            self._refuse(self._root, "a file in braces", "a line for each key")
        tail = self.text.rstrip()
        if self._root is not None and tail.endswith("\n..."):
            self._refuse(self._root, "an end of the document (...)", "a file without one")
        start = "" if not self.text or self.text.endswith("\n") else self._newline
        column = self._root.start_mark.column if self._root is not None and self._root.value else 0
        text = f"{' ' * column}{key}:{self._newline}{self._indented(items, column + INDENT)}"
        return Edit(len(self.text), len(self.text), f"{start}{text}")

    def _new_price(self, model: yaml.MappingNode, price: PriceText) -> Edit:
        if model.flow_style:
            end = model.end_mark.index - 1
            comma = "" if self.text[:end].rstrip()[-1:] in ",{" else ", "
            return Edit(end, end, f"{comma}price: {price.price}")
        end = self._line_end(self._end_of(model))
        indent = " " * model.start_mark.column
        text = f"{self._newline}{indent}price: {price.price}{price.remark}"
        return Edit(end, end, text)

    def _value(self, node: yaml.Node | None, key: str) -> tuple[yaml.ScalarNode, yaml.Node] | None:
        if not isinstance(node, yaml.MappingNode):
            return None
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value == key:
                return name, value
        return None

    def _expect_own(self, name: yaml.Node, value: yaml.Node) -> None:
        """Refuse a node that is shared with another place of the file by an anchor."""
        is_elsewhere = value.start_mark.index < name.end_mark.index
        if is_elsewhere or self.text[value.start_mark.index] in "&*!":
            self._refuse(name, "an anchor or an alias", "what is written out, to be added to")

    def _end_of(self, node: yaml.Node) -> int:
        """Return the index after the last character of a node's content; PyYAML's own end of a
        block is the start of the next one, after comments and empty lines."""
        if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            last = node.value[-1]
            if not isinstance(last, tuple):
                return self._end_of(last)
            name, value = last
            is_written = value.start_mark.index >= name.end_mark.index and (
                not isinstance(value, yaml.ScalarNode) or value.value
            )
            return self._end_of(value) if is_written else name.end_mark.index + 1
        start, end = node.start_mark.index, node.end_mark.index
        return start + len(self.text[start:end].rstrip())

    def _line_end(self, index: int) -> int:
        found = self.text.find(self._newline, index)
        return len(self.text) if found < 0 else found

    def _after(self, line_end: int) -> int:
        return min(line_end + len(self._newline), len(self.text))

    def _behind_comments(self, position: int, column: int) -> int:
        """Return the position after comments that are indented deeper than `column`."""
        while position < len(self.text):
            line = self.text[position : self._line_end(position)]
            stripped = line.lstrip(" ")
            if not stripped.startswith("#") or len(line) - len(stripped) <= column:
                break
            position = self._after(self._line_end(position))
        return position

    def _indented(self, items: str, column: int) -> str:
        return "".join(f"{' ' * column}{line}{self._newline}" for line in items.splitlines())

    def _refuse(self, node: yaml.Node | None, found: str, allowed: str) -> NoReturn:
        mark = None
        if node is not None:
            mark = Mark(node.start_mark.line + 1, node.start_mark.column + 1)
        Location(self._report, "", mark).blame(
            found=f"{found}, which nothing can be added to as text", allowed=allowed
        )
        self._report.raise_if_any()
        raise AssertionError("a fault was reported")


def _is_empty(value: yaml.Node) -> bool:
    if isinstance(value, yaml.ScalarNode):
        return value.value in ("", "null", "~")
    return isinstance(value, yaml.SequenceNode) and not value.value


# A first configuration: a channel for each provider with a key, and the models it serves.
#
# It contains no keys: they are read from the environment at each load.

HEAD = """\
# Written by `gw`; every key of a configuration is in ops/examples/gw.yaml.
# ${NAME} is taken from the environment when the gateway starts or reloads (SIGHUP).

listen: 127.0.0.1:8080        # where clients come
admin_listen: 127.0.0.1:${GW_ADMIN_PORT:-9090}  # metrics and probes, never to be public
data_dir: ${GW_DATA_DIR:-./var}  # the embedded PostgreSQL and what else is kept
database_url: ${GW_DATABASE_URL:-}  # postgresql://…; empty: embedded
redis_url: ${GW_REDIS_URL:-}  # where several hosts share limits
secret: ${GW_SECRET:-}        # encrypts stored keys; empty: made once under data_dir
drain_seconds: 185            # for calls in flight when it stops; a call takes 180 at most

"""

_MODELS = """
# What clients ask for. Two channels of a model stand in for each other. A chat model needs both
# prices, in USD per million tokens; those below are of the price list of {dated}, each with where
# it was read: compare them with the provider's page. `gw models import` adds what a newer list has.
models:
"""
_NO_MODELS = """
# What clients ask for. A chat model needs both prices, in USD per million tokens: they are on the
# provider's page of prices. Two channels of a model stand in for each other.
models: []
#  - id: {example}
#    channels: [{channel}]                   # or [{{id: {channel}, as: its-name-over-there}}]
#    price: {{input: "…", output: "…"}}
"""
_UNPRICED = """\
  # Models whose price is not known here: write it and take the # away.
"""
# Of kinds that resell others' models: tried when the others are full or failing.
_RESELLER_PRIORITY = 2


def kinds_found(environ: Mapping[str, str]) -> list[Kind]:
    """Return the kinds whose variables are all set in the environment, in the order of the table.

    A kind without a key is never found: the operator must name it.
    """
    return [
        kind
        for kind in KINDS.values()
        if (kind.variables or kind.ambient) and not missing(kind, environ)
    ]


def missing(kind: Kind, environ: Mapping[str, str]) -> list[str]:
    """Return the variables of a kind that are not set; of alternatives, the first."""
    needed = [(*kind.variables, *kind.ambient)]
    needed += [(name,) for name in (kind.url_variable, *dict(kind.settings).values()) if name]
    return [names[0] for names in needed if names and not any(environ.get(name) for name in names)]


def starter(kinds: Sequence[Kind], environ: Mapping[str, str], price_list: PriceList) -> str:
    """Return the configuration file of these kinds, at least one."""
    channels = "".join(_channel(kind, environ) for kind in kinds)
    return HEAD + "\nchannels:\n" + channels + _models(kinds, price_list)


def _models(kinds: Sequence[Kind], price_list: PriceList) -> str:
    """Return the models of the list that channels of these kinds could serve, as YAML."""
    channels = [Provided(kind.name, kind.name, frozenset(kind.protocols)) for kind in kinds]
    found = offers(price_list, channels)
    priced = [offer for offer in found if offer.price is not None]
    if not priced:
        return _NO_MODELS.format(example="name-of-a-model", channel=kinds[0].name)
    text = _MODELS.format(dated=price_list.dated) + indent("".join(map(item, priced)), "  ")
    waiting = [offer for offer in found if offer.price is None]
    if waiting:
        text += _UNPRICED + indent("".join(map(unpriced, waiting)), "  ")
    return text


def _channel(kind: Kind, environ: Mapping[str, str]) -> str:
    """Return a channel as YAML, with a comment on what its kind implies."""
    lines = [f"  - id: {kind.name}", f"    kind: {kind.name}"]
    if kind.url_variable:
        lines.append(f"    base_url: ${{{kind.url_variable}}}")
    lines += [f"    {name}: ${{{variable}}}" for name, variable in kind.settings]
    names = [name for name in kind.variables if environ.get(name)]
    if kind.variables and (names or not kind.ambient):
        lines.append(f"    api_key: ${{{(names or kind.variables)[0]}}}")
    if kind.is_reseller:
        lines.append(f"    priority: {_RESELLER_PRIORITY}  # others of a model are tried first")
    lines.append(f"    # speaks {', '.join(kind.protocols)}; {kind.source}")
    if kind.quirks:
        lines.append(f"    # {kind.quirks}")
    return "\n".join([*lines, ""])
