"""Reads a channel: its `kind` fills in values absent from the file.

The kinds are in `channels/kinds.py`. A channel with `auth: none` or other credentials needs no
key. If a kind's address or paths contain region and project, these are inserted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from channels import kinds
from channels.authorizers.specs import AWS_SIGV4
from channels.credentials import NO_AUTH
from gw.config import mappings, nodes
from gw.config.credentials import CREDENTIALS, check_credentials_of
from gw.config.faults import Location
from gw.config.readers import InvalidValue, Reader
from gw.config.upstream import PROVED

KEY_AUTH = "bearer"  # of a kind with other credentials, if the channel has a key


def channel(schema: mappings.Schema) -> Reader[mappings.Section]:
    """Read a channel by its table of keys."""

    @cache
    def reader(kind: str, way: str) -> Reader[mappings.Section]:
        return mappings.mapping(_filled(schema, kinds.KINDS.get(kind), way))

    def read(node: nodes.Node, at: Location) -> mappings.Section:
        kind = kinds.KINDS.get(_written(node, "kind") or "")
        way = _written(node, "auth") or _usual_way(node, kind)
        # Other methods are read alike.
        known = way if way in (NO_AUTH, KEY_AUTH, *PROVED) else ""
        found = reader(kind.name if kind is not None else "", known)(node, at)
        if way in PROVED:
            check_credentials_of(found, way)
        return _placed(found, kind)

    return read


def no_credentials() -> Reader[mappings.Section]:
    """Read the credentials of methods that take none."""
    allowed = f"credentials with auth: {' or '.join(PROVED)}"

    def read(node: nodes.Node, at: Location) -> mappings.Section:
        if isinstance(node, nodes.Scalar) and node.is_nothing:
            return mappings.Section({}, at, {})
        raise InvalidValue(found=nodes.described(node, hidden=True), allowed=allowed)

    return read


def _usual_way(node: nodes.Node, kind: kinds.Kind | None) -> str:
    if kind is None or kind.auth is None:
        return ""
    has_key = isinstance(node, nodes.Table) and "api_key" in node.entries
    return KEY_AUTH if kind.auth in PROVED and has_key else kind.auth


def _written(node: nodes.Node, name: str) -> str | None:
    """Return the text of a key, or None; the mapping's reader validates it."""
    entry = node.entries.get(name) if isinstance(node, nodes.Table) else None
    return entry.value.text if entry is not None and isinstance(entry.value, nodes.Scalar) else None


def _filled(schema: mappings.Schema, kind: kinds.Kind | None, way: str) -> mappings.Schema:
    """Return the table with the defaults of a kind and of a way of `auth`."""
    filled = dict(schema)
    if way == NO_AUTH or way in PROVED:
        filled["api_key"] = mappings.Key(schema["api_key"].read, ())
    if way in PROVED:
        filled["credentials"] = mappings.section(CREDENTIALS[way])
    if kind is None:
        return filled
    if kind.base_url:
        filled["base_url"] = mappings.Key(schema["base_url"].read, kind.base_url)
    for name, default in (
        ("protocols", kind.protocols),
        ("tools", kind.tools),
        ("auth", way if kind.auth in PROVED else kind.auth),
        ("max_tokens_param", kind.max_tokens_param),
        ("system_turns", kind.system_turns),
        ("prompt_cache_key", kind.prompt_cache_key),
        ("drop_billing_header", kind.drop_billing_header),
    ):
        filled[name] = mappings.Key(schema[name].read, default)
    for name, defaults in (("paths", kind.paths), ("wire", kind.wire)):
        filled[name] = _filled_section(schema[name], defaults)
    return filled


def _filled_section(key: mappings.Key, defaults: Mapping[str, str]) -> mappings.Key:
    assert key.inside is not None
    return mappings.section(
        {
            name: mappings.Key(one.read, defaults.get(name, one.default))
            for name, one in key.inside.items()
        }
    )


def _placed(found: mappings.Section, kind: kinds.Kind | None) -> mappings.Section:
    """Return the channel with region and project inserted into its kind's address and paths."""
    values = dict(found.values)
    marks = {kinds.REGION: values.get("region") or "", kinds.PROJECT: values.get("project") or ""}
    base_url = values.get("base_url")
    if kind is not None and base_url == kind.base_url:
        base_url = kind.regional.get(marks[kinds.REGION], base_url)
    who = f"auth: {AWS_SIGV4}" if kind is None else f"kind {kind.name}"
    for name in _missing(values, base_url or ""):
        found.location(name).blame(found="nothing", allowed=f"a {name}: {who} needs one")
    if base_url is not None:
        values["base_url"] = _with(base_url, marks)
    if (paths := values.get("paths")) is not None:
        own = {name: path and _with(path, marks) for name, path in paths.values.items()}
        values["paths"] = replace(paths, values=own)
    if kind is not None and "protocols" not in found.locations:
        values["by_model"] = tuple((text, frozenset({name})) for text, name in kind.by_model)
    return replace(found, values=values)


def _missing(values: Mapping[str, Any], base_url: str) -> list[str]:
    """Return the missing ones of region and project, for address, paths or signature."""
    templates = [base_url]
    if (paths := values.get("paths")) is not None:
        spoken = values.get("protocols") or ()
        templates += [path for name, path in paths.values.items() if path and name in spoken]
    text = " ".join(templates)
    is_signed = values.get("auth") == AWS_SIGV4
    needed = {"region": is_signed or kinds.REGION in text, "project": kinds.PROJECT in text}
    return [name for name in needed if needed[name] and values.get(name, "") is None]


def _with(template: str, marks: Mapping[str, str]) -> str:
    for mark, value in marks.items():
        template = template.replace(mark, value)
    return template
