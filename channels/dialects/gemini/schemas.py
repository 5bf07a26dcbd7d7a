"""JSON schemas as the subset that the gemini protocol supports, and its own as JSON schemas.

Keywords with an equivalent are rewritten (`null` among the types, constants, references, exclusive
limits); others are dropped and reported, as in
`tools.function.parameters.additionalProperties`. The upstream refuses a schema with an unknown
keyword.

The protocol's own schema is a subset of OpenAPI's: types in capitals, `nullable`, counts as
strings, formats of storage. JSON schemas, which the protocol has in other members, are unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from channels.dialects.gemini import references
from channels.dialects.gemini.members import camel_keys
from channels.errors import InvalidRequest
from channels.json.written import Written
from channels.translation.losses import LossReport

# Any value, as far as the protocol can express it.
ANYTHING: references.Schema = {
    "anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
}

# Members that define a value, and do not only restrict it.
_DESCRIBING = frozenset(
    ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties", "items")
)
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


def describes(schema: object) -> bool:
    """Whether a schema defines its values by itself."""
    return isinstance(schema, Mapping) and not _DESCRIBING.isdisjoint(schema)


def is_null(schema: object) -> bool:
    """Whether a schema only allows null."""
    if not isinstance(schema, Mapping):
        return False
    if "const" in schema:
        return schema["const"] is None
    return schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None]


def split_types(schema: references.Schema) -> tuple[list[str], bool]:
    """Return the known types other than null, and whether null is allowed.

    Others, such as `any` and the names of programming languages, say nothing.
    """
    stated = schema.get("type")
    kinds = stated if isinstance(stated, list) else [stated]
    named = (kind.lower() for kind in kinds if isinstance(kind, str))
    types = [kind for kind in dict.fromkeys(named) if kind in _VALUES or kind == "null"]
    if "null" in types:
        return [kind for kind in types if kind != "null"], True
    return types, schema.get("nullable") is True


def of_type(schema: references.Schema, kind: str) -> Written:
    """Return the members that a schema of several types has for one of them."""
    kept = {name: value for name, value in schema.items() if kind in _OF_TYPES.get(name, (kind,))}
    return {**kept, "type": kind}


def inferred_type(schema: references.Schema, written: references.Schema) -> str | None:
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


# Far deeper than any schema of data.
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


def write_schema(
    schema: Mapping[str, object], path: str, report: LossReport, room: references.CopyRoom
) -> Written:
    """Return the schema in the protocol's form. `path`: the client's name of its member.

    References are resolved, which may multiply their targets; `room` is the budget of all schemas
    of a request. Raises InvalidRequest above it, and TakesLong above the event loop's.
    """
    room.admit(schema)
    return _SchemaWriter(schema, path, report, room).write(schema, depth=0)


def described(schema: Written, name: str, value: str) -> tuple[Written, bool]:
    """Return a written schema with a title or a description, and whether it has no other one.

    One of alternatives stands in each of them.
    """
    if "anyOf" not in schema:
        return {name: value, **schema}, schema.get(name, value) == value
    branches = [{name: value, **one} for one in schema["anyOf"]]
    return {"anyOf": branches}, all(one[name] == value for one in branches)


class _SchemaWriter:
    __slots__ = ("_path", "_references", "_report", "_room")

    def __init__(
        self, root: Mapping[str, object], path: str, report: LossReport, room: references.CopyRoom
    ) -> None:
        self._path = path
        self._report = report
        self._room = room
        self._references = references.References(root, path, room, self._drop)

    def write(self, schema: object, *, depth: int) -> Written:
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

    def _write_flat(self, schema: Mapping[str, object], *, depth: int) -> Written:
        for name, value in schema.items():
            if name not in _HANDLED and value is not None:
                self._drop(name)
        types, is_nullable = split_types(schema)
        if len(types) > 1:
            # One schema per type, with the members of that type.
            written = {name: schema[name] for name in ("title", "description") if name in schema}
            bare = {name: value for name, value in schema.items() if name not in written}
            bare.pop("nullable", None)
            members, size = references.cost_of(bare)
            self._room.take((members * len(types), size * len(types)), self._path)
            written["anyOf"] = [self.write(of_type(bare, kind), depth=depth + 1) for kind in types]
        else:
            written = {name: schema[name] for name in _AS_THEY_ARE if schema.get(name) is not None}
            self._write_one(schema, types[0] if types else None, written, depth=depth)
        if is_nullable:
            written["nullable"] = True
        return self._alone(written)

    def _alone(self, written: Written) -> Written:
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
        members, size = references.cost_of(written)
        self._room.take((members * len(fitting), size * len(fitting)), self._path)
        merged = [self._beside(written, branch) for branch in fitting]
        return merged[0] if len(merged) == 1 else {"anyOf": merged}

    def _beside(self, written: Written, branch: Written) -> Written:
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
        self, schema: Mapping[str, object], kind: str | None, written: Written, *, depth: int
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

    def _write_values(self, schema: Mapping[str, object], written: Written) -> None:
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
        self, schema: Mapping[str, object], written: Written, *, depth: int
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
        self, schema: Mapping[str, object], kind: str | None, written: Written
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
        self, schema: Mapping[str, object], written: Written, *, depth: int
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


_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
# Formats of storage, which JSON schema does not have; `enum` is implied by its values.
_STORAGE_FORMATS = frozenset(("enum", "int32", "int64", "float", "double"))
# JSON schema's names without the sign, as the protocol spells them.
_RENAMED = {"ref": "$ref", "defs": "$defs"}
_WORDS = {"type", "nullable", "format", "example", "propertyOrdering"}


def read_schema(schema: Mapping[str, object], path: str, *, closes: bool = False) -> Written:
    """Return the JSON schema. Raises InvalidRequest with `path` for one that is too deep.

    `closes`: objects only have the listed members, as the protocol enforces for responses.
    """
    return _SchemaReader(path, closes=closes).read(schema, depth=0)


class _SchemaReader:
    __slots__ = ("_closes", "_path")

    def __init__(self, path: str, *, closes: bool) -> None:
        self._path = path
        self._closes = closes

    def read(self, schema: Mapping[str, object], *, depth: int) -> Written:
        if depth > _DEPTH_MAX:
            raise InvalidRequest(f"{self._path}: the schema is nested too deep.", self._path)
        payload = camel_keys(schema)
        read: Written = {}
        kind = _kind(payload.get("type"))
        if kind is not None:
            read["type"] = kind
        for name, value in payload.items():
            if value is None or name in _WORDS:
                continue
            read[_RENAMED.get(name, name)] = self._member(name, value, depth=depth)
        stated = payload.get("format")
        if isinstance(stated, str) and stated not in _STORAGE_FORMATS:
            read["format"] = stated
        if payload.get("example") is not None:
            read.setdefault("examples", [payload["example"]])
        if payload.get("nullable") is True:
            _allow_null(read)
        properties = read.get("properties")
        if isinstance(properties, Mapping):
            read["properties"] = _ordered(properties, payload.get("propertyOrdering"))
            if self._closes:
                read.setdefault("additionalProperties", False)
        return read

    def _inner(self, value: object, *, depth: int) -> object:
        return self.read(value, depth=depth + 1) if isinstance(value, Mapping) else value

    def _member(self, name: str, value: object, *, depth: int) -> object:
        if name in ("properties", "defs", "$defs") and isinstance(value, Mapping):
            return {one: self._inner(payload, depth=depth) for one, payload in value.items()}
        if name in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            return [self._inner(one, depth=depth) for one in value]
        if name in ("items", "additionalProperties", "not"):
            return self._inner(value, depth=depth)
        if name in _COUNTS and isinstance(value, str) and value.isdecimal():
            return int(value)
        return value


def _kind(stated: object) -> object:
    if isinstance(stated, list):
        return [_kind(one) for one in stated]
    if not isinstance(stated, str):
        return stated
    return None if stated.upper() == "TYPE_UNSPECIFIED" else stated.lower()


def _allow_null(schema: Written) -> None:
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


def _ordered(properties: Mapping[str, object], order: object) -> Written:
    names = [name for name in order if isinstance(name, str)] if isinstance(order, list) else []
    first = {name: properties[name] for name in names if name in properties}
    return {**first, **properties}
