"""Members of chat requests for upstreams that speak messages: carried or reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.errors import InvalidRequest
from tests.support.rows import each
from tests.unit.translators.chat_pieces import (
    CACHED,
    USER,
    call,
    calls,
    result,
    tool,
)
from tests.unit.translators.wire import decoded, translated

TOOLS = [tool("f", parameters={"type": "object", "properties": {}})]
NAMED = {"type": "function", "function": {"name": "f"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("f")]}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}


def schema_format(**members: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, **members}}


# name: members of chat, members that the upstream gets (None: has not), what was dropped.
MEMBERS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "choice auto": (
        {"tools": TOOLS, "tool_choice": "auto"},
        {"tool_choice": {"type": "auto"}},
        [],
    ),
    "choice none": (
        {"tools": TOOLS, "tool_choice": "none", "parallel_tool_calls": False},
        {"tool_choice": {"type": "none"}},
        [],
    ),
    "choice required": (
        {"tools": TOOLS, "tool_choice": "required"},
        {"tool_choice": {"type": "any"}},
        [],
    ),
    "choice named": (
        {"tools": TOOLS, "tool_choice": NAMED, "parallel_tool_calls": False},
        {"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
        [],
    ),
    "choice of some: only those are offered": (
        {"tools": [*TOOLS, tool("g")], "tool_choice": ALLOWED},
        {
            "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
            "tool_choice": {"type": "any"},
        },
        [],
    ),
    "not in parallel needs a choice to stand in": (
        {"tools": TOOLS, "parallel_tool_calls": False},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        [],
    ),
    "in parallel is what happens anyway": (
        {"tools": TOOLS, "parallel_tool_calls": True},
        {"tool_choice": None},
        [],
    ),
    "choice without tools": ({"tool_choice": "auto"}, {"tool_choice": None, "tools": None}, []),
    "forced choice without tools": (
        {"tool_choice": "required", "tools": [{"type": "web_search"}]},
        {"tool_choice": None, "tools": None},
        ["tool_choice", "tools.web_search"],
    ),
    "a tool without parameters has an empty object of them": (
        {"tools": [tool("f", description="d", strict=True)]},
        {
            "tools": [
                {
                    "name": "f",
                    "description": "d",
                    "input_schema": {"type": "object", "properties": {}},
                    "strict": True,
                }
            ]
        },
        [],
    ),
    "a schema without type is an object's": (
        {"tools": [tool("f", parameters={"properties": {"a": {}}, "$schema": "s"})]},
        {
            "tools": [
                {
                    "name": "f",
                    "input_schema": {"properties": {"a": {}}, "$schema": "s", "type": "object"},
                }
            ]
        },
        [],
    ),
    "a schema that is no object's is changed and reported": (
        {"tools": [tool("f", parameters={"type": "string"})]},
        {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
        ["tools.function.parameters"],
    ),
    "a mark for the cache on a tool": (
        {"tools": [{**tool("f"), **CACHED}]},
        {"tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}, **CACHED}]},
        [],
    ),
    "functions from before there were tools": (
        {"functions": [{"name": "f"}], "function_call": {"name": "f"}},
        {
            "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
            "tool_choice": {"type": "tool", "name": "f"},
        },
        [],
    ),
    "stop as a string": ({"stop": "END"}, {"stop_sequences": ["END"]}, []),
    "blank stops are refused there": (
        {"stop": ["\n", "a", ""]},
        {"stop_sequences": ["a"]},
        ["stop"],
    ),
    "temperature 0 is a value": ({"temperature": 0}, {"temperature": 0}, []),
    "temperature ends at 1": ({"temperature": 1.5}, {"temperature": 1.0}, ["temperature"]),
    "a top_p beside a temperature is refused there": (
        {"temperature": 0.5, "top_p": 0.95},
        {"temperature": 0.5, "top_p": None},
        ["top_p"],
    ),
    "also one of 1, which takes nothing away": (
        {"temperature": 0.5, "top_p": 1},
        {"temperature": 0.5, "top_p": None},
        ["top_p"],
    ),
    "JSON by a schema": (
        {"response_format": schema_format(description="d", strict=True)},
        {
            "output_config": {
                "format": {
                    "type": "json_schema",
                    "schema": {**SCHEMA, "title": "n", "description": "d"},
                }
            }
        },
        [],
    ),
    "a schema's own words win": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {**SCHEMA, "title": "t"}, "strict": False},
            }
        },
        {"output_config": {"format": {"type": "json_schema", "schema": {**SCHEMA, "title": "t"}}}},
        ["response_format.json_schema.name", "response_format.json_schema.strict"],
    ),
    "effort and a schema stand together": (
        {"reasoning_effort": "low", "response_format": schema_format()},
        {
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {**SCHEMA, "title": "n"}},
            }
        },
        [],
    ),
    "no effort": (
        {"reasoning_effort": "none", "temperature": 0.3},
        {"thinking": {"type": "disabled"}, "output_config": None, "temperature": 0.3},
        [],
    ),
    "minimal effort": (
        {"reasoning_effort": "minimal"},
        {"output_config": {"effort": "low"}},
        ["reasoning_effort"],
    ),
    "an effort nobody knows": (
        {"reasoning_effort": "heroic"},
        {"output_config": None, "thinking": None},
        ["reasoning_effort"],
    ),
    "thinking excludes sampling": (
        {"reasoning_effort": "high", "temperature": 0.7, "top_p": 0.5, "top_k": 5},
        {"temperature": None, "top_p": None, "top_k": None},
        ["temperature", "top_p", "top_k"],
    ),
    "a forced tool excludes thinking, not effort": (
        {"reasoning_effort": "high", "tools": TOOLS, "tool_choice": "required", "temperature": 0.5},
        {"thinking": None, "output_config": {"effort": "high"}, "temperature": 0.5},
        [],
    ),
    "a service tier there is not": (
        {"service_tier": "flex"},
        {"service_tier": None},
        ["service_tier"],
    ),
    "one answer": ({"n": 1}, {"n": None}, []),
    "no store, no penalties, no logprobs: nothing is lost": (
        {
            "store": False,
            "logprobs": False,
            "frequency_penalty": 0,
            "presence_penalty": 0.0,
            "logit_bias": {},
            "metadata": {},
            "modalities": ["text"],
        },
        {},
        [],
    ),
    "null is as good as nothing": (
        {"temperature": None, "stop": None, "tools": None, "seed": None, "store": None},
        {"temperature": None},
        [],
    ),
    "seed 0 is a seed": ({"seed": 0}, {"seed": None}, ["seed"]),
}


@each("name", MEMBERS)
def test_members_are_carried_or_reported(name: str) -> None:
    members, expected, dropped = MEMBERS[name]
    body, report = translated("chat", "messages", {"model": "m", "messages": [USER], **members})
    for member, value in expected.items():
        assert body.get(member) == value, member
    assert report == dropped


def test_maximum_and_stream_are_the_callers() -> None:
    body, _ = translated(
        "chat", "messages", {"model": "m", "messages": [USER], "max_tokens": 5}, stream=True
    )
    assert (body["model"], body["max_tokens"], body["stream"]) == ("up", 4000, True)
    plain, _ = translated("chat", "messages", {"model": "m", "messages": [USER], "stream": True})
    assert "stream" not in plain


def test_either_name_of_the_maximum_is_the_maximum() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        assert decoded("chat", {"messages": [USER], name: 9}).max_tokens == 9


def test_long_arguments_keep_their_numbers() -> None:
    arguments = '{"a": 12345678901234567890123, "b": 0.1, "c": [1, null, true], "d": "\\u00e9"}'
    body, dropped = translated(
        "chat", "messages", {"messages": [USER, calls(call("c", arguments)), result("c", "x")]}
    )
    assert body["messages"][1]["content"][0]["input"] == json.loads(arguments)
    assert dropped == []


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("top_p", "high"),
        ("stop", 7),
        ("stop", ["a", 7]),
        ("parallel_tool_calls", "no"),
        ("seed", 1.5),
        ("user", {}),
        ("reasoning_effort", 3),
    ],
)
def test_wrong_type_is_the_clients_error(member: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decoded("chat", {"messages": [USER], member: value})
    assert raised.value.param == member
