"""JSON schemas as the subset that the gemini protocol supports.

Keywords with an equivalent are rewritten (`null` among the types, constants, references, exclusive
limits); others are dropped and reported, as in
`tools.function.parameters.additionalProperties`. The upstream refuses a schema with an unknown
keyword.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from channels.errors import InvalidRequest, TakesLong
from channels.json.lenient import dumps
from channels.translation.schemas import target_of
from channels.translation.tool_calls import LossReport

# Parsing of JSON schemas for the gemini protocol.

_Drop = Callable[[str], None]
_Schema = Mapping[str, Any]

# Any value, as far as the protocol can express it.
ANYTHING: _Schema = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}

_NESTING_MAX = 16
# The limit of references to references.
_CHAIN_MAX = 64
# The limit of members of schemas that one request may have copied, for references and for several
# types. The tools of the largest catalogs have some thousands of members.
COPIED_MEMBERS_MAX = 20_000
# The limit of copied bytes: a multiple of the schemas' bytes, with a minimum for small ones.
COPIED_TIMES_MAX = 4
COPIED_BYTES_MIN = 256 * 1024
COPIED_BYTES_MAX = 16 * 1024 * 1024
# What the event loop writes within some ten milliseconds; a helper process does more.
COPIED_MEMBERS_HERE_MAX = 2_000
COPIED_BYTES_HERE_MAX = 1024 * 1024
# The bytes of a copy without content, which may become ANYTHING.
_COPY_BYTES_MIN = 80
# Members that define a value, and do not only restrict it.
_DESCRIBING = frozenset(
    ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties", "items")
)
_DEFINITIONS = ("$defs", "definitions")
# Members that only apply to values of these types.
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
    """The budget of copies of a request's schemas.

    `is_here`: on the event loop, with a smaller budget.
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
        """Add the budget of one of the request's schemas."""
        more = COPIED_TIMES_MAX * len(dumps(schema))
        self._bytes = min(self._bytes + more, COPIED_BYTES_MAX)

    def take(self, cost: tuple[int, int], path: str) -> None:
        """Use up members and bytes. Raises InvalidRequest, and on the loop TakesLong."""
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
    """Return members and bytes of a schema without its definitions, which are not copied."""
    text = dumps({name: existing for name, existing in schema.items() if name not in _DEFINITIONS})
    return 1 + text.count(b'":'), _COPY_BYTES_MIN + len(text)


