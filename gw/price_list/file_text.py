"""Edits of a configuration file as text, so that all comments and blanks are kept.

PyYAML only gives positions. What cannot be edited so is refused with its position, and the caller
parses the result before it replaces the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import yaml

from gw.config.faults import FaultReport, Location
from gw.config.yaml_source import compose, mark_of

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
            root = compose(text)
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
        Location(self._report, "", None if node is None else mark_of(node)).blame(
            found=f"{found}, which nothing can be added to as text", allowed=allowed
        )
        self._report.raise_if_any()
        raise AssertionError("a fault was reported")


def _is_empty(value: yaml.Node) -> bool:
    if isinstance(value, yaml.ScalarNode):
        return value.value in ("", "null", "~")
    return isinstance(value, yaml.SequenceNode) and not value.value
