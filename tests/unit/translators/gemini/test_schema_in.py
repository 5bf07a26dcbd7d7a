"""Schemas of native-content clients as JSON schemas."""

from __future__ import annotations

from typing import Any

import pytest

from channels.dialects.gemini.decode import read_schema
from channels.errors import InvalidRequest

# name: the protocol's own schema, and the JSON schema.
SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "types in capitals": (
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}},
    ),
    "small types stay": ({"type": "integer"}, {"type": "integer"}),
    "no type": ({"type": "TYPE_UNSPECIFIED", "title": "t"}, {"title": "t"}),
    "nullable": ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
    "not nullable": ({"type": "STRING", "nullable": False}, {"type": "string"}),
    "a nullable list of words": (
        {"type": "STRING", "format": "enum", "enum": ["a"], "nullable": True},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    "nullable alternatives": (
        {"anyOf": [{"type": "STRING"}], "nullable": True},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ),
    "counts as text": (
        {"type": "ARRAY", "items": {"type": "INTEGER"}, "minItems": "1", "max_items": "3"},
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    ),
    "how numbers are stored": ({"type": "INTEGER", "format": "int32"}, {"type": "integer"}),
    "a format": (
        {"type": "STRING", "format": "date-time"},
        {"type": "string", "format": "date-time"},
    ),
    "an example": ({"type": "STRING", "example": "x"}, {"type": "string", "examples": ["x"]}),
    "the other spelling": (
        {"any_of": [{"type": "STRING"}]},
        {"anyOf": [{"type": "string"}]},
    ),
    "definitions": (
        {"ref": "#/$defs/A", "defs": {"A": {"type": "STRING"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}},
    ),
    "a property's name is its own": (
        {"type": "OBJECT", "properties": {"max_items": {"type": "STRING"}}},
        {"type": "object", "properties": {"max_items": {"type": "string"}}},
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_becomes_a_json_schema(name: str) -> None:
    own, expected = SCHEMAS[name]
    assert read_schema(own, "p") == expected


def test_order_of_properties_is_the_order_asked_for() -> None:
    properties = {name: {"type": "STRING"} for name in "abc"}
    own = {"type": "OBJECT", "properties": properties, "propertyOrdering": ["c", "x", "a"]}
    assert list(read_schema(own, "p")["properties"]) == ["c", "a", "b"]


def test_objects_of_an_answer_are_closed() -> None:
    own = {"type": "OBJECT", "properties": {"a": {"type": "OBJECT", "properties": {}}}}
    closed = read_schema(own, "p", closes=True)
    assert closed["additionalProperties"] is False
    assert closed["properties"]["a"]["additionalProperties"] is False


def test_schema_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(100):
        schema = {"type": "ARRAY", "items": schema}
    with pytest.raises(InvalidRequest) as refused:
        read_schema(schema, "tools[0].functionDeclarations[0].parameters")
    assert refused.value.param == "tools[0].functionDeclarations[0].parameters"
