"""The gemini protocol's schemas as JSON schemas. The way back is `schemas.py`.

The protocol's own schema is a part of OpenAPI's: types in capitals, `nullable`, counts as strings,
formats of how a number is stored. JSON schemas, which it takes under other member names, are
left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.dialects.gemini.parts import camel_keys
from channels.errors import InvalidRequest

# No data model needs a deeper schema than this.
_DEPTH_MAX = 64

_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
# How a value is stored, which JSON schema does not state; an enum shows by its values.
_STORAGE_FORMATS = frozenset(("enum", "int32", "int64", "float", "double"))
# Spelled without the sign in the protocol's definition.
_RENAMED = {"ref": "$ref", "defs": "$defs"}
_WORDS = {"type", "nullable", "format", "example", "propertyOrdering"}


def read_schema(schema: Mapping[str, Any], path: str, *, closes: bool = False) -> dict[str, Any]:
    """The JSON schema. Raises InvalidRequest naming `path` for one that is too deep.

    `closes`: objects have no members but those listed, as the protocol enforces it for responses.
    """
    read: dict[str, Any] = _Reader(path, closes=closes).read(schema, depth=0)
    return read


class _Reader:
    __slots__ = ("_closes", "_path")

    def __init__(self, path: str, *, closes: bool) -> None:
        self._path = path
        self._closes = closes

    def read(self, schema: Any, *, depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        if depth > _DEPTH_MAX:
            raise InvalidRequest(f"{self._path}: the schema is nested too deep.", self._path)
        held = camel_keys(schema)
        read: dict[str, Any] = {}
        kind = _kind(held.get("type"))
        if kind is not None:
            read["type"] = kind
        for name, value in held.items():
            if value is None or name in _WORDS:
                continue
            read[_RENAMED.get(name, name)] = self._member(name, value, depth=depth)
        stated = held.get("format")
        if isinstance(stated, str) and stated not in _STORAGE_FORMATS:
            read["format"] = stated
        if held.get("example") is not None:
            read.setdefault("examples", [held["example"]])
        if held.get("nullable") is True:
            _allow_null(read)
        properties = read.get("properties")
        if isinstance(properties, Mapping):
            read["properties"] = _ordered(properties, held.get("propertyOrdering"))
            if self._closes:
                read.setdefault("additionalProperties", False)
        return read

    def _member(self, name: str, value: Any, *, depth: int) -> Any:
        if name in ("properties", "defs", "$defs") and isinstance(value, Mapping):
            return {one: self.read(held, depth=depth + 1) for one, held in value.items()}
        if name in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            return [self.read(one, depth=depth + 1) for one in value]
        if name in ("items", "additionalProperties", "not"):
            return self.read(value, depth=depth + 1)
        if name in _COUNTS and isinstance(value, str) and value.isdecimal():
            return int(value)
        return value


def _kind(stated: Any) -> Any:
    if isinstance(stated, list):
        return [_kind(one) for one in stated]
    if not isinstance(stated, str):
        return stated
    return None if stated.upper() == "TYPE_UNSPECIFIED" else stated.lower()


def _allow_null(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    elif isinstance(kind, list) and "null" not in kind:
        schema["type"] = [*kind, "null"]
    elif kind is None and isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    values = schema.get("enum")
    if isinstance(values, list) and None not in values:
        schema["enum"] = [*values, None]


def _ordered(properties: Mapping[str, Any], order: Any) -> dict[str, Any]:
    names = [name for name in order if isinstance(name, str)] if isinstance(order, list) else []
    first = {name: properties[name] for name in names if name in properties}
    return {**first, **properties}
