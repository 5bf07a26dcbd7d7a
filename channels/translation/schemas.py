"""The schema of a function's input as one object, for protocols that take no alternatives there.

Only the root is changed: within the properties everything stays. What all of some schemas say is
merged; of alternatives the properties are merged, of which those are required that all of them
require.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from channels.errors import InvalidRequest
from channels.json.lenient import dumps

_Schema = Mapping[str, object]

_ALTERNATIVES = ("anyOf", "oneOf")
COMBINING = frozenset(("allOf", *_ALTERNATIVES))
_ABOUT = frozenset(("title", "description", "$defs", "definitions", "$schema", "$id", "type"))
_NESTING_MAX = 16
# The limit of members that are merged: references may name the same schema any number of times.
MERGED_MEMBERS_MAX = 20_000


def one_object(schema: _Schema, path: str, drop: Callable[[str], None]) -> _Schema:
    """Return the schema without alternatives at its root; the same object if it has none.

    `drop` takes each keyword that is lost. Raises InvalidRequest with `path` for a schema that
    would be too large.
    """
    target = resolved(schema, schema)
    if target is None or COMBINING.isdisjoint(target):
        return schema
    return _Root(schema, path, drop).merged(target, nesting=0)


def resolved(schema: object, root: _Schema) -> _Schema | None:
    """Return a schema with its local reference replaced; None if that leads nowhere."""
    for _ in range(_NESTING_MAX):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            break
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        target = target_of(schema["$ref"], root)
        if target is None:
            return None
        schema = {**target, **beside}
    return schema if isinstance(schema, Mapping) and "$ref" not in schema else None


def target_of(reference: object, root: _Schema) -> _Schema | None:
    """Return what a reference within a schema names; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: object = root
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


class _Root:
    """Merges what stands at the root of one schema."""

    __slots__ = ("_drop", "_members", "_open", "_path", "_root")

    def __init__(self, root: _Schema, path: str, drop: Callable[[str], None]) -> None:
        self._root = root
        self._path = path
        self._drop = drop
        self._members = 0
        self._open: set[object] = {"#"}  # references that are being followed

    def merged(self, schema: _Schema, *, nesting: int) -> dict[str, object]:
        """Return a schema with what it combines merged into it."""
        found = _Object(self._drop)
        self._count(schema)
        found.add({name: schema[name] for name in schema if name not in COMBINING}, "")
        for part in self._parts(schema, "allOf", nesting):
            found.add(part, "allOf")
        for name in _ALTERNATIVES:
            if name in schema:
                stated = self._parts(schema, name, nesting)
                branches = [branch for branch in stated if _may_be_object(branch)]
                if len(branches) > 1 or not stated:
                    self._drop(name)
                found.add(_any_of(branches), name)
        return found.schema()

    def _parts(self, schema: _Schema, name: str, nesting: int) -> list[dict[str, object]]:
        """Return the schemas in a member, each merged; what cannot be read is dropped."""
        stated = schema.get(name, [])
        parts = []
        for one in stated if isinstance(stated, list) else [None]:
            reference = one.get("$ref") if isinstance(one, Mapping) else None
            part = None
            if not isinstance(reference, str) or reference not in self._open:
                part = resolved(one, self._root)
            if part is None or nesting >= _NESTING_MAX:
                self._drop(name)
                continue
            before = self._open
            self._open = {*before, reference} if isinstance(reference, str) else before
            parts.append(self.merged(part, nesting=nesting + 1))
            self._open = before
            self._count(parts[-1])
        return parts

    def _count(self, schema: _Schema) -> None:
        self._members += 1 + len(_mapping(schema.get("properties")))
        self._members += len(_names(schema.get("required")))
        if self._members > MERGED_MEMBERS_MAX:
            raise InvalidRequest(
                f"{self._path}: the channel of this model speaks another protocol, which takes no "
                "alternatives at the root of a schema: with them merged the schema is too large.",
                self._path,
            )


class _Object:
    """A schema into which others are merged, unless they contradict it."""

    __slots__ = ("_drop", "_members", "_properties", "_required")

    def __init__(self, drop: Callable[[str], None]) -> None:
        self._drop = drop
        self._members: dict[str, object] = {}
        self._properties: dict[str, object] | None = None
        self._required: dict[str, None] = {}  # a set that keeps its order

    def add(self, part: _Schema, keyword: str) -> None:
        """Merge what the keyword's part says."""
        for name, value in part.items():
            existing = self._members.get(name, value)
            if name == "properties" and isinstance(value, Mapping):
                self._add_properties(value, keyword)
            elif name == "required" and isinstance(value, list):
                self._required.update(dict.fromkeys(_names(value)))
            elif existing is not value and existing != value and name not in _ABOUT:
                self._drop(keyword)
            else:
                self._members.setdefault(name, value)

    def _add_properties(self, more: _Schema, keyword: str) -> None:
        if self._properties is None:
            self._properties = {}
        for name, schema in more.items():
            existing = self._properties.setdefault(name, schema)
            if existing is not schema and existing != schema:
                self._drop(keyword)

    def schema(self) -> dict[str, object]:
        """Return all of it as one."""
        found = dict(self._members)
        if self._properties is not None:
            found["properties"] = self._properties
        if self._required:
            found["required"] = list(self._required)
        return found


def _any_of(branches: Sequence[_Schema]) -> _Schema:
    """Return what any of these schemas allows, as one; of one schema all that it says."""
    if len(branches) < 2:
        return branches[0] if branches else {}
    schemas: dict[str, dict[bytes, object]] = {}  # of each property, once each
    for branch in branches:
        for name, schema in _mapping(branch.get("properties")).items():
            schemas.setdefault(name, {})[dumps(schema)] = schema
    found: dict[str, object] = {}
    if schemas:
        found["properties"] = {
            name: next(iter(one.values())) if len(one) == 1 else {"anyOf": list(one.values())}
            for name, one in schemas.items()
        }
    first, *others = (dict.fromkeys(_names(branch.get("required"))) for branch in branches)
    shared = [name for name in first if all(name in other for other in others)]
    return {**found, "required": shared} if shared else found


def is_object(schema: _Schema) -> bool:
    """Whether a schema states that its values may be objects."""
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _may_be_object(schema: _Schema) -> bool:
    return "type" not in schema or is_object(schema)


def _mapping(value: object) -> _Schema:
    return value if isinstance(value, Mapping) else {}


def _names(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
