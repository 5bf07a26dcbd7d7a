"""JSON schemas for upstreams and of clients of native-content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.gemini.references import COPIED_BYTES_MIN, COPIED_MEMBERS_MAX, CopyRoom
from channels.dialects.gemini.schemas import read_schema, write_schema
from channels.errors import InvalidRequest, TakesLong
from channels.translation.losses import LossReport
from tests.support.rows import cases, each
from tests.support.steps import steps_of
from tests.unit.translation.pieces import user
from tests.unit.translation.translated import translated

S = {"type": "string"}
N = {"type": "number"}
I = {"type": "integer"}  # noqa: E741
B = {"type": "boolean"}
ANY = {"anyOf": [S, N, B]}


def objects(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def written(schema: Any) -> tuple[dict[str, Any], list[str]]:
    report = LossReport()
    found = write_schema(schema, "p", report, CopyRoom())
    return found, [name.removeprefix("p.") for name in report.dropped]


# name: a JSON schema, what goes on the wire, and the keywords that are reported.
SCHEMAS: dict[str, tuple[Any, ...]] = {
    "what both know": (
        {**objects(a={**S, "minLength": 1, "pattern": "x"}), "required": ["a"], "title": "t"},
        {**objects(a={**S, "minLength": 1, "pattern": "x"}), "required": ["a"], "title": "t"},
    ),
    "keywords that are refused": (
        {
            **objects(a=S),
            "$schema": "http://json-schema.org/draft-07/schema#",
            "additionalProperties": False,
            "patternProperties": {},
        },
        objects(a=S),
        "$schema",
        "additionalProperties",
        "patternProperties",
    ),
    "null among the types": ({"type": ["string", "null"]}, {**S, "nullable": True}),
    "only null": ({"type": "null"}, {"type": "null"}),
    "several types": (
        {"type": ["string", "integer"], "description": "d", "minLength": 2, "minimum": 3},
        {
            "anyOf": [
                {**S, "minLength": 2, "description": "d"},
                {**I, "minimum": 3, "description": "d"},
            ]
        },
    ),
    "several types and null": (
        {"type": ["string", "integer", "null"]},
        {"anyOf": [{**S, "nullable": True}, {**I, "nullable": True}]},
    ),
    "a description beside alternatives": (
        {"description": "weight", "title": "t", "anyOf": [N, {**S, "description": "its own"}]},
        {
            "anyOf": [
                {**N, "description": "weight", "title": "t"},
                {**S, "description": "its own", "title": "t"},
            ]
        },
    ),
    "null among several alternatives": (
        {"anyOf": [S, I, {"type": "null"}], "default": "x"},
        {"anyOf": [{**S, "nullable": True, "default": "x"}, {**I, "nullable": True}]},
    ),
    "anything with a description": (
        {"description": "d"},
        {"anyOf": [{**one, "description": "d"} for one in (S, N, B)]},
        "type",
    ),
    "alternatives within alternatives": (
        {"anyOf": [{"anyOf": [S, I]}, {"oneOf": [B]}, {"type": ["array", "number"], "items": S}]},
        {"anyOf": [S, I, B, {"type": "array", "items": S}, N]},
    ),
    "members beside alternatives of objects": (
        {
            **objects(a=S),
            "required": ["a"],
            "anyOf": [{**objects(b=I), "required": ["b"]}, objects(a=B)],
        },
        {
            "anyOf": [
                {**objects(b=I, a=S), "required": ["a", "b"]},
                {**objects(a=B), "required": ["a"]},
            ]
        },
    ),
    "a type beside alternatives of others": (
        {**S, "anyOf": [I, {**S, "minLength": 1}]},
        {**S, "minLength": 1},
        "anyOf",
    ),
    "a type that no alternative has": (
        {**B, "title": "t", "anyOf": [I, S]},
        {"anyOf": [{**I, "title": "t"}, {**S, "title": "t"}]},
        "type",
    ),
    "alternatives of a reference": (
        {**objects(a={"$ref": "#/$defs/A", "title": "t"}), "$defs": {"A": {"anyOf": [S, I]}}},
        objects(a={"anyOf": [{**S, "title": "t"}, {**I, "title": "t"}]}),
    ),
    "types in capitals": ({"type": "STRING"}, S),
    "null among the alternatives": (
        {"anyOf": [S, {"type": "null"}], "description": "d", "default": "x"},
        {**S, "description": "d", "default": "x", "nullable": True},
    ),
    "alternatives": ({"anyOf": [S, I]}, {"anyOf": [S, I]}),
    "exactly one of some": ({"oneOf": [S, I]}, {"anyOf": [S, I]}, "oneOf"),
    "exactly one of one": ({"oneOf": [{**S, "title": "t"}]}, {**S, "title": "t"}),
    "alternatives that only narrow": (
        {**objects(a=S, b=S), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        objects(a=S, b=S),
        "anyOf",
    ),
    "a constant": ({"const": "a"}, {**S, "enum": ["a"]}),
    "a constant number": ({"type": "integer", "const": 5}, {**I, "minimum": 5, "maximum": 5}),
    "a constant number without a type": ({"const": 5}, {**I, "minimum": 5, "maximum": 5}),
    "a constant boolean": ({"const": True}, B, "const"),
    "a constant null": ({"const": None}, {"type": "null"}),
    "a list of words": ({"enum": ["a", "b"]}, {**S, "enum": ["a", "b"]}),
    "a list of words and null": (
        {"type": ["string", "null"], "enum": ["a", None]},
        {**S, "enum": ["a"], "nullable": True},
    ),
    "an empty word in a list": ({**S, "enum": ["", "b"]}, {**S, "enum": ["b"]}, "enum"),
    "a list of numbers": ({**I, "enum": [1, 5, 3]}, {**I, "minimum": 1, "maximum": 5}, "enum"),
    "a list of anything": ({**S, "enum": ["a", 1]}, S, "enum"),
    "both booleans": ({"enum": [True, False]}, B),
    "a format it knows": ({**S, "format": "date-time"}, {**S, "format": "date-time"}),
    "a format it does not": ({**S, "format": "uri"}, S, "format"),
    "a format of numbers": ({**I, "format": "int32"}, {**I, "format": "int32"}),
    "a limit that excludes, of whole numbers": (
        {**I, "exclusiveMinimum": 0, "exclusiveMaximum": 9},
        {**I, "minimum": 1, "maximum": 8},
    ),
    "a limit that excludes": (
        {**N, "exclusiveMinimum": 0.5},
        {**N, "minimum": 0.5},
        "exclusiveMinimum",
    ),
    "a reference": ({**objects(a={"$ref": "#/$defs/A"}), "$defs": {"A": S}}, objects(a=S)),
    "a reference with something beside it": (
        {**objects(a={"$ref": "#/$defs/A", "description": "d"}), "$defs": {"A": S}},
        objects(a={**S, "description": "d"}),
    ),
    "a reference in allOf, as older pydantic writes it": (
        {
            **objects(a={"allOf": [{"$ref": "#/definitions/A"}], "title": "t"}),
            "definitions": {"A": objects(b=S)},
        },
        objects(a={**objects(b=S), "title": "t"}),
    ),
    "a reference that leads nowhere": (
        objects(a={"$ref": "#/$defs/B"}),
        objects(a={"type": "object"}),
        "$ref",
    ),
    "a reference to elsewhere": (
        objects(a={"$ref": "https://a.example/schema"}),
        objects(a={"type": "object"}),
        "$ref",
    ),
    "a schema that holds itself": (
        {**objects(next={"$ref": "#/$defs/A"}), "$defs": {"A": objects(n={"$ref": "#/$defs/A"})}},
        objects(next=objects(n={"type": "object"})),
        "$ref",
    ),
    "two uses of one definition": (
        {**objects(a={"$ref": "#/$defs/A"}, b={"$ref": "#/$defs/A"}), "$defs": {"A": S}},
        objects(a=S, b=S),
    ),
    "all of some": (
        {"allOf": [objects(a=S), {**objects(b=I), "required": ["b"]}], "required": ["a"]},
        {**objects(b=I, a=S), "required": ["a", "b"]},
    ),
    "all of some that contradict": ({"allOf": [S, I]}, S, "allOf"),
    "an array without items": ({"type": "array"}, {"type": "array", "items": ANY}, "items"),
    "an array of two kinds": (
        {"type": "array", "prefixItems": [S, I]},
        {"type": "array", "items": ANY},
        "prefixItems",
        "items",
    ),
    "items of an array": (
        {"items": {"type": ["integer", "null"]}},
        {"type": "array", "items": {**I, "nullable": True}},
    ),
    "anything": ({}, ANY, "type"),
    "true": (objects(a=True), objects(a=ANY), "type"),
    "a type of no protocol": (objects(a={"type": "any"}), objects(a=ANY), "type"),
    "a type among others": ({"type": ["string", "file"]}, S),
    "a required member that is not listed": (
        {**objects(a=S), "required": ["a", "b"]},
        {**objects(a=S), "required": ["a"]},
        "required",
    ),
    "an object of any members": ({"type": "object"}, {"type": "object"}),
    "a property called as a keyword": (objects(type=S, format=S), objects(type=S, format=S)),
}


@each("name", SCHEMAS)
def test_schema_is_written_as_the_protocol_can(name: str) -> None:
    schema, expected, *dropped = SCHEMAS[name]
    assert written(schema) == (expected, dropped)


@cases("schema", {"anyOf": [S, I]}, {"type": ["string", "integer"]})
def test_name_of_a_response_stands_in_each_alternative(schema: dict[str, Any]) -> None:
    form = {"name": "n", "description": "d", "schema": schema}
    members = {"response_format": {"type": "json_schema", "json_schema": form}}
    body, dropped = translated("chat", "native", {"messages": [user("hi")], **members})
    named = {"title": "n", "description": "d"}
    found = body["generationConfig"]["responseSchema"]
    assert found == {"anyOf": [{**S, **named}, {**I, **named}]}
    assert dropped == []
    assert written({})[0] == ANY, "what stands for anything is no request's own"


def test_parameters_are_one_object() -> None:
    """The root of a function's parameters has a type, which excludes alternatives beside it."""
    schema = {
        **objects(a=S),
        "oneOf": [{**objects(b=S), "required": ["b"]}, {"$ref": "#/$defs/C"}],
        "$defs": {"C": {**objects(b=I, c=S), "required": ["b", "c"]}},
    }
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    body, dropped = translated("chat", "native", {"messages": [user("hi")], "tools": tools})
    (declared,) = body["tools"][0]["functionDeclarations"]
    expected = {**objects(a=S, b={"anyOf": [S, I]}, c=S), "required": ["b"]}
    assert declared["parameters"] == expected
    assert dropped == ["tools.function.parameters.oneOf"]


