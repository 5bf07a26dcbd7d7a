"""Requests of messages clients for upstreams that speak chat-completions, trap by trap."""

from typing import Any

import pytest

from channels.errors import InvalidRequest
from channels.translation.session import codec
from tests.support.rows import cases, each
from tests.unit.translation.pieces import (
    ASSISTANT,
    CACHED,
    INLINE,
    PDF,
    SHOWN,
    USER,
    assistant,
    call,
    file,
    given,
    result,
    text,
    tool,
    use,
    user,
)
from tests.unit.translation.translated import decoded, translated

# name: `system` and messages of the client, messages of the upstream, what was dropped.
CONVERSATIONS: dict[str, tuple[Any, ...]] = {
    "system as a string": ("be kind", [USER], [{"role": "system", "content": "be kind"}, USER]),
    "system as blocks": (
        [text("a"), text("b", **CACHED)],
        [USER],
        [{"role": "system", "content": [text("a"), text("b")]}, USER],
        "system.cache_control",
    ),
    "system in the middle": (
        "first",
        [USER, ASSISTANT, {"role": "system", "content": "now rhyme"}, USER],
        [
            {"role": "system", "content": "first"},
            USER,
            ASSISTANT,
            {"role": "system", "content": "now rhyme"},
            USER,
        ],
    ),
    "text blocks": (
        None,
        [user([text("a"), text("b", **CACHED)])],
        [user([text("a"), text("b")])],
        "messages.cache_control",
    ),
    "calls and results": (
        None,
        [
            USER,
            assistant([text("both"), use("c1", {"a": 1}), use("c2")]),
            user([given("c1", "one"), given("c2", [text("two")])]),
        ],
        [
            USER,
            assistant("both", tool_calls=[call("c1", '{"a":1}'), call("c2")]),
            result("c1", "one"),
            result("c2", "two"),
        ],
    ),
    "results come before what else the user says": (
        None,
        [USER, assistant([use("c1")]), user([text("and?"), given("c1", "one")])],
        [
            USER,
            {"role": "assistant", "tool_calls": [call("c1")]},
            result("c1", "one"),
            user("and?"),
        ],
    ),
    "empty and failed results": (
        None,
        [
            assistant([use("c1"), use("c2")]),
            user([given("c1"), given("c2", "boom", is_error=True)]),
        ],
        [
            {"role": "assistant", "tool_calls": [call("c1"), call("c2")]},
            result("c1", ""),
            result("c2", "boom"),
        ],
        "messages.tool_result.is_error",
    ),
    "tools that a search found": (
        None,
        [
            assistant([use("c1")]),
            user([given("c1", [{"type": "tool_reference", "tool_name": one} for one in "fg"])]),
        ],
        [
            {"role": "assistant", "tool_calls": [call("c1")]},
            result("c1", [text("Tool found: f"), text("Tool found: g")]),
        ],
        "messages.tool_reference",
    ),
    "an image in a result follows all results": (
        None,
        [
            assistant([use("c1"), use("c2")]),
            user([given("c1", [text("look"), INLINE]), given("c2", "two"), text("well?")]),
        ],
        [
            {"role": "assistant", "tool_calls": [call("c1"), call("c2")]},
            result("c1", "look"),
            result("c2", "two"),
            user([SHOWN, text("well?")]),
        ],
    ),
    "ids longer than the protocol takes change alike": (
        None,
        [assistant([use("toolu_" + "x" * 50)]), user([given("toolu_" + "x" * 50, "1")])],
        [
            {"role": "assistant", "tool_calls": [call("toolu_" + "x" * 25 + "_101ea874")]},
            result("toolu_" + "x" * 25 + "_101ea874", "1"),
        ],
    ),
    "documents": (
        None,
        [
            user(
                [
                    {
                        "type": "document",
                        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                        "title": "a.pdf",
                        "context": "c",
                    },
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                    },
                    {"type": "document", "source": {"type": "url", "url": "https://a.example/p"}},
                    {
                        "type": "document",
                        "source": {"type": "content", "content": [text("inner"), INLINE]},
                    },
                ]
            )
        ],
        [
            user(
                [
                    file(file_data=f"data:application/pdf;base64,{PDF}", filename="a.pdf"),
                    text("words"),
                    text("inner"),
                    SHOWN,
                ]
            )
        ],
        "messages.context",
        "messages.document",
        "messages.document.source",
    ),
    "the provider's own tools go, the conversation around them stays": (
        None,
        [
            USER,
            assistant(
                [
                    text("I look it up."),
                    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
                    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                    text("It is so.", citations=[{"type": "web_search_result_location"}]),
                ]
            ),
            USER,
        ],
        [USER, assistant([text("I look it up."), text("It is so.")]), USER],
        "messages.citations",
        "messages.server_tool_use",
        "messages.web_search_tool_result",
    ),
    "the summary of what went before is said": (
        None,
        [assistant([{"type": "compaction", "content": "They met.", "signature": "s"}]), USER],
        [assistant("They met."), USER],
        "messages.compaction",
    ),
}


