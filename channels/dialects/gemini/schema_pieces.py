"""Pieces of reading a JSON schema for the gemini protocol; `encode_schema.py` uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_Drop = Callable[[str], None]
_Schema = Mapping[str, Any]

# Any value, as near as the protocol comes to it.
ANYTHING: _Schema = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}

_NESTING_MAX = 16
# References that lead to references.
_CHAIN_MAX = 64
# What one request may have written out more than once, for references and for several types: so
# many members of schemas. The tools of the largest catalogs have some thousands.
COPIED_MEMBERS_MAX = 20_000
# Members that say what a value is, and do not merely narrow it.
_DESCRIBING = frozenset(
    ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties", "items")
)
# Members that say something of values of these types only.
_OF_TYPES = {
    "minLength": ("string",),
    "maxLength": ("string",),
    "pattern": ("string",),
    "minimum": ("integer", "number"),
    "maximum": ("integer", "number"),
    "exclusiveMinimum": ("integer", "number"),
    "exclusiveMaximum": ("integer", "number"),
    "items": ("array",),
    "minItems": ("array",),
    "maxItems": ("array",),
    "properties": ("object",),
    "required": ("object",),
    "minProperties": ("object",),
    "maxProperties": ("object",),
    "additionalProperties": ("object",),
}


class CopyRoom:
    """How many members of schemas a request may still have written out once more."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = COPIED_MEMBERS_MAX

    def __repr__(self) -> str:
        return f"<CopyRoom for {self._left}>"

    def take(self, schema: _Schema) -> bool:
        """Whether there was room for all members of a schema."""
        self._left -= 1 + len(schema)
        return self._left >= 0


def flattened(
    schema: _Schema,
    root: _Schema,
    *,
    open_refs: frozenset[str],
    room: CopyRoom,
    drop: _Drop,
    nesting: int = 0,
) -> tuple[_Schema, frozenset[str]]:
    """The schema with its reference written out and its `allOf` taken in; and what is open now.

    What stands beside a reference counts first. A reference that leads nowhere is dropped; one that
    leads back to a schema it stands in becomes any object.
    """
    used: frozenset[str] = frozenset()
    while "$ref" in schema:
        reference = schema["$ref"]
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        target = _target(reference, root)
        if (
            target is None
            or reference in open_refs
            or reference in used
            or len(used) >= _CHAIN_MAX
            or not room.take(target)
        ):
            drop("$ref")
            schema = {"type": "object", **rest}
        else:
            used |= {reference}
            schema = {**target, **rest}
    parts = schema.get("allOf")
    if isinstance(parts, list):
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        taking = _Merged(rest, drop)
        for part in parts:
            if not isinstance(part, Mapping) or nesting >= _NESTING_MAX:
                drop("allOf")
                continue
            flat, more = flattened(
                part,
                root,
                open_refs=open_refs | used,
                room=room,
                drop=drop,
                nesting=nesting + 1,
            )
            used |= more
            taking.add(flat)
        schema = taking.schema
    return schema, open_refs | used


def _target(reference: Any, root: _Schema) -> _Schema | None:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found if isinstance(found, Mapping) else None


class _Merged:
    """A schema that takes in others that must hold as well, where they do not contradict it.

    Members that it collects from several are copied when the second comes, and grow from then on.
    """

    __slots__ = ("_drop", "_own", "_required", "schema")

    def __init__(self, schema: dict[str, Any], drop: _Drop) -> None:
        self.schema = schema
        self._drop = drop
        self._own: set[str] = set()  # members that are copies
        self._required: set[str] = set()

    def add(self, part: _Schema) -> None:
        """Take in one."""
        merged = self.schema
        for name, value in part.items():
            held = merged.get(name)
            if name not in merged or held == value:
                merged[name] = value if name not in self._own else held
            elif name == "properties" and isinstance(value, Mapping) and isinstance(held, Mapping):
                self._add_properties(held, value)
            elif name == "required" and isinstance(value, list) and isinstance(held, list):
                self._add_required(held, value)
            elif name not in ("title", "description", "$defs", "definitions"):
                self._drop("allOf")

    def _add_properties(self, held: _Schema, more: _Schema) -> None:
        if "properties" not in self._own:
            self._own.add("properties")
            held = self.schema["properties"] = dict(held)
        assert isinstance(held, dict), held
        for name, value in more.items():
            held.setdefault(name, value)

    def _add_required(self, held: list[Any], more: list[Any]) -> None:
        if "required" not in self._own:
            self._own.add("required")
            held = self.schema["required"] = list(held)
            self._required.update(name for name in held if isinstance(name, str))
        for name in more:
            if isinstance(name, str) and name not in self._required:
                self._required.add(name)
                held.append(name)


def describes(schema: Any) -> bool:
    """Whether a schema says by itself what a value is."""
    return isinstance(schema, Mapping) and not _DESCRIBING.isdisjoint(schema)


def is_null(schema: Any) -> bool:
    """Whether null is all that a schema allows."""
    if not isinstance(schema, Mapping):
        return False
    if "const" in schema:
        return schema["const"] is None
    return schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None]


def split_types(schema: _Schema) -> tuple[list[str], bool]:
    """The types that are not null, and whether null is allowed besides."""
    stated = schema.get("type")
    kinds = stated if isinstance(stated, list) else [stated]
    types = list(dict.fromkeys(kind.lower() for kind in kinds if isinstance(kind, str)))
    if "null" in types:
        return [kind for kind in types if kind != "null"], True
    return types, schema.get("nullable") is True


def of_type(schema: _Schema, kind: str) -> dict[str, Any]:
    """What a schema of several types says of one of them."""
    kept = {name: value for name, value in schema.items() if kind in _OF_TYPES.get(name, (kind,))}
    return {**kept, "type": kind}


def inferred_type(schema: _Schema, written: _Schema) -> str | None:
    """The type that a schema without one must mean: the protocol wants it stated."""
    for name, kind in (("properties", "object"), ("items", "array"), ("pattern", "string")):
        if name in schema:
            return kind
    if "enum" in written:
        return "string"
    listed = schema.get("enum")
    values = [schema.get("const"), *(listed if isinstance(listed, list) else ())]
    if any(isinstance(value, bool) for value in values):
        return "boolean"
    limits = [written[name] for name in ("minimum", "maximum") if name in written]
    if not limits:
        return None
    is_listed = "const" in schema or "enum" in schema
    is_whole = is_listed and all(isinstance(limit, int) for limit in limits)
    return "integer" if is_whole else "number"
