"""Readers of mappings and lists: they apply a table of keys and report each refused part.

A refused part is omitted and reading continues, so that one run reports every fault. Values keep
their locations, for checks of more than one value (`relations.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gw.config import nodes
from gw.config.faults import Location
from gw.config.readers import InvalidValue, Reader, choice
from gw.config.suggestions import closest

T = TypeVar("T")


class Required:
    """A marker in place of a default: the key is required."""


REQUIRED = Required()


@dataclass(frozen=True, slots=True)
class Key:
    """The reader of a key, and the default of an absent one (`keys.py` declares them)."""

    read: Reader[Any]
    default: Any
    inside: Schema | None = None  # the keys of its mapping
    record: type | None = None  # what becomes of its mapping
    name: str = ""  # in the file; empty: that of the record's field
    is_live: bool = False  # a reload puts it in force


Schema = Mapping[str, Key]


@dataclass(frozen=True, slots=True)
class LocatedValue(Generic[T]):
    """A value and its location."""

    value: T
    at: Location


@dataclass(frozen=True, slots=True)
class Section:
    """The values read from a mapping; `values` lacks the keys whose value was refused."""

    values: Mapping[str, Any]
    at: Location
    locations: Mapping[str, Location]  # of the keys that are written

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a key, or `default` if it was refused."""
        return self.values.get(name, default)

    def location(self, name: str) -> Location:
        """Return the location of a key or, if it is absent, its location in the mapping."""
        return self.locations.get(name) or self.at.key(name)


def attempt(read: Reader[T], node: nodes.Node, at: Location) -> list[T]:
    """Return a value in a list; report a refused one and return an empty list."""
    if isinstance(node, nodes.Unreadable):
        return []
    try:
        return [read(node, at)]
    except InvalidValue as refused:
        at.blame(found=refused.found, allowed=refused.allowed, hint=refused.hint)
        return []


def section(schema: Schema) -> Key:
    """A key with a mapping, which may be absent."""
    return Key(mapping(schema), None, inside=schema)


def mapping(schema: Schema) -> Reader[Section]:
    """Read a mapping by its table of keys; a null value is an empty mapping."""
    allowed = f"a mapping of {', '.join(schema)}"

    def read(node: nodes.Node, at: Location) -> Section:
        if isinstance(node, nodes.Scalar) and node.is_nothing:
            node = nodes.Table({}, node.mark)
        if not isinstance(node, nodes.Table):
            raise InvalidValue(found=nodes.described(node), allowed=allowed)
        meant = _blame_unknown_keys(node, schema, at)
        locations = {name: at.key(name, entry.mark) for name, entry in node.entries.items()}
        values: dict[str, Any] = {}
        for name, key in schema.items():
            entry = node.entries.get(name)
            if entry is not None:
                found = attempt(key.read, entry.value, locations[name])
                values.update((name, value) for value in found)
            elif key.inside is not None:
                values[name] = key.read(nodes.Table({}, node.mark), at.key(name))
            elif key.default is not REQUIRED:
                values[name] = key.default
            elif name not in meant:
                at.key(name).blame(found="nothing", allowed="a value: this key is required")
        return Section(values, at, locations)

    return read


def by_name(read: Reader[T], what: str, *, most: int = 100) -> Reader[dict[str, T]]:
    """Read a mapping of the operator's own names to values of one kind."""
    allowed = f"a mapping of names to values, {what}, 1 to {most} of them"

    def read_names(node: nodes.Node, at: Location) -> dict[str, T]:
        if not isinstance(node, nodes.Table) or not 0 < len(node.entries) <= most:
            raise InvalidValue(found=nodes.described(node), allowed=allowed)
        return {
            name: value
            for name, entry in node.entries.items()
            for value in attempt(read, entry.value, at.key(name, entry.mark))
        }

    return read_names


def listing(read: Reader[T], allowed: str) -> Reader[tuple[T, ...]]:
    """Read a list of values; a null value is an empty list."""

    def read_list(node: nodes.Node, at: Location) -> tuple[T, ...]:
        if isinstance(node, nodes.Scalar) and node.is_nothing:
            return ()
        if not isinstance(node, nodes.Items):
            hint = "write it as a list, in [ ] or one per line after a dash"
            raise InvalidValue(found=nodes.described(node), allowed=allowed, hint=hint)
        return tuple(
            value
            for index, item in enumerate(node.items)
            for value in attempt(read, item, at.item(index, item.mark))
        )

    return read_list


def at_most(most: int, read_list: Reader[tuple[T, ...]]) -> Reader[tuple[T, ...]]:
    """Read a list of at most so many values."""

    def read(node: nodes.Node, at: Location) -> tuple[T, ...]:
        values = read_list(node, at)
        if len(values) > most:
            raise InvalidValue(found=f"{len(values)} of them", allowed=f"at most {most}")
        return values

    return read


def distinct(read: Reader[str], allowed: str, *, least: int = 0) -> Reader[tuple[str, ...]]:
    """Read a list of distinct values, at least `least`."""
    read_list = listing(placed(read), allowed)

    def read_distinct(node: nodes.Node, at: Location) -> tuple[str, ...]:
        values = read_list(node, at)
        is_empty = isinstance(node, nodes.Scalar) or (
            isinstance(node, nodes.Items) and not node.items
        )
        if is_empty and least:
            raise InvalidValue(
                found=nodes.described(node), allowed=f"{allowed}, with at least {least}"
            )
        seen: dict[str, Location] = {}
        for item in values:
            if item.value in seen:
                item.at.blame(found=f"{nodes.quoted(item.value)} again", allowed="each value once")
            seen.setdefault(item.value, item.at)
        return tuple(seen)

    return read_distinct


def choices(options: Sequence[str], *, least: int = 0) -> Reader[tuple[str, ...]]:
    """Read a list of distinct values out of `options`."""
    return distinct(choice(options), f"a list of {', '.join(options)}", least=least)


def names(options: Sequence[str]) -> Reader[frozenset[str]]:
    """Like `choices`, without an order."""
    read_choices = choices(options)
    return lambda node, at: frozenset(read_choices(node, at))


def placed(read: Reader[T]) -> Reader[LocatedValue[T]]:
    """Return a reader that keeps the value's location."""
    return lambda node, at: LocatedValue(read(node, at), at)


def _blame_unknown_keys(node: nodes.Table, schema: Schema, at: Location) -> set[str]:
    """Report keys that the schema lacks; return the keys that were probably meant."""
    meant = set()
    for name, entry in node.entries.items():
        if name not in schema:
            guess = closest(name, schema)
            at.key(name, entry.mark).blame(
                found=f"the unknown key {nodes.quoted(name)}",
                allowed=f"the keys {', '.join(schema)}",
                hint=_key_hint(name, guess, schema),
            )
            meant.add(guess or "")
    return meant


def _key_hint(name: str, guess: str | None, schema: Schema) -> str:
    for parent, key in schema.items():
        if key.inside is not None and name in key.inside:
            return f"{name} belongs under {parent}"
    return f"did you mean {guess}?" if guess else ""
