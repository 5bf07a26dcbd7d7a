"""Requests of chat clients for upstreams that speak messages, trap by trap."""

import json
from typing import Any

import pytest

from channels.errors import InvalidRequest
from tests.support.rows import cases, each
from tests.unit.translation.pieces import (
    ASSISTANT,
    CACHED,
    JPEG,
    PNG,
    USER,
    assistant,
    call,
    calls,
    developer,
    file,
    given,
    image,
    image_url,
    inline,
    result,
    text,
    tool,
    use,
    user,
)
from tests.unit.translation.translated import decoded, translated

# name: messages of chat, then the upstream's `system` and `messages`, then what was dropped.
CONVERSATIONS: dict[str, tuple[Any, ...]] = {
    "system first": ([{"role": "system", "content": "be kind"}, USER], "be kind", [USER]),
    "developer is system, and each keeps its own block": (
        [{"role": "system", "content": "a"}, developer("b"), USER],
        [text("a"), text("b")],
        [USER],
    ),
    "system in the middle stays where it was": (
        [USER, ASSISTANT, {"role": "system", "content": "now rhyme"}, USER],
        None,
        [USER, ASSISTANT, user([text("now rhyme"), text("hi")])],
        "messages.role",
    ),
    "system between a call and its result does not part them": (
        [USER, calls(call("c1")), {"role": "system", "content": "s"}, result("c1", "42")],
        None,
        [USER, assistant([use("c1")]), user([given("c1", content="42"), text("s")])],
        "messages.role",
    ),
    "instructions alone are what is asked": (
        [{"role": "system", "content": "say hi"}],
        None,
        [user("say hi")],
        "messages.role",
    ),
    "blank and empty texts go": ([user([text(""), text(" \n"), text("a")])], None, [user("a")]),
    "neighbours merge": (
        [USER, USER, ASSISTANT, ASSISTANT],
        None,
        [user([text("hi"), text("hi")]), assistant([text("hello"), text("hello")])],
    ),
    "the model spoke first": (
        [ASSISTANT, USER],
        None,
        [user("."), ASSISTANT, USER],
        "messages.role",
    ),
    "the last words of the model do not end in white space": (
        [USER, assistant("The answer is ")],
        None,
        [USER, assistant("The answer is")],
    ),
    "all results of one turn's calls are one turn, before the rest": (
        [
            USER,
            calls(call("c1", '{"a": 1}'), call("c2", "", "g"), content="both"),
            result("c2", "two"),
            user("and?"),
            result("c1", [text("one")]),
        ],
        None,
        [
            USER,
            assistant([text("both"), use("c1", {"a": 1}), use("c2", name="g")]),
            user([given("c2", content="two"), given("c1", content="one"), text("and?")]),
        ],
    ),
    "empty results have no content": (
        [USER, calls(call("c1")), result("c1", "")],
        None,
        [USER, assistant([use("c1")]), user([given("c1")])],
    ),
    "an orphan result stays: the upstream's refusal is the client's": (
        [USER, ASSISTANT, result("lost", "42")],
        None,
        [USER, ASSISTANT, user([given("lost", content="42")])],
    ),
    "ids the protocol refuses change alike in call and result": (
        [USER, calls(call("functions.f:0")), result("functions.f:0", "42")],
        None,
        [
            USER,
            assistant([use("functions_f_0_d6bdd4de")]),
            user([given("functions_f_0_d6bdd4de", content="42")]),
        ],
    ),
    "arguments that are not JSON are kept under a name": (
        [USER, calls(call("c1", '{"a": ')), result("c1", "x")],
        None,
        [
            USER,
            assistant([use("c1", {"raw_arguments": '{"a": '})]),
            user([given("c1", content="x")]),
        ],
        "messages.tool_calls.function.arguments",
    ),
    "an image's type is what its bytes are": (
        [user([image_url(f"DATA:image/png;base64,{JPEG}")])],
        None,
        [user([image(inline("image/jpeg", JPEG))])],
    ),
    "a text file is a document of text": (
        [user([file(file_data="data:text/plain;base64,aGk=")])],
        None,
        [
            user(
                [
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "hi"},
                    }
                ]
            )
        ],
    ),
    "what has no block is reported, not the turn around it": (
        [
            user(
                [
                    {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                    file(file_id="file-1"),
                    text("hi"),
                ]
            )
        ],
        None,
        [USER],
        "messages.input_audio",
        "messages.file.file_id",
    ),
    "an image in a tool's result": (
        [USER, calls(call("c1")), result("c1", [image_url(f"data:image/png;base64,{PNG}")])],
        None,
        [
            USER,
            assistant([use("c1")]),
            user([given("c1", content=[image(inline("image/png", PNG))])]),
        ],
    ),
    "marks for the cache survive, and keep the string an array": (
        [{"role": "system", "content": [text("s", **CACHED)]}, user([text("hi", **CACHED)])],
        [text("s", **CACHED)],
        [user([text("hi", **CACHED)])],
    ),
    "other members of a part do not leak": (
        [user([text("hi", index=3, prompt_cache_breakpoint={"mode": "x"})])],
        None,
        [USER],
        "messages.index",
        "messages.prompt_cache_breakpoint",
    ),
    "functions from before there were tools match by name": (
        [
            USER,
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "42"},
        ],
        None,
        [
            USER,
            assistant([use("call_ddc047a74cb2c54dc4de8e5d")]),
            user([given("call_ddc047a74cb2c54dc4de8e5d", content="42")]),
        ],
    ),
}


