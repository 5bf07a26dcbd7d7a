"""JSON schemas as the part of them that the gemini protocol takes.

What it says in other words is rewritten (`null` among the types, a constant, references, limits
that exclude); what it cannot say is left out and reported by the keyword, as in
`tools.function.parameters.additionalProperties`. The upstream refuses a schema with any keyword it
does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.dialects.gemini.schema_pieces import (
    ANYTHING,
    CopyRoom,
    describes,
    flattened,
    inferred_type,
    is_null,
    of_type,
    split_types,
)
from channels.translation.losses import LossReport

_DEPTH_MAX = 64

_AS_THEY_ARE = (
    "title",
    "description",
    "default",
    "example",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "propertyOrdering",
)
_REWRITTEN = (
    "type",
    "format",
    "nullable",
    "enum",
    "const",
    "items",
    "properties",
    "required",
    "anyOf",
    "oneOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "$defs",
    "definitions",
)
_HANDLED = frozenset((*_AS_THEY_ARE, *_REWRITTEN))
_FORMATS = {
    "string": frozenset(("date-time", "enum")),
    "integer": frozenset(("int32", "int64")),
    "number": frozenset(("float", "double")),
}
_EXCLUDING = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))

_Written = dict[str, Any]


def write_schema(
    schema: Mapping[str, Any], path: str, report: LossReport, room: CopyRoom | None = None
) -> dict[str, Any]:
    """The schema for the wire. `path` is the client's name for the member that holds it.

    References are written out, which may multiply them; `room` is what all schemas of a request
    share for that.
    """
    return _Writer(schema, path, report, room or CopyRoom()).write(schema, depth=0)


class _Writer:
    __slots__ = ("_copies", "_open_refs", "_path", "_report", "_room", "_root")

    def __init__(
        self, root: Mapping[str, Any], path: str, report: LossReport, room: CopyRoom
    ) -> None:
        self._root = root
        self._path = path
        self._report = report
        self._open_refs: frozenset[str] = frozenset()
        self._room = room
        self._copies = 0  # of the copies under way, how deep they lie in one another

    def write(self, schema: Any, *, depth: int) -> _Written:
        if depth > _DEPTH_MAX or (
            self._copies and isinstance(schema, Mapping) and not self._room.take(schema)
        ):
            self._report.drop(self._path)
            return dict(ANYTHING)
        if not isinstance(schema, Mapping):
            self._drop("type")  # `true` and `false`: anything, and nothing, which cannot be said
            return dict(ANYTHING)
        before = self._open_refs
        schema, self._open_refs = flattened(
            schema, self._root, open_refs=before, room=self._room, drop=self._drop
        )
        is_copy = len(self._open_refs) > len(before)
        self._copies += is_copy
        written = {"type": "null"} if is_null(schema) else self._write_flat(schema, depth=depth)
        self._copies -= is_copy
        self._open_refs = before
        return written

    def _write_flat(self, schema: Mapping[str, Any], *, depth: int) -> _Written:
        for name, value in schema.items():
            if name not in _HANDLED and value is not None:
                self._drop(name)
        types, is_nullable = split_types(schema)
        if len(types) > 1:
            # As many schemas, each with what is said of its own type.
            written = {name: schema[name] for name in ("title", "description") if name in schema}
            bare = {name: value for name, value in schema.items() if name not in written}
            bare.pop("nullable", None)
            self._copies += 1
            branches = [self.write(of_type(bare, kind), depth=depth + 1) for kind in types]
            self._copies -= 1
            written["anyOf"] = branches
        else:
            written = {name: schema[name] for name in _AS_THEY_ARE if schema.get(name) is not None}
            self._write_one(schema, types[0] if types else None, written, depth=depth)
        if is_nullable:
            written["nullable"] = True
        return written

    def _write_one(
        self, schema: Mapping[str, Any], kind: str | None, written: _Written, *, depth: int
    ) -> None:
        self._write_values(schema, written)
        self._write_alternatives(schema, written, depth=depth)
        kind = kind or written.get("type")
        if kind is None and "anyOf" not in written:
            kind = inferred_type(schema, written)
            if kind is None:
                self._drop("type")
                written.update(ANYTHING)
        if kind is not None:
            written["type"] = kind
        self._write_excluding(schema, kind, written)
        stated = schema.get("format")
        if isinstance(stated, str) and stated in _FORMATS.get(kind or "", ()):
            written["format"] = stated
        elif stated is not None:
            self._drop("format")
        if kind == "object":
            self._write_properties(schema, written, depth=depth)
        elif kind == "array":
            items = schema.get("items")
            if items is None:
                self._drop("items")
            written["items"] = (
                dict(ANYTHING) if items is None else self.write(items, depth=depth + 1)
            )

    def _write_values(self, schema: Mapping[str, Any], written: _Written) -> None:
        """A constant or a list of values; only texts can be listed, numbers can be enclosed."""
        name = "const" if "const" in schema else "enum"
        values = [schema["const"]] if name == "const" else schema.get("enum")
        if not isinstance(values, list) or not values:
            return
        if None in values:
            written["nullable"] = True
            values = [value for value in values if value is not None]
        kinds = set(map(type, values))
        if kinds == {str}:
            if "" in values:
                self._drop(name)
            written["enum"] = [value for value in values if value]
            if not written["enum"]:
                del written["enum"]
        elif kinds and kinds <= {int, float}:
            if len(set(values)) > 1:
                self._drop(name)
            written["minimum"], written["maximum"] = min(values), max(values)
        elif kinds != {bool} or len(set(values)) < 2:
            self._drop(name)

    def _write_alternatives(
        self, schema: Mapping[str, Any], written: _Written, *, depth: int
    ) -> None:
        for name in ("anyOf", "oneOf"):
            stated = schema.get(name)
            if not isinstance(stated, list) or not stated:
                continue
            branches = [branch for branch in stated if not is_null(branch)]
            if not all(map(describes, branches)):
                self._drop(name)
                continue
            if len(branches) < len(stated):
                written["nullable"] = True
            if name == "oneOf" and len(branches) > 1:
                self._drop(name)  # any of them will do here, not just one
            found = [self.write(branch, depth=depth + 1) for branch in branches]
            if len(found) == 1:
                for member, value in found[0].items():
                    written.setdefault(member, value)
            elif found:
                written["anyOf"] = [*written.get("anyOf", ()), *found]

    def _write_excluding(
        self, schema: Mapping[str, Any], kind: str | None, written: _Written
    ) -> None:
        for name, limit, step in _EXCLUDING:
            value = schema.get(name)
            if kind == "integer" and type(value) is int and limit not in written:
                written[limit] = value + step
            elif value is not None:
                self._drop(name)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    written.setdefault(limit, value)

    def _write_properties(
        self, schema: Mapping[str, Any], written: _Written, *, depth: int
    ) -> None:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            written["properties"] = {
                name: self.write(value, depth=depth + 1) for name, value in properties.items()
            }
        required = schema.get("required")
        if isinstance(required, list) and required:
            properties = written.get("properties", {})
            known = [name for name in required if isinstance(name, str) and name in properties]
            if len(known) < len(required):
                self._drop("required")
            if known:
                written["required"] = known

    def _drop(self, keyword: str) -> None:
        self._report.drop(f"{self._path}.{keyword}")
