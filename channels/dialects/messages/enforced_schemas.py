"""Schemas that the messages protocol enforces: the subset of JSON schemas that it takes.

Any other keyword is a 400 there. Its official libraries write what the model can only be told, such
as limits, into the description, and close every object; so it is done here, for schemas of clients
whose own protocol takes more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from channels.json.lenient import dumps
from channels.json.written import Written
from channels.translation.model import Tool
from channels.translation.schemas import is_object

_Schema = Mapping[str, object]

# Members as they are, members that have schemas, and those that say nothing of the values.
_PLAIN = frozenset(("type", "title", "description", "default", "enum", "const", "required", "$ref"))
_NAMED = ("$defs", "definitions", "properties")
_LISTED = ("anyOf", "allOf")
_SILENT = frozenset(("$schema", "$id", "$comment"))
_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)
_DEPTH_MAX = 64
# The limits of a request; beyond them the whole of it is refused.
STRICT_TOOLS_MAX = 20
OPTIONAL_MAX = 24
UNIONS_MAX = 16


def enforced(schema: _Schema, drop: Callable[[str], None], *, depth: int = 0) -> Written:
    """Return a schema with nothing but what is enforced, the rest told in its description.

    `drop` takes each keyword that is no longer enforced.
    """
    if depth > _DEPTH_MAX:
        drop("properties")
        return {}
    inner = depth + 1
    written: Written = {}
    told: dict[str, object] = {}
    for name, value in schema.items():
        if name in _PLAIN:
            written[name] = value
        elif name in _NAMED and isinstance(value, Mapping):
            written[name] = {key: _within(one, drop, inner) for key, one in value.items()}
        elif name in _LISTED and isinstance(value, list):
            written[name] = [_within(one, drop, inner) for one in value]
        elif name == "oneOf" and isinstance(value, list) and "anyOf" not in schema:
            if len(value) > 1:
                drop(name)
            written["anyOf"] = [_within(one, drop, inner) for one in value]
        elif name == "items" and isinstance(value, Mapping):
            written[name] = enforced(value, drop, depth=inner)
        elif _is_taken(name, value):
            written[name] = value
        elif name not in _SILENT and name != "additionalProperties" and value is not None:
            drop(name)
            told[name] = value
    if is_object(schema):
        if schema.get("additionalProperties", False) is not False:
            drop("additionalProperties")
        written["additionalProperties"] = False
    if "$ref" in written:
        return {name: written[name] for name in ("$ref", "$defs", "definitions") if name in written}
    if told:
        words = ", ".join(f"{name}: {dumps(value).decode()}" for name, value in told.items())
        stated = schema.get("description")
        before = f"{stated}\n\n" if isinstance(stated, str) and stated else ""
        written["description"] = f"{before}{{{words}}}"
    return written


def _within(schema: object, drop: Callable[[str], None], depth: int) -> object:
    return enforced(schema, drop, depth=depth) if isinstance(schema, Mapping) else schema


def _is_taken(name: str, value: object) -> bool:
    """Whether a keyword is enforced with this value."""
    if name == "format":
        return isinstance(value, str) and value in _FORMATS
    return name == "minItems" and type(value) is int and value in (0, 1)


class StrictTools(Struct):
    """Which tools of a request may be enforced: those in the subset, up to the limits."""

    count: int = 0
    optional: int = 0
    unions: int = 0

    def take(self, tool: Tool) -> bool:
        """Whether the next tool's arguments may be enforced; it counts if they may."""
        schema = tool.parameters or {}
        lost: list[str] = []
        if tool.parameters is not None and enforced(schema, lost.append) != schema:
            return False
        optional = unions = 0
        for one in _schemas(schema):
            properties, required = one.get("properties"), one.get("required")
            if isinstance(properties, Mapping):
                named = required if isinstance(required, list) else ()
                optional += sum(name not in named for name in properties)
            unions += "anyOf" in one or isinstance(one.get("type"), list)
        if (
            self.count == STRICT_TOOLS_MAX
            or self.optional + optional > OPTIONAL_MAX
            or self.unions + unions > UNIONS_MAX
        ):
            return False
        self.count += 1
        self.optional += optional
        self.unions += unions
        return True


def _schemas(schema: object) -> Iterator[_Schema]:
    """Yield a schema and all within it."""
    pending = [schema]
    while pending:
        one = pending.pop()
        if not isinstance(one, Mapping):
            continue
        yield one
        pending.append(one.get("items"))
        for name in _LISTED:
            listed = one.get(name)
            pending.extend(listed if isinstance(listed, Sequence) else ())
        for name in _NAMED:
            named = one.get(name)
            pending.extend(named.values() if isinstance(named, Mapping) else ())
