"""The tree a YAML file is turned into: what was written, where, and what it took from outside.

A scalar keeps its text, so that a price such as 1.10 loses nothing on its way to a Decimal. The
tree is made by `yaml_source.py` and read by `structures.py` and `readers.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gw.config.faults import Mark

# What YAML makes of a scalar. A date is written without quotes and looks like 2023-06-01.
ScalarKind: TypeAlias = Literal["text", "whole", "number", "bool", "null", "date"]

MAX_SHOWN_CHARACTERS = 80

_SECRET_NAME = re.compile(r"KEY|SECRET|TOKEN|PASS|PWD|CREDENTIAL|DSN|DATABASE", re.IGNORECASE)
_USER_INFORMATION = re.compile(r"//[^/@\s]*@")
_QUERY_VALUE = re.compile(r"([?&][^=&\s]*=)[^&\s]*")
_SECRET_TEXT = re.compile(r"\b(sk-|pk-|AIza|Bearer\s+)\S{8,}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. `variables` names what its text took from the environment, `taken` is what these
    gave it: no default of the file."""

    text: str
    kind: ScalarKind
    mark: Mark
    variables: tuple[str, ...] = ()
    taken: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_nothing(self) -> bool:
        """True for null, and for a variable that turned out empty."""
        return self.kind == "null" or (bool(self.variables) and self.text in ("", "null", "~"))


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of a mapping, with the position of its key."""

    value: Node
    mark: Mark


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping with text keys."""

    entries: Mapping[str, Entry]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A node whose fault was reported already: its readers report no other."""

    mark: Mark


Node: TypeAlias = Scalar | Items | Table | Unreadable


def described(node: Node, *, hidden: bool = False) -> str:
    """Say what was found, in short. `hidden` keeps the text of a secret out of the report."""
    if isinstance(node, Table):
        if hidden or not node.entries:
            return "a mapping"
        return f"a mapping with {_enumerated(list(node.entries))}"
    if isinstance(node, Items):
        return f"a list of {len(node.items)}" if node.items else "an empty list"
    if isinstance(node, Unreadable):
        return "something unreadable"
    taken = "".join(f" from ${{{name}}}" for name in node.variables)
    if hidden or any(_SECRET_NAME.search(name) for name in node.variables):
        return f"{_KIND_NAMES[node.kind]}{taken} (not shown)"
    if node.kind == "null":
        return "nothing"
    return f"{_shown(node.text, quoted=node.kind == 'text')}{taken}"


_KIND_NAMES: Mapping[ScalarKind, str] = {
    "text": "text",
    "whole": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "null": "nothing",
    "date": "a date",
}


def quoted(text: str) -> str:
    """Quote a text for a fault: one line, printable, cut when long, credentials redacted."""
    return _shown(text, quoted=True)


def _shown(text: str, *, quoted: bool) -> str:
    text = _USER_INFORMATION.sub("//…@", text)
    text = _QUERY_VALUE.sub(r"\1…", text)
    text = _SECRET_TEXT.sub(r"\1…", text)
    if len(text) > MAX_SHOWN_CHARACTERS:
        text = text[: MAX_SHOWN_CHARACTERS - 1] + "…"
    if quoted:
        text = json.dumps(text, ensure_ascii=False)
    return "".join(
        character if character.isprintable() else f"\\u{ord(character):04x}" for character in text
    )


def _enumerated(names: list[str]) -> str:
    shown = ", ".join(_shown(name, quoted=False) for name in names[:4])
    return f"{shown}, …" if len(names) > 4 else shown
