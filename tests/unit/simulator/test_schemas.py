"""Example values for JSON schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadtests.simulator.schemas import example_for


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (None, {}),
        ([], {}),
        ({"type": "string"}, "words"),
        ({"type": ["null", "integer"]}, 5),
        ({"type": "integer", "minimum": 7}, 7),
        ({"type": "number", "maximum": 2}, 2),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"const": 3}, 3),
        ({"enum": ["a", "b"]}, "b"),
        ({"anyOf": [{"type": "boolean"}, {"type": "string"}]}, True),
        ({"type": "array", "items": {"type": "integer"}}, [5]),
        ({"properties": {"a": {"type": "OBJECT"}}}, {"a": {}}),
    ],
)
def test_example_satisfies_the_schema(schema: Any, value: Any) -> None:
    assert example_for(json.dumps(schema).encode(), "words") == value


def test_schema_without_end_is_cut_off() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(50):
        schema = {"type": "object", "properties": {"in": schema}}
    assert "null" in json.dumps(example_for(json.dumps(schema).encode(), "words"))
