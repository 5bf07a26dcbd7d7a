"""Whether a schema may be enforced strictly in chat-completions.

There a strict schema must list every property of every object as required, allow no others, and
have no keyword or format beyond a subset; the messages protocol also enforces schemas with optional
properties, formats of addresses, and alternatives of any kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from channels.translation.schemas import is_object

# Members of a schema that have schemas: one, a list of them, or a mapping to them.
_ONE = ("items", "additionalProperties")
_MANY = ("anyOf",)
_NAMED = ("properties", "$defs", "definitions")
# Members that are a 400 in a strict schema.
_REFUSED = frozenset(
    (
        "allOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "default",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "unevaluatedProperties",
        "unevaluatedItems",
        "prefixItems",
        "contains",
        "uniqueItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
    )
)
_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)
_DEPTH_MAX = 32


def fits_strict(schema: object, *, depth: int = 0) -> bool:
    """Whether every object in the schema is closed, without optional properties, in the subset."""
    if not isinstance(schema, Mapping):
        return schema is not None
    if depth > _DEPTH_MAX or not _REFUSED.isdisjoint(schema):
        return False
    form = schema.get("format")
    if form is not None and not (isinstance(form, str) and form in _FORMATS):
        return False
    if is_object(schema) and not _is_closed(schema):
        return False
    inner = _inner_schemas(schema)
    return inner is not None and all(fits_strict(one, depth=depth + 1) for one in inner)


def _is_closed(schema: Mapping[str, object]) -> bool:
    """Whether an object's schema requires every property and allows no others."""
    properties = schema.get("properties") or {}
    required = schema.get("required") or []
    return (
        isinstance(properties, Mapping)
        and isinstance(required, list)
        and schema.get("additionalProperties") is False
        and properties.keys() <= {name for name in required if isinstance(name, str)}
    )


def _inner_schemas(schema: Mapping[str, object]) -> list[object] | None:
    """Return the schemas within a schema; None if a member for several has another type."""
    inner: list[object] = [schema[name] for name in _ONE if name in schema]
    for name in _MANY:
        schemas = schema.get(name) or []
        if not isinstance(schemas, list):
            return None
        inner += schemas
    for name in _NAMED:
        named = schema.get(name) or {}
        if not isinstance(named, Mapping):
            return None
        inner += named.values()
    return inner
