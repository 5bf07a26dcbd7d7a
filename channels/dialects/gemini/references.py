"""The references and `allOf` of a JSON schema, followed and merged.

What is referenced is copied, because the gemini protocol has no references; copies are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from channels.errors import InvalidRequest, TakesLong
from channels.json.lenient import dumps
from channels.translation.schemas import target_of

_Drop = Callable[[str], None]
Schema = Mapping[str, object]

_NESTING_MAX = 16

_DEFINITIONS = ("$defs", "definitions")


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

    def admit(self, schema: Schema) -> None:
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


def cost_of(schema: Schema) -> tuple[int, int]:
    """Return members and bytes of a schema without its definitions, which are not copied."""
    text = dumps({name: existing for name, existing in schema.items() if name not in _DEFINITIONS})
    return 1 + text.count(b'":'), _COPY_BYTES_MIN + len(text)


class References:
    """The targets of one schema's references, each looked up once, and the open references.

    A reference is open while its target is written.
    """

    __slots__ = ("_drop", "_found", "_open", "_path", "_room", "_root")

    def __init__(self, root: Schema, path: str, room: CopyRoom, drop: _Drop) -> None:
        self._root = root
        self._path = path
        self._room = room
        self._drop = drop
        self._found: dict[str, tuple[Schema, tuple[int, int]] | None] = {}
        self._open: dict[str, None] = {}  # in order of opening

    def opened(self) -> int:
        """Return the number of open references."""
        return len(self._open)

    def close(self, count: int) -> None:
        """Close the latest references, until `count` are open."""
        while len(self._open) > count:
            self._open.popitem()

    def flattened(self, schema: Schema, *, nesting: int = 0) -> Schema:
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

    def _followed(self, schema: Schema) -> Schema:
        layers = [schema]  # members beside a reference come before its target's
        while "$ref" in schema:
            reference = schema["$ref"]
            found = None
            if len(layers) <= _CHAIN_MAX and isinstance(reference, str):
                found = None if reference in self._open else self._look_up(reference)
            if found is None or not isinstance(reference, str):
                self._drop("$ref")
                layers.append({"type": "object"})
                break
            self._open[reference] = None
            schema, cost = found
            self._room.take(cost, self._path)
            layers.append(schema)
        merged: dict[str, object] = {}
        for layer in reversed(layers):
            merged.update(layer)
        merged.pop("$ref", None)
        return merged

    def _look_up(self, reference: str) -> tuple[Schema, tuple[int, int]] | None:
        if reference not in self._found:
            target = target_of(reference, self._root)
            self._found[reference] = None if target is None else (target, cost_of(target))
        return self._found[reference]


class _Merged:
    """A schema into which others are merged, unless they contradict it.

    A member from several schemas is copied for the second one, and extended from then on.
    """

    __slots__ = ("_drop", "_own", "_required", "schema")

    def __init__(self, schema: dict[str, object], drop: _Drop) -> None:
        self.schema = schema
        self._drop = drop
        self._own: set[str] = set()  # copied members
        self._required: set[str] = set()

    def add(self, part: Schema) -> None:
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

    def _add_properties(self, existing: Schema, more: Schema) -> None:
        if "properties" not in self._own:
            self._own.add("properties")
            existing = self.schema["properties"] = dict(existing)
        assert isinstance(existing, dict), existing
        for name, value in more.items():
            existing.setdefault(name, value)

    def _add_required(self, existing: list[object], more: list[object]) -> None:
        if "required" not in self._own:
            self._own.add("required")
            existing = self.schema["required"] = list(existing)
            self._required.update(name for name in existing if isinstance(name, str))
        for name in more:
            if isinstance(name, str) and name not in self._required:
                self._required.add(name)
                existing.append(name)