@each("name", CONVERSATIONS)
def test_conversation_is_written_as_messages(name: str) -> None:
    messages, system, expected, *dropped = CONVERSATIONS[name]
    body, report = translated("chat", "messages", {"model": "m", "messages": messages})
    assert body.get("system") == system
    assert body["messages"] == expected
    assert report == dropped


def test_system_in_the_middle_keeps_its_role_where_the_upstream_takes_it() -> None:
    messages = [USER, ASSISTANT, developer("s"), USER]
    body, dropped = translated(
        "chat", "messages", {"model": "m", "messages": messages}, has_system_turns=True
    )
    assert body["messages"] == [USER, ASSISTANT, {"role": "system", "content": "s"}, USER]
    assert dropped == []


TOOLS = [tool("f", parameters={"type": "object", "properties": {}})]
NAMED = {"type": "function", "function": {"name": "f"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("f")]}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}


def schema_format(**members: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, **members}}


# name: members of chat, members that the upstream gets (None: has not), what was dropped.
MEMBERS: dict[str, tuple[Any, ...]] = {
    "choice auto": ({"tools": TOOLS, "tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
    "choice none": (
        {"tools": TOOLS, "tool_choice": "none", "parallel_tool_calls": False},
        {"tool_choice": {"type": "none"}},
    ),
    "choice named": (
        {"tools": TOOLS, "tool_choice": NAMED, "parallel_tool_calls": False},
        {"tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}},
    ),
    "choice of some: only those are offered": (
        {"tools": [*TOOLS, tool("g")], "tool_choice": ALLOWED},
        {
            "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
            "tool_choice": {"type": "any"},
        },
    ),
    "in parallel is what happens anyway": (
        {"tools": TOOLS, "parallel_tool_calls": True},
        {"tool_choice": None},
    ),
    "choice without tools": ({"tool_choice": "auto"}, {"tool_choice": None, "tools": None}),
    "forced choice without tools": (
        {"tool_choice": "required", "tools": [{"type": "web_search"}]},
        {"tool_choice": None, "tools": None},
        "tool_choice",
        "tools.web_search",
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
    ),
    "a schema that is no object's is changed and reported": (
        {"tools": [tool("f", parameters={"type": "string"})]},
        {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
        "tools.function.parameters",
    ),
    "blank stops are refused there": ({"stop": ["\n", "a", ""]}, {"stop_sequences": ["a"]}, "stop"),
    "temperature 0 is a value": ({"temperature": 0}, {"temperature": 0}),
    "temperature ends at 1": ({"temperature": 1.5}, {"temperature": 1.0}, "temperature"),
    "a top_p beside a temperature is refused there": (
        {"temperature": 0.5, "top_p": 0.95},
        {"temperature": 0.5, "top_p": None},
        "top_p",
    ),
    "also one of 1, which takes nothing away": (
        {"temperature": 0.5, "top_p": 1},
        {"temperature": 0.5, "top_p": None},
        "top_p",
    ),
    "a schema's own words win": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {**SCHEMA, "title": "t"}, "strict": False},
            }
        },
        {"output_config": {"format": {"type": "json_schema", "schema": {**SCHEMA, "title": "t"}}}},
        "response_format.json_schema.name",
        "response_format.json_schema.strict",
    ),
    "effort and a schema stand together": (
        {"reasoning_effort": "low", "response_format": schema_format()},
        {
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {**SCHEMA, "title": "n"}},
            }
        },
    ),
    "no effort": (
        {"reasoning_effort": "none", "temperature": 0.3},
        {"thinking": {"type": "disabled"}, "output_config": None, "temperature": 0.3},
    ),
    "minimal effort": (
        {"reasoning_effort": "minimal"},
        {"output_config": {"effort": "low"}},
        "reasoning_effort",
    ),
    "an effort nobody knows": (
        {"reasoning_effort": "heroic"},
        {"output_config": None, "thinking": None},
        "reasoning_effort",
    ),
    "thinking excludes sampling": (
        {"reasoning_effort": "high", "temperature": 0.7, "top_p": 0.5, "top_k": 5},
        {"temperature": None, "top_p": None, "top_k": None},
        "temperature",
        "top_p",
        "top_k",
    ),
    "a forced tool excludes thinking, not effort": (
        {"reasoning_effort": "high", "tools": TOOLS, "tool_choice": "required", "temperature": 0.5},
        {"thinking": None, "output_config": {"effort": "high"}, "temperature": 0.5},
    ),
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
    ),
    "null is as good as nothing": (
        {"temperature": None, "stop": None, "tools": None, "seed": None, "store": None},
        {"temperature": None},
    ),
    "seed 0 is a seed": ({"seed": 0}, {"seed": None}, "seed"),
}


@each("name", MEMBERS)
def test_members_are_carried_or_reported(name: str) -> None:
    members, expected, *dropped = MEMBERS[name]
    body, report = translated("chat", "messages", {"model": "m", "messages": [USER], **members})
    for member, value in expected.items():
        assert body.get(member) == value, member
    assert report == dropped


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


@cases(
    "member, value",
    ("top_p", "high"),
    ("stop", 7),
    ("stop", ["a", 7]),
    ("parallel_tool_calls", "no"),
    ("seed", 1.5),
    ("user", {}),
    ("reasoning_effort", 3),
)
def test_wrong_type_is_the_clients_error(member: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decoded("chat", {"messages": [USER], member: value})
    assert raised.value.param == member
