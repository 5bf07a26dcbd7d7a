"""Whether a schema may be enforced strictly on the chat-completions wire.

There a strict schema must list every property of every object as required and allow no others; the
messages protocol enforces schemas with optional properties too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Members of a schema that hold schemas: one, a list of them, or a mapping to them.
_ONE = ("items", "additionalProperties", "not")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")
_DEPTH_MAX = 32


def fits_strict(schema: Any, *, depth: int = 0) -> bool:
    """Whether every object in the schema is closed and has no optional property."""
    if not isinstance(schema, Mapping):
        return schema is not None
    if depth > _DEPTH_MAX:
        return False
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        properties = schema.get("properties") or {}
        required = schema.get("required") or []
        if not (isinstance(properties, Mapping) and isinstance(required, list)):
            return False
        if schema.get("additionalProperties") is not False:
            return False
        if not properties.keys() <= {name for name in required if isinstance(name, str)}:
            return False
    inner: list[Any] = [schema[name] for name in _ONE if name in schema]
    for name in _MANY:
        schemas = schema.get(name) or []
        if not isinstance(schemas, list):
            return False
        inner += schemas
    for name in _NAMED:
        named = schema.get(name) or {}
        if not isinstance(named, Mapping):
            return False
        inner += named.values()
    return all(fits_strict(one, depth=depth + 1) for one in inner)
