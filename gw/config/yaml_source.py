"""Parses YAML text into a tree of nodes, and reports every syntactic fault with its position.

PyYAML parses; no objects are constructed from tags, and no value is interpreted. Duplicate keys,
tags, unset variables and the like are reported, and parsing continues; a syntax error ends it.
Anchors and `<<` merges work; members that are written out override merged ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from gw.config import nodes, substitution
from gw.config.faults import FaultReport, Location, Mark

YAML_TAG = "tag:yaml.org,2002:"
_MERGE = f"{YAML_TAG}merge"
_KINDS: Mapping[str, nodes.ScalarKind] = {
    f"{YAML_TAG}str": "text",
    f"{YAML_TAG}int": "whole",
    f"{YAML_TAG}float": "number",
    f"{YAML_TAG}bool": "bool",
    f"{YAML_TAG}null": "null",
    f"{YAML_TAG}timestamp": "date",
    # A single `=` or `<<` as a value is a text.
    f"{YAML_TAG}value": "text",
    _MERGE: "text",
}
_QUOTE_HINT = "put quotes around a value that has any of : # [ ] { } * & ! % @ ` in it"


def compose(text: str) -> yaml.Node | None:
    """Return the root node of a document, None if it is empty. Raises YAMLError."""
    root: yaml.Node | None = yaml.compose(substitution.shielded(text), Loader=yaml.SafeLoader)
    return root


def mark_of(node: yaml.Node) -> Mark:
    """Return where a node begins."""
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


def parse(text: str, environ: Mapping[str, str], report: FaultReport) -> nodes.Node:
    """Parse one YAML document; an empty one is a null scalar.

    Faults are added to `report`; each unusable node becomes Unreadable in the tree.
    """
    nowhere = nodes.Unreadable(Mark(1, 1))
    try:
        root = compose(text)
        if root is None:
            return nodes.Scalar("", "null", Mark(1, 1))
        return _Tree(environ).node(root, report.top())
    except yaml.reader.ReaderError as error:
        _blame_character(text, error, report)
    except yaml.MarkedYAMLError as error:
        _blame_syntax(text, error, report)
    except RecursionError:
        report.top().blame(found="lists and mappings nested too deep", allowed="a few levels")
    except (ValueError, OverflowError) as error:
        # Escapes and directives with impossible numbers, which PyYAML does not catch.
        report.top().blame(found=f"YAML that cannot be read: {error}", allowed="valid YAML")
    return nowhere


class _Tree:
    """Converts PyYAML's nodes; an anchor used twice is converted once."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._done: dict[int, nodes.Node] = {}
        self._open: set[int] = set()

    def node(self, node: yaml.Node, at: Location) -> nodes.Node:
        if id(node) in self._done:
            return self._done[id(node)]
        at = Location(at.report, at.path, at.mark or mark_of(node))
        if id(node) in self._open:
            at.blame(found="an alias to what it is part of", allowed="an alias to something else")
            return nodes.Unreadable(mark_of(node))
        self._open.add(id(node))
        made = self._made(node, at)
        self._open.remove(id(node))
        self._done[id(node)] = made
        return made

    def _made(self, node: yaml.Node, at: Location) -> nodes.Node:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, at)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{YAML_TAG}seq":
            items = tuple(
                self.node(item, at.item(index, mark_of(item)))
                for index, item in enumerate(node.value)
            )
            return nodes.Items(items, mark_of(node))
        if isinstance(node, yaml.MappingNode) and node.tag == f"{YAML_TAG}map":
            return nodes.Table(self._entries(node, at), mark_of(node))
        return _blame_tag(node, at)

    def _scalar(self, node: yaml.ScalarNode, at: Location) -> nodes.Node:
        kind = _KINDS.get(node.tag)
        if kind is None:
            return _blame_tag(node, at)
        try:
            written = _joined_surrogates(substitution.unshielded(node.value))
            text, variables, taken = substitution.substitute(written, self._environ)
        except substitution.SubstitutionFault as fault:
            at.blame(found=fault.found, allowed=fault.allowed, hint=fault.hint)
            return nodes.Unreadable(mark_of(node))
        except UnicodeError:
            at.blame(found="half of a surrogate pair", allowed="text of whole characters")
            return nodes.Unreadable(mark_of(node))
        return nodes.Scalar(text, kind, mark_of(node), variables, taken)

    def _entries(self, node: yaml.MappingNode, at: Location) -> dict[str, nodes.Entry]:
        written: dict[str, nodes.Entry] = {}
        merged: dict[str, nodes.Entry] = {}
        for key, value in node.value:
            mark = mark_of(key)
            name = substitution.unshielded(key.value) if isinstance(key, yaml.ScalarNode) else None
            if key.tag == _MERGE:
                for table in self._merged_tables(value, at.key("<<", mark)):
                    merged = {**table.entries, **merged}
            elif name is None or not _is_whole_text(name):
                at.key("?", mark).blame(found="a key that is no text", allowed="text as key")
            elif name in written:
                at.key(name, mark).blame(
                    found=f"the key {nodes.quoted(name)} again,"
                    f" first in line {written[name].mark.line}",
                    allowed="each key once",
                )
            else:
                written[name] = nodes.Entry(self.node(value, at.key(name, mark)), mark)
        return {**merged, **written}

    def _merged_tables(self, value: yaml.Node, at: Location) -> Iterator[nodes.Table]:
        node = self.node(value, at)
        for item in node.items if isinstance(node, nodes.Items) else (node,):
            if isinstance(item, nodes.Table):
                yield item
            elif not isinstance(item, nodes.Unreadable):
                at.blame(
                    found=nodes.described(item), allowed="a mapping to merge, or a list of them"
                )


def _is_whole_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _joined_surrogates(text: str) -> str:
    """Join surrogate pairs (\\ud83d\\ude00), as JSON escapes one character. Raises UnicodeError."""
    if _is_whole_text(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _blame_tag(node: yaml.Node, at: Location) -> nodes.Unreadable:
    at.blame(found=f"the tag {nodes.quoted(node.tag)}", allowed="plain values without a tag")
    return nodes.Unreadable(mark_of(node))


def _blame_syntax(text: str, error: yaml.MarkedYAMLError, report: FaultReport) -> None:
    mark = error.problem_mark or error.context_mark
    problem = substitution.unshielded(
        ", ".join(part for part in (error.context, error.problem) if part)
    )
    hint = _QUOTE_HINT
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        hint = "indent and separate with spaces, not tabs"
    where = Mark(mark.line + 1, mark.column + 1) if mark is not None else None
    Location(report, "", where).blame(found=problem, allowed="valid YAML", hint=hint)


def _blame_character(text: str, error: yaml.reader.ReaderError, report: FaultReport) -> None:
    before = text[: error.position]
    where = Mark(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    Location(report, "", where).blame(
        found=f"the character U+{ord(text[error.position]):04X}",
        allowed="printable text and spaces",
    )
