"""JSON schemas as the part of them that the gemini protocol takes.

What it states in other words is rewritten (`null` among the types, a constant, references, limits
that exclude); what it cannot express is left out and reported by the keyword, as in
`tools.function.parameters.additionalProperties`. The upstream refuses a schema with any keyword it
does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from channels.errors import InvalidRequest, TakesLong
from channels.json import dumps
from channels.translation.tool_calls import LossReport

# Pieces of reading a JSON schema for the gemini protocol.

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
# And so many bytes: so many times the bytes of its schemas, and a little for small ones.
COPIED_TIMES_MAX = 4
COPIED_BYTES_MIN = 256 * 1024
COPIED_BYTES_MAX = 16 * 1024 * 1024
# What of it the event loop writes within some ten milliseconds; more is a helper's work.
COPIED_MEMBERS_HERE_MAX = 2_000
COPIED_BYTES_HERE_MAX = 1024 * 1024
# Of a copy without content: what it becomes where nothing is known of a value.
_COPY_BYTES_MIN = 80
# Members that state what a value is, and do not merely narrow it.
_DESCRIBING = frozenset(
    ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties", "items")
)
_DEFINITIONS = ("$defs", "definitions")
# Members that state something of values of these types only.
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
    """How much of its schemas a request may still have written out once more.

    `is_here`: on the event loop, which has room for less.
    """

    __slots__ = ("_bytes", "_is_here", "_members", "_taken_bytes", "_taken_members")

    def __init__(self, *, is_here: bool = False) -> None:
        self._is_here = is_here
        self._members = COPIED_MEMBERS_MAX
        self._bytes = COPIED_BYTES_MIN
        self._taken_members = 0
        self._taken_bytes = 0

    def __repr__(self) -> str:
        return f"<CopyRoom {self._taken_bytes} of {self._bytes} bytes>"

    def admit(self, schema: _Schema) -> None:
        """Make the room that a schema of the request brings."""
        more = COPIED_TIMES_MAX * len(dumps(schema))
        self._bytes = min(self._bytes + more, COPIED_BYTES_MAX)

    def take(self, cost: tuple[int, int], path: str) -> None:
        """Take the room for members and bytes. Raises InvalidRequest, and on the loop TakesLong."""
        self._taken_members += cost[0]
        self._taken_bytes += cost[1]
        if self._taken_members > self._members or self._taken_bytes > self._bytes:
            raise InvalidRequest(
                f"{path}: the channel of this model speaks another protocol, whose schemas have no "
                "references: with them written out the schema is too large.",
                path,
            )
        if self._is_here and (
            self._taken_members > COPIED_MEMBERS_HERE_MAX
            or self._taken_bytes > COPIED_BYTES_HERE_MAX
        ):
            raise TakesLong


def cost_of(schema: _Schema) -> tuple[int, int]:
    """Members and bytes of a schema with all that is in it but definitions: these stay behind."""
    text = dumps({name: held for name, held in schema.items() if name not in _DEFINITIONS})
    return 1 + text.count(b'":'), _COPY_BYTES_MIN + len(text)


class References:
    """What the references of one schema lead to, each looked up once; and which are open now.

    A reference is open while the schema is written that it led to.
    """

    __slots__ = ("_drop", "_found", "_open", "_path", "_room", "_root")

    def __init__(self, root: _Schema, path: str, room: CopyRoom, drop: _Drop) -> None:
        self._root = root
        self._path = path
        self._room = room
        self._drop = drop
        self._found: dict[str, tuple[_Schema, tuple[int, int]] | None] = {}
        self._open: dict[str, None] = {}  # in the order of their opening

    def __repr__(self) -> str:
        return f"<References of {self._path}: {len(self._found)}>"

    def opened(self) -> int:
        """How many are open."""
        return len(self._open)

    def close(self, count: int) -> None:
        """Close the latest, until so many are open."""
        while len(self._open) > count:
            self._open.popitem()

    def flattened(self, schema: _Schema, *, nesting: int = 0) -> _Schema:
        """The schema with its reference written out and its `allOf` taken in; opens what it meets.

        What stands beside a reference counts first. A reference that leads nowhere is dropped; one
        that leads back to a schema it stands in becomes any object. Raises as `CopyRoom.take`.
        """
        if "$ref" in schema:
            schema = self._followed(schema)
        parts = schema.get("allOf")
        if not isinstance(parts, list):
            return schema
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        taking = _Merged(rest, self._drop)
        is_lost = False
        for part in parts:
            if isinstance(part, Mapping) and nesting < _NESTING_MAX:
                taking.add(self.flattened(part, nesting=nesting + 1))
            else:
                is_lost = True
        if is_lost:
            self._drop("allOf")
        return taking.schema

    def _followed(self, schema: _Schema) -> _Schema:
        layers = [schema]  # what stands beside a reference, before what that leads to
        while "$ref" in schema:
            reference = schema["$ref"]
            found = None
            if len(layers) <= _CHAIN_MAX and isinstance(reference, str):
                found = None if reference in self._open else self._look_up(reference)
            if found is None:
                self._drop("$ref")
                layers.append({"type": "object"})
                break
            self._open[reference] = None
            schema, cost = found
            self._room.take(cost, self._path)
            layers.append(schema)
        merged: dict[str, Any] = {}
        for layer in reversed(layers):
            merged.update(layer)
        merged.pop("$ref", None)
        return merged

    def _look_up(self, reference: str) -> tuple[_Schema, tuple[int, int]] | None:
        if reference not in self._found:
            target = _target(reference, self._root)
            self._found[reference] = None if target is None else (target, cost_of(target))
        return self._found[reference]


def _target(reference: str, root: _Schema) -> _Schema | None:
    if not reference.startswith("#"):
        return None
    found: Any = root
    start = reference.find("/")
    while start >= 0:
        end = reference.find("/", start + 1)
        step = reference[start + 1 : end if end >= 0 else None]
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
        start = end
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
            elif name not in ("title", "description", *_DEFINITIONS):
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
    """Whether a schema defines by itself what a value is."""
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
    """The members of a schema of several types for one of them."""
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
    schema: Mapping[str, Any], path: str, report: LossReport, room: CopyRoom
) -> dict[str, Any]:
    """The schema for the wire. `path` is the client's name for the member that holds it.

    References are written out, which may multiply them; `room` is what all schemas of a request
    share for that. Raises InvalidRequest where there is not enough of it, and on the event loop
    TakesLong where there is.
    """
    room.admit(schema)
    return _Writer(schema, path, report, room).write(schema, depth=0)


class _Writer:
    __slots__ = ("_path", "_references", "_report", "_room")

    def __init__(
        self, root: Mapping[str, Any], path: str, report: LossReport, room: CopyRoom
    ) -> None:
        self._path = path
        self._report = report
        self._room = room
        self._references = References(root, path, room, self._drop)

    def write(self, schema: Any, *, depth: int) -> _Written:
        if depth > _DEPTH_MAX:
            self._report.drop(self._path)
            return dict(ANYTHING)
        if not isinstance(schema, Mapping):
            self._drop("type")  # `true` and `false`: anything; nothing, which has no form
            return dict(ANYTHING)
        before = self._references.opened()
        schema = self._references.flattened(schema)
        written = {"type": "null"} if is_null(schema) else self._write_flat(schema, depth=depth)
        self._references.close(before)
        return written

    def _write_flat(self, schema: Mapping[str, Any], *, depth: int) -> _Written:
        for name, value in schema.items():
            if name not in _HANDLED and value is not None:
                self._drop(name)
        types, is_nullable = split_types(schema)
        if len(types) > 1:
            # As many schemas, each with the members of its own type.
            written = {name: schema[name] for name in ("title", "description") if name in schema}
            bare = {name: value for name, value in schema.items() if name not in written}
            bare.pop("nullable", None)
            members, size = cost_of(bare)
            self._room.take((members * len(types), size * len(types)), self._path)
            written["anyOf"] = [self.write(of_type(bare, kind), depth=depth + 1) for kind in types]
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
        is_whole = False
        if kinds == {str}:
            texts = list(filter(None, values))
            is_whole = len(texts) == len(values)
            if texts:
                written["enum"] = texts
        elif kinds and kinds <= {int, float}:
            is_whole = len(set(values)) == 1
            written["minimum"], written["maximum"] = min(values), max(values)
        elif kinds == {bool}:
            is_whole = len(set(values)) == 2
        if not is_whole:
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
