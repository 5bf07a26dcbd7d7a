"""The tree of a YAML file: texts, positions, and values taken from the environment.

A scalar keeps its text, so that a price such as 1.10 becomes an exact Decimal. `yaml_source.py`
makes the tree; `readers.py`, `mappings.py` and others read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gw.config.faults import Mark

# The kinds of YAML's scalars. A date has no quotes and a form like 2023-06-01.
ScalarKind: TypeAlias = Literal["text", "whole", "number", "bool", "null", "date"]

MAX_SHOWN_CHARACTERS = 80

_SECRET_NAME = re.compile(r"KEY|SECRET|TOKEN|PASS|PWD|CREDENTIAL|DSN|DATABASE", re.IGNORECASE)
_USER_INFORMATION = re.compile(r"//[^/@\s]*@")
_QUERY_VALUE = re.compile(r"([?&][^=&\s]*=)[^&\s]*")
_SECRET_TEXT = re.compile(r"\b(sk-|pk-|AIza|Bearer\s+)\S{8,}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value.

    `variables` are the environment variables in its text, `taken` their values, without defaults of
    the file.
    """

    text: str
    kind: ScalarKind
    mark: Mark
    variables: tuple[str, ...] = ()
    taken: tuple[str, ...] = field(default=(), repr=False)

    @property
    def is_nothing(self) -> bool:
        """Whether it is null, or a variable with an empty value."""
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
    """A node whose fault is already reported; its readers report no further one."""

    mark: Mark


Node: TypeAlias = Scalar | Items | Table | Unreadable


def described(node: Node, *, hidden: bool = False) -> str:
    """Describe a node in short. `hidden` keeps the text of a secret out of the report."""
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
    """Quote a text for a fault: one line, printable, truncated, credentials redacted."""
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
