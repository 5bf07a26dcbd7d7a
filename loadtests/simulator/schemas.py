"""An example value for a JSON schema: the arguments of tool calls and structured answers.

Deterministic, shallow and good-natured: it satisfies ordinary schemas (types, enums, required,
nested objects and arrays), it is no validator and follows no `$ref`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

MAX_DEPTH: Final = 8


def example_for(schema: bytes, words: str) -> Any:
    """A value for the schema's JSON text, using `words` where a string is wanted."""
    decoded = msgspec.json.decode(schema)
    return _example(decoded, words, depth=0) if isinstance(decoded, dict) else {}


def _example(schema: object, words: str, *, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return None
    if "const" in schema:
        return schema["const"]
    if choices := _listed(schema, "enum"):
        return choices[len(words) % len(choices)]
    for union in ("anyOf", "oneOf"):
        if options := _listed(schema, union):
            return _example(options[0], words, depth=depth + 1)
    kind = _kind(schema)
    properties = schema.get("properties")
    members = properties if isinstance(properties, Mapping) else {}
    if kind == "object" or (not kind and properties is members):
        return {name: _example(inner, words, depth=depth + 1) for name, inner in members.items()}
    if kind == "array":
        return [_example(schema.get("items", {}), words, depth=depth + 1)]
    if kind in ("integer", "number"):
        return _number(schema, len(words), is_whole=kind == "integer")
    return {"boolean": True, "null": None}.get(kind, words)


def _listed(schema: Mapping[str, Any], name: str) -> list[Any]:
    listed = schema.get(name)
    return listed if isinstance(listed, list) else []


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    return kind.lower() if isinstance(kind, str) else ""  # native writes its types in capitals


def _number(schema: Mapping[str, Any], wish: int, *, is_whole: bool) -> int | float:
    low, high = schema.get("minimum", 0), schema.get("maximum", 100)
    number: float = min(max(wish, low), high)
    return int(number) if is_whole else number