def test_schema_too_deep_is_cut_and_reported() -> None:
    schema: dict[str, Any] = S
    for _ in range(500):
        schema = {"type": "array", "items": schema}
    found, dropped = written(schema)
    assert dropped == ["p"]
    for _ in range(65):
        found = found["items"]
    assert found == ANY


def doubling(steps: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {"A0": S}
    for step in range(1, steps):
        reference = {"$ref": f"#/$defs/A{step - 1}"}
        definitions[f"A{step}"] = objects(a=reference, b=reference)
    return {"$ref": f"#/$defs/A{steps - 1}", "$defs": definitions}


def all_of(target: Any, count: int) -> dict[str, Any]:
    return {**objects(**{f"p{n}": {"$ref": "#/$defs/A"} for n in range(count)}), "$defs": target}


LONG = "x" * 20_000
AMPLIFIED = {
    "references that double": doubling(40),
    "a long description": all_of({"A": {**S, "description": LONG}}, 400),
    "a long pattern": all_of({"A": {**S, "pattern": LONG}}, 400),
    "a long list of values": all_of({"A": {**S, "enum": [str(n) for n in range(4_000)]}}, 400),
    "a long default": all_of({"A": {"type": "object", "default": {"a": [LONG]}}}, 400),
    "a long name": all_of({"A": objects(**{LONG: S})}, 400),
    "an unknown keyword of a long name": all_of({"A": {**S, LONG: 1}}, 400),
    "parts": {
        "allOf": [{"properties": {f"p{n}": {"$ref": "#/$defs/A"}}} for n in range(400)],
        "$defs": {"A": {**S, "description": LONG}},
    },
}


@each("schema", AMPLIFIED.values())
def test_what_is_written_out_is_bounded_by_what_came(schema: dict[str, Any]) -> None:
    def refused() -> None:
        with pytest.raises(InvalidRequest, match=r"^p: .*references.* too large"):
            write_schema(schema, "p", LossReport(), CopyRoom())

    size = len(json.dumps(schema))
    assert steps_of(refused) < 100 * COPIED_MEMBERS_MAX
    properties = schema.get("properties", {})
    few = {**schema, "properties": dict(list(properties.items())[:2])}
    if properties:
        assert len(json.dumps(written(few)[0])) < COPIED_BYTES_MIN + 5 * size


def test_schemas_of_a_request_share_the_room_and_the_loop_has_less_of_it() -> None:
    schema, room = doubling(10), CopyRoom()
    for _ in range(2):
        write_schema(schema, "p", LossReport(), room)
    with pytest.raises(InvalidRequest):
        write_schema(schema, "p", LossReport(), room)
    with pytest.raises(TakesLong):
        write_schema(schema, "p", LossReport(), CopyRoom(is_here=True))
    write_schema(doubling(7), "p", LossReport(), CopyRoom(is_here=True))


def test_reference_is_looked_up_once() -> None:
    looked_up: list[object] = []

    class Definitions(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            looked_up.append(name)
            return super().__contains__(name)

    properties = {f"p{number}": {"$ref": "#/$defs/a"} for number in range(200)}
    root = {**objects(**properties), "$defs": Definitions(a={"$ref": "#/$defs" + "/" * 1_000})}
    found, dropped = written(root)
    assert looked_up == ["a", ""]
    assert dropped == ["$ref"]
    assert found["properties"]["p199"] == {"type": "object"}


KEYWORDS = [
    *("type", "format", "nullable", "enum", "const", "items", "properties", "required"),
    *("anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "additionalProperties"),
    *("exclusiveMinimum", "minimum", "minLength", "title"),
]
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["string", "object", "array", "null", "integer", "#", "#/$defs/a", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)
        | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=5))
def test_no_schema_raises_or_leaves_a_keyword_that_is_refused(schema: dict[str, Any]) -> None:
    found, _ = written(schema)
    assert_known(found)


def assert_known(schema: Any) -> None:
    assert isinstance(schema, dict)
    refused = {"const", "oneOf", "allOf", "$ref", "$defs", "exclusiveMinimum", "not"}
    assert refused.isdisjoint(schema)
    assert "additionalProperties" not in schema
    assert isinstance(schema.get("type", ""), str)
    assert "anyOf" not in schema or len(schema) == 1
    for inner in schema.get("properties", {}).values():
        assert_known(inner)
    for inner in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        assert_known(inner)


# name: the protocol's own schema, and the JSON schema.
OWN_SCHEMAS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
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
    "the other spelling": ({"any_of": [{"type": "STRING"}]}, {"anyOf": [{"type": "string"}]}),
    "definitions": (
        {"ref": "#/$defs/A", "defs": {"A": {"type": "STRING"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}},
    ),
    "a property's name is its own": (
        {"type": "OBJECT", "properties": {"max_items": {"type": "STRING"}}},
        {"type": "object", "properties": {"max_items": {"type": "string"}}},
    ),
}


@each("name", OWN_SCHEMAS)
def test_schema_becomes_a_json_schema(name: str) -> None:
    own, expected = OWN_SCHEMAS[name]
    assert read_schema(own, "p") == expected


def test_order_of_properties_is_the_order_requested() -> None:
    properties = {name: {"type": "STRING"} for name in "abc"}
    own = {"type": "OBJECT", "properties": properties, "propertyOrdering": ["c", "x", "a"]}
    assert list(read_schema(own, "p")["properties"]) == ["c", "a", "b"]


def test_schema_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {"type": "STRING"}
    for _ in range(100):
        schema = {"type": "ARRAY", "items": schema}
    with pytest.raises(InvalidRequest) as refused:
        read_schema(schema, "tools[0].functionDeclarations[0].parameters")
    assert refused.value.param == "tools[0].functionDeclarations[0].parameters"
