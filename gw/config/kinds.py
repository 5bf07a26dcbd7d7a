"""Reads a channel: what its `kind` fills in stands where the file says nothing.

The kinds are `channels/kinds.py`. A channel whose `auth` is none, or proves by other credentials
who asks, has no key to be forgotten. Where a kind's address or paths depend on region and project,
those are put in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from channels.authorizers.specs import AWS_SIGV4
from channels.credentials import NO_AUTH
from channels.kinds import KINDS, PROJECT, REGION, Kind
from gw.config.credentials import CREDENTIALS, check_credentials_of
from gw.config.faults import Location
from gw.config.nodes import Node, Scalar, Table, described
from gw.config.readers import InvalidValue, Reader
from gw.config.structures import Key, Schema, Section, mapping, section
from gw.config.upstream import PROVED

KEY_AUTH = "bearer"  # of a kind that is proved otherwise, where a channel of it has a key


def channel(schema: Schema) -> Reader[Section]:
    """Read a channel by its table of keys."""

    @cache
    def reader(kind: str, way: str) -> Reader[Section]:
        return mapping(_filled(schema, KINDS.get(kind), way))

    def read(node: Node, at: Location) -> Section:
        kind = KINDS.get(_written(node, "kind") or "")
        way = _written(node, "auth") or _usual_way(node, kind)
        # The others are read alike.
        known = way if way in (NO_AUTH, KEY_AUTH, *PROVED) else ""
        found = reader(kind.name if kind is not None else "", known)(node, at)
        if way in PROVED:
            check_credentials_of(found, way)
        return _placed(found, kind)

    return read


def no_credentials() -> Reader[Section]:
    """Read what only some ways of `auth` take: nothing."""
    allowed = f"credentials with auth: {' or '.join(PROVED)}"

    def read(node: Node, at: Location) -> Section:
        if isinstance(node, Scalar) and node.is_nothing:
            return Section({}, at, {})
        raise InvalidValue(found=described(node, hidden=True), allowed=allowed)

    return read


def _usual_way(node: Node, kind: Kind | None) -> str:
    if kind is None or kind.auth is None:
        return ""
    has_key = isinstance(node, Table) and "api_key" in node.entries
    return KEY_AUTH if kind.auth in PROVED and has_key else kind.auth


def _written(node: Node, name: str) -> str | None:
    """The text of a key, if there is one; it is checked where the mapping is read."""
    entry = node.entries.get(name) if isinstance(node, Table) else None
    return entry.value.text if entry is not None and isinstance(entry.value, Scalar) else None


def _filled(schema: Schema, kind: Kind | None, way: str) -> Schema:
    """Return the table with the defaults of a kind and of a way of `auth`."""
    filled = dict(schema)
    if way == NO_AUTH or way in PROVED:
        filled["api_key"] = Key(schema["api_key"].read, ())
    if way in PROVED:
        filled["credentials"] = section(CREDENTIALS[way])
    if kind is None:
        return filled
    if kind.base_url:
        filled["base_url"] = Key(schema["base_url"].read, kind.base_url)
    for name, default in (
        ("protocols", kind.protocols),
        ("tools", kind.tools),
        ("auth", way if kind.auth in PROVED else kind.auth),
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


def _placed(found: Section, kind: Kind | None) -> Section:
    """The channel with region and project in its kind's address and paths, which may need them."""
    values = dict(found.values)
    region, project = values.get("region"), values.get("project")
    base_url, paths = values.get("base_url"), values.get("paths")
    if kind is not None and base_url == kind.base_url:
        base_url = kind.regional.get(region or "", base_url)
    templates = [base_url or ""]
    if paths is not None:
        spoken = values.get("protocols") or ()
        templates += [path for name, path in paths.values.items() if path and name in spoken]
    for name, value, mark in (("region", region, REGION), ("project", project, PROJECT)):
        is_needed = any(mark in one for one in templates)
        if name == "region" and values.get("auth") == AWS_SIGV4:
            is_needed = True
        if is_needed and value is None and name in values:
            who = f"kind {kind.name}" if kind is not None else f"auth: {AWS_SIGV4}"
            found.location(name).blame(found="nothing", allowed=f"a {name}: {who} needs one")
    marks = {REGION: region or "", PROJECT: project or ""}
    if base_url is not None:
        values["base_url"] = _with(base_url, marks)
    if paths is not None:
        own = {name: path and _with(path, marks) for name, path in paths.values.items()}
        values["paths"] = replace(paths, values=own)
    if kind is not None and "protocols" not in found.locations:
        values["by_model"] = tuple((text, frozenset({name})) for text, name in kind.by_model)
    return replace(found, values=values)


def _with(template: str, marks: Mapping[str, str]) -> str:
    for mark, value in marks.items():
        template = template.replace(mark, value)
    return template
