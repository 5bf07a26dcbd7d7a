"""Which schemas may be enforced strictly."""

from typing import Any

from channels.dialects.chat.strict_schemas import fits_strict
from tests.support.rows import cases


@cases(
    "schema, expected",
    ({"type": "string"}, True),
    ({"type": "object", "properties": {}, "additionalProperties": False}, True),
    ({"type": "object", "properties": {}}, False),
    ({"type": ["object", "null"], "properties": {"a": {}}, "additionalProperties": False}, False),
    ({"type": "array", "items": {"type": "object"}}, False),
    ({"anyOf": [{"type": "object"}]}, False),
    ({"$defs": {"x": {"type": "object"}}}, False),
    (None, False),
)
def test_schema_is_strict_where_every_object_is_closed(schema: Any, expected: bool) -> None:
    assert fits_strict(schema) is expected
