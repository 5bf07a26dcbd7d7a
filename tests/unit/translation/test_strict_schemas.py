"""Which schemas may be enforced strictly, and what of them each protocol enforces."""

from typing import Any

from channels.dialects.chat.strict_schemas import fits_strict
from channels.dialects.messages.enforced_schemas import OPTIONAL_MAX, STRICT_TOOLS_MAX, UNIONS_MAX
from tests.support.rows import cases
from tests.unit.translation.pieces import USER, tool
from tests.unit.translation.translated import translated


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
    ({"type": "string", "format": "uuid"}, True),
    ({"type": "string", "format": "uri"}, False),
    ({"anyOf": [{"oneOf": [{"type": "string"}]}]}, False),
    ({"type": "array", "items": {"type": "integer", "default": 1}}, False),
)
def test_schema_is_strict_where_every_object_is_closed(schema: Any, expected: bool) -> None:
    assert fits_strict(schema) is expected


CLOSED = {"type": "object", "additionalProperties": False}
LINK = {"type": "string", "format": "uri"}
NULL = {"type": "null"}


@cases(
    "schema, expected, dropped",
    ({**CLOSED, "properties": {"a": LINK}}, {**CLOSED, "properties": {"a": LINK}}, []),
    (
        {"type": "object", "properties": {"a": {"type": "array", "minItems": 2, "items": LINK}}},
        {
            **CLOSED,
            "properties": {"a": {"type": "array", "items": LINK, "description": "{minItems: 2}"}},
        },
        ["schema.minItems"],
    ),
    (
        {"$schema": "s", "type": "integer", "description": "d", "minimum": 1, "multipleOf": 2},
        {"type": "integer", "description": "d\n\n{minimum: 1, multipleOf: 2}"},
        ["schema.minimum", "schema.multipleOf"],
    ),
    ({"oneOf": [LINK, NULL]}, {"anyOf": [LINK, NULL]}, ["schema.oneOf"]),
    (
        {"type": "string", "format": "color"},
        {"type": "string", "description": '{format: "color"}'},
        ["schema.format"],
    ),
    (
        {"type": "object", "additionalProperties": NULL, "$defs": {"x": {"type": "object"}}},
        {**CLOSED, "$defs": {"x": CLOSED}},
        ["schema.additionalProperties"],
    ),
    (
        {"$ref": "#/$defs/x", "description": "d", "$defs": {}},
        {"$ref": "#/$defs/x", "$defs": {}},
        ["name"],
    ),
)
def test_messages_enforces_its_subset_and_is_told_the_rest(
    schema: Any, expected: Any, dropped: list[str]
) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    sent, lost = translated("chat", "messages", {"messages": [USER], "response_format": form})
    enforced = sent["output_config"]["format"]["schema"]
    assert enforced == ({**expected, "title": "n"} if "name" not in dropped else expected)
    assert lost == [f"response_format.json_schema.{name}" for name in dropped]


@cases(
    "parameters, count, expected",
    ({"type": "object", "properties": {}}, 1, 0),
    ({**CLOSED, "properties": {"a": {"type": "integer", "minimum": 1}}}, 1, 0),
    ({**CLOSED, "properties": {}}, STRICT_TOOLS_MAX + 2, STRICT_TOOLS_MAX),
    ({**CLOSED, "properties": {"a": LINK, "b": LINK}}, OPTIONAL_MAX, OPTIONAL_MAX // 2),
    (
        {**CLOSED, "properties": {"a": {"anyOf": [LINK, NULL]}}, "required": ["a"]},
        UNIONS_MAX + 2,
        UNIONS_MAX,
    ),
)
def test_messages_enforces_no_more_tools_than_it_takes(
    parameters: Any, count: int, expected: int
) -> None:
    tools = [tool(f"f{index}", parameters=parameters, strict=True) for index in range(count)]
    sent, dropped = translated("chat", "messages", {"messages": [USER], "tools": tools})
    assert [one["strict"] for one in sent["tools"]] == [True] * expected + [False] * (
        count - expected
    )
    assert dropped == (["tools.function.strict"] if expected < count else [])
