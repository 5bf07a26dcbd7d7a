"""The members of a body that have the same value in the canonical model, both ways."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cache
from typing import Any, NamedTuple, get_origin

from msgspec import Struct
from msgspec.structs import fields

from channels.dialects.member import Type, alternatives, element_of, said_of, structs_in
from channels.translation.body_members import Members


def names_of(body: type[Struct]) -> dict[str, str]:
    """Return the dotted names of members by those of their canonical fields, if they differ."""
    names: dict[str, str] = {}
    _add_names(body, "", names)
    return names


def _add_names(kind: type[Struct], within: str, names: dict[str, str]) -> None:
    for one in fields(kind):
        said, path = said_of(one.type), within + one.encode_name
        for field in (said.field, *said.spells):
            if field not in ("", path):
                names[field] = path
        for inner in (*structs_in(one.type), *structs_in(element_of(one.type))):
            _add_names(inner, f"{path}.", names)


def logged_of(body: type[Struct]) -> frozenset[str]:
    """Return the names of the members that the call log shows."""
    return frozenset(one.encode_name for one in fields(body) if said_of(one.type).is_logged)


_Reader = Callable[[Members, str], object]
_READERS: Mapping[Type, _Reader] = {
    str: Members.text,
    int: Members.integer,
    float: Members.number,
    bool: Members.boolean,
    list: Members.texts,
}


class _Same(NamedTuple):
    """A canonical field, and the member with the same value."""

    field: str
    name: str
    read: _Reader


@cache
def _same(kind: type[Struct]) -> tuple[_Same, ...]:
    found = []
    for one in fields(kind):
        if field := said_of(one.type).field:
            core, _ = next(alternatives(one.type))
            kept = get_origin(core) or core
            read = _READERS.get(kept, Members.mapping)
            found.append(_Same(field.rpartition(".")[2], one.encode_name, read))
    return tuple(found)


def read_fields(members: Members, kind: type[Struct]) -> dict[str, Any]:
    """Return the canonical fields that members state unchanged; the others have their defaults.

    Raises InvalidRequest.
    """
    stated = members.whole()
    return {field: read(members, name) for field, name, read in _same(kind) if name in stated}


def write_fields(
    value: Struct, kind: type[Struct], body: dict[str, Any], *, without: Container[str] = ()
) -> None:
    """Write the members that state canonical fields unchanged, but for some fields."""
    for field, name, _ in _same(kind):
        if field not in without and (stated := getattr(value, field)) not in (None, ()):
            body[name] = list(stated) if isinstance(stated, tuple) else stated