@each("name", CONVERSATIONS)
def test_conversation_is_written_as_chat(name: str) -> None:
    system, messages, expected, *dropped = CONVERSATIONS[name]
    client: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": messages}
    if system is not None:
        client["system"] = system
    body, report = translated("messages", "chat", client)
    assert body["messages"] == expected
    assert report == dropped


SCHEMA = {
    "type": "object",
    "properties": {"a": {}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
TOOL = {"name": "f", "description": "d", "input_schema": SCHEMA}
FUNCTION = tool("f", description="d", parameters=SCHEMA)


def format_of(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "schema": schema}


def request_of(name: str, schema: Any, *, strict: bool) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": schema, "strict": strict},
    }


# name: members of messages, members that the upstream gets (None: has not), what was dropped.
MEMBERS: dict[str, tuple[Any, ...]] = {
    "a strict tool with optional arguments": (
        {"tools": [{"name": "f", "input_schema": OPEN, "strict": True}]},
        {"tools": [tool("f", parameters=OPEN, strict=False)]},
        "tools.strict",
    ),
    "choice auto": (
        {"tools": [TOOL], "tool_choice": {"type": "auto"}},
        {"tool_choice": "auto", "parallel_tool_calls": None},
    ),
    "choice any": (
        {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        {"tool_choice": "required", "parallel_tool_calls": False},
    ),
    "forced choice without tools": (
        {"tool_choice": {"type": "any"}},
        {"tool_choice": None},
        "tool_choice",
    ),
    "more stops than the protocol takes": (
        {"stop_sequences": ["a", "b", "c", "d", "e"]},
        {"stop": ["a", "b", "c", "d"]},
        "stop_sequences",
    ),
    "a small budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"reasoning_effort": "low"},
        "thinking.budget_tokens",
    ),
    "a budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 10000}},
        {"reasoning_effort": "medium"},
        "thinking.budget_tokens",
    ),
    "a large budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 32000, "display": "omitted"}},
        {"reasoning_effort": "high"},
        "thinking.display",
        "thinking.budget_tokens",
    ),
    "budget and effort: the word is carried": (
        {
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "output_config": {"effort": "max"},
        },
        {"reasoning_effort": "max"},
        "thinking.budget_tokens",
    ),
    "thinking of a kind we do not know": (
        {"thinking": {"type": "between_tools"}, "output_config": {"effort": "heroic"}},
        {"reasoning_effort": None},
        "output_config.effort",
        "thinking",
    ),
    "a schema": (
        {"output_config": {"format": format_of({**SCHEMA, "title": "Answer"})}},
        {"response_format": request_of("Answer", {**SCHEMA, "title": "Answer"}, strict=True)},
    ),
    "a schema in its older place, without a name": (
        {"output_format": format_of(SCHEMA)},
        {"response_format": request_of("response", SCHEMA, strict=True)},
    ),
    "a schema with optional properties cannot be enforced": (
        {"output_config": {"format": format_of(OPEN)}},
        {"response_format": request_of("response", OPEN, strict=False)},
        "output_config.format",
    ),
    "what is the default loses nothing": (
        {"service_tier": "auto", "speed": "standard", "mcp_servers": []},
        {"speed": None},
    ),
}


@each("name", MEMBERS)
def test_members_are_carried_or_reported(name: str) -> None:
    members, expected, *dropped = MEMBERS[name]
    client = {"model": "m", "max_tokens": 9, "messages": [USER], **members}
    body, report = translated("messages", "chat", client)
    for member, value in expected.items():
        assert body.get(member) == value, member
    assert report == dropped


def test_usage_of_a_stream_is_always_requested() -> None:
    client = {"model": "m", "max_tokens": 9, "messages": [USER]}
    body, _ = translated("messages", "chat", client, stream=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    plain, _ = translated("messages", "chat", client)
    assert "stream" not in plain
    assert "stream_options" not in plain


def test_tool_names_too_long_for_chat_are_shortened_and_known() -> None:
    name = "mcp__" + "s" * 60 + "__search"
    client = {
        "max_tokens": 9,
        "messages": [USER, assistant([use("c", name=name)]), user([given("c", "x")])],
        "tools": [{**TOOL, "name": name}, {**TOOL, "name": "short"}],
        "tool_choice": {"type": "tool", "name": name},
    }
    body, dropped = translated("messages", "chat", client)
    names = codec("chat").tool_names(decoded("messages", client))
    (short,) = names
    assert names == {short: name}
    assert len(short) == 64
    assert body["tools"][0]["function"]["name"] == short
    assert body["tools"][1]["function"]["name"] == "short"
    assert body["tool_choice"]["function"]["name"] == short
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == short
    assert dropped == []


@cases(
    "member, value, param",
    ("stop_sequences", "END", "stop_sequences"),
    ("stop_sequences", [1], "stop_sequences"),
    ("output_config", {"effort": 3}, "output_config.effort"),
    ("tools", [{"input_schema": {}}], "tools[0].name"),
    ("metadata", {"user_id": 7}, "metadata.user_id"),
)
def test_wrong_type_is_the_clients_error(member: str, value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decoded("messages", {"max_tokens": 9, "messages": [USER], member: value})
    assert raised.value.param == param
