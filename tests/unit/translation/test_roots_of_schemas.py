"""Schemas of a tool's input as one object, on every way where the upstream takes no other."""

from typing import Any

import pytest

from channels.errors import InvalidRequest
from channels.translation.model import Protocol
from channels.translation.schemas import MERGED_MEMBERS_MAX, one_object
from tests.support.rows import cases, each
from tests.support.steps import steps_of
from tests.unit.translation.pieces import USER, tool
from tests.unit.translation.translated import translated

S = {"type": "string"}
I = {"type": "integer"}  # noqa: E741


def objects(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


# name: the client's schema, that of the upstream, the keywords that are reported.
ROOTS: dict[str, tuple[Any, ...]] = {
    "alternatives that only narrow": (
        {**objects(a=S, b=S), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        objects(a=S, b=S),
        "anyOf",
    ),
    "what all that narrow require is required": (
        {
            **objects("a", a=S, b=S, c=S),
            "anyOf": [{"required": ["b", "c"]}, {"required": ["b"]}],
        },
        objects("a", "b", a=S, b=S, c=S),
        "anyOf",
    ),
    "one of two objects": (
        {"oneOf": [objects("a", "b", a=S, b=S), objects("b", b=S, c=I)]},
        {**objects("b", a=S, b=S, c=I)},
        "oneOf",
    ),
    "a property that differs is either": (
        {
            "oneOf": [
                objects("kind", kind={"const": "x"}, a=S),
                objects("kind", kind={"const": "y"}, a=S),
            ]
        },
        objects("kind", kind={"anyOf": [{"const": "x"}, {"const": "y"}]}, a=S),
        "oneOf",
    ),
    "all of two objects": (
        {"allOf": [objects("a", a=S), objects("b", b=I)], "description": "d"},
        {"description": "d", **objects("a", "b", a=S, b=I)},
    ),
    "all that contradict": (
        {"allOf": [objects(a=S), objects(a=I)]},
        objects(a=S),
        "allOf",
    ),
    "alternatives within all": (
        {"allOf": [objects(a=S), {"anyOf": [objects("b", b=S), objects("b", "c", b=S, c=S)]}]},
        objects("b", a=S, b=S, c=S),
        "anyOf",
    ),
    "references": (
        {
            "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
            "$defs": {"A": objects("a", a=S), "B": objects("a", a=S, b={"$ref": "#/$defs/A"})},
        },
        {
            **objects("a", a=S, b={"$ref": "#/$defs/A"}),
            "$defs": {"A": objects("a", a=S), "B": objects("a", a=S, b={"$ref": "#/$defs/A"})},
        },
        "anyOf",
    ),
    "a reference to alternatives": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [objects(a=S), objects(b=S)]}}},
        {
            **objects(a=S, b=S),
            "$defs": {"A": {"anyOf": [objects(a=S), objects(b=S)]}},
        },
        "anyOf",
    ),
    "one alternative": ({"anyOf": [objects("a", a=S)]}, objects("a", a=S)),
    "null beside an object": ({"anyOf": [objects("a", a=S), {"type": "null"}]}, objects("a", a=S)),
    "a reference that leads nowhere": (
        {**objects(a=S), "allOf": [{"$ref": "#/$defs/X"}, {"$ref": "https://a.example"}]},
        objects(a=S),
        "allOf",
    ),
    "a reference to itself": (
        {**objects(a=S), "allOf": [{"$ref": "#"}]},
        objects(a=S),
        "allOf",
    ),
    "references to one another": (
        {
            "allOf": [{"$ref": "#/$defs/A"}] * 9,
            "$defs": {"A": {**objects(a=S), "allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#"}] * 9}},
        },
        {
            **objects(a=S),
            "$defs": {"A": {**objects(a=S), "allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#"}] * 9}},
        },
        "allOf",
    ),
    "no list": ({**objects(a=S), "anyOf": {"a": 1}, "oneOf": []}, objects(a=S), "anyOf", "oneOf"),
    "alternatives of a property stay": (
        objects(a={"anyOf": [S, I]}, b={"allOf": [S]}, c={"oneOf": [S, I]}),
        objects(a={"anyOf": [S, I]}, b={"allOf": [S]}, c={"oneOf": [S, I]}),
    ),
}


MESSAGES_PATH = "tools.input_schema"


def of_messages(schema: Any) -> dict[str, Any]:
    """A request of messages with a tool of this input."""
    return {"messages": [USER], "tools": [{"name": "f", "input_schema": schema}]}


@each("name", ROOTS)
def test_input_of_a_tool_is_one_object(name: str) -> None:
    schema, expected, *dropped = ROOTS[name]
    requests: tuple[tuple[Protocol, dict[str, Any], str], ...] = (
        (
            "chat",
            {"messages": [USER], "tools": [tool(parameters=schema)]},
            "tools.function.parameters",
        ),
        (
            "responses",
            {
                "input": [USER],
                "tools": [{"type": "function", "name": "f", "parameters": schema}],
            },
            "tools.parameters",
        ),
        (
            "native",
            {
                "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
                "tools": [
                    {"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}
                ],
            },
            "tools.functionDeclarations.parameters",
        ),
    )
    for client, body, path in requests:
        sent, found = translated(client, "messages", body)
        assert sent["tools"][0]["input_schema"] == expected
        assert found == [f"{path}.{keyword}" for keyword in dropped]
    # The clients of OpenAI's protocols know what these take.
    for client, body, path in (*requests[2:], ("messages", of_messages(schema), MESSAGES_PATH)):
        sent, found = translated(client, "chat", body)
        assert sent["tools"][0]["function"]["parameters"] == expected
        assert found == [f"{path}.{keyword}" for keyword in dropped]
        sent, found = translated(client, "responses", body)
        assert sent["tools"][0]["parameters"] == expected
        assert found == [f"{path}.{keyword}" for keyword in dropped]


@cases(
    "schema, expected, dropped",
    ({}, objects(), []),
    ({"type": "object"}, objects(), []),
    ({"type": ["object"], "description": "d"}, {**objects(), "description": "d"}, []),
    ({"properties": {"a": S}}, objects(a=S), []),
    ({"type": "string"}, objects(), ["tools.input_schema"]),
    (objects(a=S), objects(a=S), []),
)
def test_input_of_a_function_has_properties(schema: Any, expected: Any, dropped: list[str]) -> None:
    for upstream in ("chat", "responses"):
        sent, found = translated("messages", upstream, of_messages(schema))
        (function,) = sent["tools"]
        assert function.get("function", function)["parameters"] == expected
        assert found == dropped


@cases(
    "schema",
    {
        "allOf": [{"$ref": "#/$defs/A"}] * 5000,
        "$defs": {"A": objects(**{f"p{n}": S for n in range(9)})},
    },
    {"anyOf": [objects(f"p{n}", **{f"p{n}": S}) for n in range(MERGED_MEMBERS_MAX)]},
    {"allOf": [{"required": [f"p{n}" for n in range(200)]}] * 500},
)
def test_merged_schema_is_bounded(schema: dict[str, Any]) -> None:
    def refused() -> None:
        with pytest.raises(InvalidRequest, match=r"^p: .* too large"):
            one_object(schema, "p", lambda keyword: None)

    assert steps_of(refused) < 100 * MERGED_MEMBERS_MAX


def test_deep_schema_is_cut() -> None:
    schema: dict[str, Any] = objects(a=S)
    for _ in range(500):
        schema = {"allOf": [schema]}
    found: list[str] = []
    assert one_object(schema, "p", found.append) == {}
    assert set(found) == {"allOf"}