class References:
    """The targets of one schema's references, each looked up once, and the open references.

    A reference is open while its target is written.
    """

    __slots__ = ("_drop", "_found", "_open", "_path", "_room", "_root")

    def __init__(self, root: _Schema, path: str, room: CopyRoom, drop: _Drop) -> None:
        self._root = root
        self._path = path
        self._room = room
        self._drop = drop
        self._found: dict[str, tuple[_Schema, tuple[int, int]] | None] = {}
        self._open: dict[str, None] = {}  # in order of opening

    def __repr__(self) -> str:
        return f"<References of {self._path}: {len(self._found)}>"

    def opened(self) -> int:
        """Return the number of open references."""
        return len(self._open)

    def close(self, count: int) -> None:
        """Close the latest references, until `count` are open."""
        while len(self._open) > count:
            self._open.popitem()

    def flattened(self, schema: _Schema, *, nesting: int = 0) -> _Schema:
        """Return the schema with its reference resolved and `allOf` merged; open its references.

        Members beside a reference override its target's. A reference without a target is dropped; a
        recursive one becomes any object. Raises the errors of `CopyRoom.take`.
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
        layers = [schema]  # members beside a reference come before its target's
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
            target = target_of(reference, self._root)
            self._found[reference] = None if target is None else (target, cost_of(target))
        return self._found[reference]


class _Merged:
    """A schema into which others are merged, unless they contradict it.

    A member from several schemas is copied for the second one, and extended from then on.
    """

    __slots__ = ("_drop", "_own", "_required", "schema")

    def __init__(self, schema: dict[str, Any], drop: _Drop) -> None:
        self.schema = schema
        self._drop = drop
        self._own: set[str] = set()  # copied members
        self._required: set[str] = set()

    def add(self, part: _Schema) -> None:
        """Merge one schema."""
        merged = self.schema
        for name, value in part.items():
            existing = merged.get(name)
            if name not in merged or existing == value:
                merged[name] = value if name not in self._own else existing
            elif (
                name == "properties"
                and isinstance(value, Mapping)
                and isinstance(existing, Mapping)
            ):
                self._add_properties(existing, value)
            elif name == "required" and isinstance(value, list) and isinstance(existing, list):
                self._add_required(existing, value)
            elif name not in ("title", "description", *_DEFINITIONS):
                self._drop("allOf")

    def _add_properties(self, existing: _Schema, more: _Schema) -> None:
        if "properties" not in self._own:
            self._own.add("properties")
            existing = self.schema["properties"] = dict(existing)
        assert isinstance(existing, dict), existing
        for name, value in more.items():
            existing.setdefault(name, value)

    def _add_required(self, existing: list[Any], more: list[Any]) -> None:
        if "required" not in self._own:
            self._own.add("required")
            existing = self.schema["required"] = list(existing)
            self._required.update(name for name in existing if isinstance(name, str))
        for name in more:
            if isinstance(name, str) and name not in self._required:
                self._required.add(name)
                existing.append(name)


def describes(schema: Any) -> bool:
    """Whether a schema defines its values by itself."""
    return isinstance(schema, Mapping) and not _DESCRIBING.isdisjoint(schema)


def is_null(schema: Any) -> bool:
    """Whether a schema only allows null."""
    if not isinstance(schema, Mapping):
        return False
    if "const" in schema:
        return schema["const"] is None
    return schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None]


def split_types(schema: _Schema) -> tuple[list[str], bool]:
    """Return the types other than null, and whether null is allowed."""
    stated = schema.get("type")
    kinds = stated if isinstance(stated, list) else [stated]
    types = list(dict.fromkeys(kind.lower() for kind in kinds if isinstance(kind, str)))
    if "null" in types:
        return [kind for kind in types if kind != "null"], True
    return types, schema.get("nullable") is True


def of_type(schema: _Schema, kind: str) -> dict[str, Any]:
    """Return the members that a schema of several types has for one of them."""
    kept = {name: value for name, value in schema.items() if kind in _OF_TYPES.get(name, (kind,))}
    return {**kept, "type": kind}


def inferred_type(schema: _Schema, written: _Schema) -> str | None:
    """Return the type that a schema without one implies, since the protocol requires it."""
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
_EXAMPLES = frozenset(("default", "example"))
# The values of each type.
_VALUES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}
_EXCLUDING = (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1))

_Written = dict[str, Any]


def write_schema(
    schema: Mapping[str, Any], path: str, report: LossReport, room: CopyRoom
) -> dict[str, Any]:
    """Return the schema in the protocol's form. `path`: the client's name of its member.

    References are resolved, which may multiply their targets; `room` is the budget of all schemas
    of a request. Raises InvalidRequest above it, and TakesLong above the event loop's.
    """
    room.admit(schema)
    return _Writer(schema, path, report, room).write(schema, depth=0)


def described(schema: _Written, name: str, value: str) -> tuple[_Written, bool]:
    """Return a written schema with a title or a description, and whether it has no other one.

    One of alternatives stands in each of them.
    """
    if "anyOf" not in schema:
        return {name: value, **schema}, schema.get(name, value) == value
    branches = [{name: value, **one} for one in schema["anyOf"]]
    return {"anyOf": branches}, all(one[name] == value for one in branches)


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
            self._drop("type")  # `true`: anything; `false`, which has no form here, too
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
            # One schema per type, with the members of that type.
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
        return self._alone(written)

    def _alone(self, written: _Written) -> _Written:
        """Return a schema whose `anyOf` stands alone, as the provider requires.

        The members beside it are merged into its branches, and branches of branches are its own.
        """
        branches = written.pop("anyOf", None)
        if branches is None:
            return written
        flat = [inner for branch in branches for inner in branch.get("anyOf", (branch,))]
        if not written:
            return {"anyOf": flat}
        kind = written.get("type")
        fitting = [branch for branch in flat if kind in (None, branch.get("type", kind))]
        if len(fitting) < len(flat):
            self._drop("anyOf" if fitting else "type")
        if not fitting:
            fitting = flat
            del written["type"]
        members, size = cost_of(written)
        self._room.take((members * len(fitting), size * len(fitting)), self._path)
        merged = [self._beside(written, branch) for branch in fitting]
        return merged[0] if len(merged) == 1 else {"anyOf": merged}

    def _beside(self, written: _Written, branch: _Written) -> _Written:
        """Return a branch with the members beside it, of which its own come first."""
        kind = branch.get("type", written.get("type"))
        found = dict(branch)
        for name, value in written.items():
            if name == "properties" and name in branch:
                found[name] = {**branch[name], **value, **branch[name]}
            elif name == "required" and name in branch:
                found[name] = list(dict.fromkeys([*value, *branch[name]]))
            elif name in _EXAMPLES and not isinstance(value, _VALUES.get(kind or "", object)):
                continue  # it is another branch's
            elif kind in _OF_TYPES.get(name, (kind,)):
                found.setdefault(name, value)
        known = found.get("properties", {})
        if "required" in found and not known.keys() >= set(found["required"]):
            found["required"] = [name for name in found["required"] if name in known]
        return found

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
        """Write a constant or a list of values: texts are listed, numbers become limits."""
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
                self._drop(name)  # the protocol only has `anyOf`
            found = [self.write(branch, depth=depth + 1) for branch in branches]
            if len(found) == 1 and "anyOf" not in found[0]:
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
