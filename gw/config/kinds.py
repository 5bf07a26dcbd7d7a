"""Reads a channel: what its `kind` fills in stands where the file says nothing.

The kinds are `channels/kinds.py`. A channel whose `auth` is none has no key to be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from channels.credentials import NO_AUTH
from channels.kinds import KINDS, Kind
from gw.config.faults import Location
from gw.config.nodes import Node, Scalar, Table
from gw.config.readers import Reader
from gw.config.structures import Key, Schema, Section, mapping, section


def channel(schema: Schema) -> Reader[Section]:
    """Read a channel by its table of keys."""

    @cache
    def reader(kind: str, is_keyless: bool) -> Reader[Section]:
        return mapping(_filled(schema, KINDS.get(kind), is_keyless=is_keyless))

    def read(node: Node, at: Location) -> Section:
        kind = KINDS.get(_written(node, "kind") or "")
        way = _written(node, "auth") or (kind.auth if kind is not None else None)
        return reader(kind.name if kind is not None else "", way == NO_AUTH)(node, at)

    return read


def _written(node: Node, name: str) -> str | None:
    """The text of a key, if there is one; it is checked where the mapping is read."""
    entry = node.entries.get(name) if isinstance(node, Table) else None
    return entry.value.text if entry is not None and isinstance(entry.value, Scalar) else None


def _filled(schema: Schema, kind: Kind | None, *, is_keyless: bool) -> Schema:
    """Return the table with the defaults of a kind."""
    filled = dict(schema)
    if is_keyless:
        filled["api_key"] = Key(schema["api_key"].read, ())
    if kind is None:
        return filled
    if kind.base_url:
        filled["base_url"] = Key(schema["base_url"].read, kind.base_url)
    for name, default in (
        ("protocols", kind.protocols),
        ("tools", kind.tools),
        ("auth", kind.auth),
        ("max_tokens_param", kind.max_tokens_param),
    ):
        filled[name] = Key(schema[name].read, default)
    for name, defaults in (("paths", kind.paths), ("wire", kind.wire)):
        filled[name] = _filled_section(schema[name], defaults)
    return filled


def _filled_section(key: Key, defaults: Mapping[str, str]) -> Key:
    assert key.inside is not None
    return section(
        {name: Key(one.read, defaults.get(name, one.default)) for name, one in key.inside.items()}
    )
