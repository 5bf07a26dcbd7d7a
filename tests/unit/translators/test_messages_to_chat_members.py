"""Members of messages requests for upstreams that speak chat: carried or reported."""

from __future__ import annotations

from typing import Any

import pytest

from channels.dialects.chat import codec as chat
from channels.errors import InvalidRequest
from tests.support.rows import each
from tests.unit.translators.messages_pieces import (
    CACHED,
    USER,
    given,
    use,
)
from tests.unit.translators.wire import decoded, translated

SCHEMA = {
    "type": "object",
    "properties": {"a": {}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
TOOL = {"name": "f", "description": "d", "input_schema": SCHEMA}
FUNCTION = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": SCHEMA},
}


def format_of(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "schema": schema}


def asked(name: str, schema: Any, *, strict: bool) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": schema, "strict": strict},
    }


# name: members of messages, members that the upstream gets (None: has not), what was dropped.
MEMBERS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "a tool's own members": (
        {
            "tools": [
                {**TOOL, "type": "custom", **CACHED, "defer_loading": True, "input_examples": [{}]}
            ]
        },
        {"tools": [FUNCTION]},
        ["tools.cache_control", "tools.defer_loading", "tools.input_examples"],
    ),
    "a strict tool": (
        {"tools": [{**TOOL, "strict": True}]},
        {"tools": [{"type": "function", "function": {**FUNCTION["function"], "strict": True}}]},  # type: ignore[dict-item]
        [],
    ),
    "a strict tool with optional arguments": (
        {"tools": [{"name": "f", "input_schema": OPEN, "strict": True}]},
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "parameters": OPEN, "strict": False}}
            ]
        },
        ["tools.strict"],
    ),
    "choice auto": (
        {"tools": [TOOL], "tool_choice": {"type": "auto"}},
        {"tool_choice": "auto", "parallel_tool_calls": None},
        [],
    ),
    "choice any": (
        {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
        {"tool_choice": "required", "parallel_tool_calls": False},
        [],
    ),
    "choice tool": (
        {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        [],
    ),
    "forced choice without tools": (
        {"tool_choice": {"type": "any"}},
        {"tool_choice": None},
        ["tool_choice"],
    ),
    "more stops than the protocol takes": (
        {"stop_sequences": ["a", "b", "c", "d", "e"]},
        {"stop": ["a", "b", "c", "d"]},
        ["stop_sequences"],
    ),
    "sampling": (
        {"temperature": 1, "top_p": 0.9, "top_k": 40},
        {"temperature": 1, "top_p": 0.9, "top_k": None},
        ["top_k"],
    ),
    "a small budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"reasoning_effort": "low"},
        ["thinking.budget_tokens"],
    ),
    "a budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 10000}},
        {"reasoning_effort": "medium"},
        ["thinking.budget_tokens"],
    ),
    "a large budget": (
        {"thinking": {"type": "enabled", "budget_tokens": 32000, "display": "omitted"}},
        {"reasoning_effort": "high"},
        ["thinking.display", "thinking.budget_tokens"],
    ),
    "budget and effort: the word is carried": (
        {
            "thinking": {"type": "enabled", "budget_tokens": 2048},
            "output_config": {"effort": "max"},
        },
        {"reasoning_effort": "max"},
        ["thinking.budget_tokens"],
    ),
    "no thinking": ({"thinking": {"type": "disabled"}}, {"reasoning_effort": "none"}, []),
    "thinking as the model sees fit": (
        {"thinking": {"type": "adaptive"}},
        {"reasoning_effort": None},
        ["thinking"],
    ),
    "thinking of a kind we do not know": (
        {"thinking": {"type": "between_tools"}, "output_config": {"effort": "heroic"}},
        {"reasoning_effort": None},
        ["output_config.effort", "thinking"],
    ),
    "a schema": (
        {"output_config": {"format": format_of({**SCHEMA, "title": "Answer"})}},
        {"response_format": asked("Answer", {**SCHEMA, "title": "Answer"}, strict=True)},
        [],
    ),
    "a schema in its older place, without a name": (
        {"output_format": format_of(SCHEMA)},
        {"response_format": asked("response", SCHEMA, strict=True)},
        [],
    ),
    "a schema with optional properties cannot be enforced": (
        {"output_config": {"format": format_of(OPEN)}},
        {"response_format": asked("response", OPEN, strict=False)},
        ["output_config.format"],
    ),
    "what is the default loses nothing": (
        {"service_tier": "auto", "speed": "standard", "mcp_servers": []},
        {"speed": None},
        [],
    ),
    "the provider's own members": (
        {"container": "c", "speed": "fast", "mcp_servers": [{}], **CACHED},
        {"container": None},
        ["container", "speed", "mcp_servers", "cache_control"],
    ),
}


@each("name", MEMBERS)
def test_members_are_carried_or_reported(name: str) -> None:
    members, expected, dropped = MEMBERS[name]
    client = {"model": "m", "max_tokens": 9, "messages": [USER], **members}
    body, report = translated("messages", "chat", client)
    for member, value in expected.items():
        assert body.get(member) == value, member
    assert report == dropped


def test_stream_is_always_asked_for_usage() -> None:
    client = {"model": "m", "max_tokens": 9, "messages": [USER]}
    body, _ = translated("messages", "chat", client, stream=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    plain, _ = translated("messages", "chat", client)
    assert "stream" not in plain
    assert "stream_options" not in plain


def test_maximum_goes_under_the_channels_name_for_it() -> None:
    client = {"model": "m", "max_tokens": 9, "messages": [USER]}
    body, _ = translated("messages", "chat", client, max_tokens_param="max_completion_tokens")
    assert body["max_completion_tokens"] == 4000
    assert "max_tokens" not in body


def test_tool_names_too_long_for_chat_are_shortened_and_known() -> None:
    name = "mcp__" + "s" * 60 + "__search"
    client = {
        "max_tokens": 9,
        "messages": [
            USER,
            {"role": "assistant", "content": [use("c", name=name)]},
            {"role": "user", "content": [given("c", "x")]},
        ],
        "tools": [{**TOOL, "name": name}, {**TOOL, "name": "short"}],
        "tool_choice": {"type": "tool", "name": name},
    }
    body, dropped = translated("messages", "chat", client)
    names = chat.tool_names(decoded("messages", client))
    (short,) = names
    assert names == {short: name}
    assert len(short) == 64
    assert body["tools"][0]["function"]["name"] == short
    assert body["tools"][1]["function"]["name"] == "short"
    assert body["tool_choice"]["function"]["name"] == short
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == short
    assert dropped == []


@pytest.mark.parametrize(
    ("member", "value", "param"),
    [
        ("stop_sequences", "END", "stop_sequences"),
        ("stop_sequences", [1], "stop_sequences"),
        ("output_config", {"effort": 3}, "output_config.effort"),
        ("tools", [{"input_schema": {}}], "tools[0].name"),
        ("metadata", {"user_id": 7}, "metadata.user_id"),
    ],
)
def test_wrong_type_is_the_clients_error(member: str, value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decoded("messages", {"max_tokens": 9, "messages": [USER], member: value})
    assert raised.value.param == param
