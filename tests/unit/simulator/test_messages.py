"""The messages wire: blocks, the order of events, usage in two places."""

from __future__ import annotations

from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Reply, ask

TOOLS = [
    {
        "name": name,
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    for name in ("weather", "news")
]


def messages(**options: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, "messages", **options)

    return run(one())


def names(reply: Reply) -> list[str]:
    """The event names, repeated deltas once."""
    found: list[str] = []
    for name, data in reply.events:
        assert name == data["type"]
        if not found or found[-1] != name:
            found.append(name)
    return found


def test_plain_answer_has_the_shape() -> None:
    body = messages(text="the tide is low").json
    assert body["id"].startswith("msg_")
    assert (body["type"], body["role"], body["model"]) == ("message", "assistant", "model-a")
    (block,) = body["content"]
    assert block["type"] == "text"
    assert block["text"].endswith("the tide is low")
    assert (body["stop_reason"], body["stop_sequence"]) == ("end_turn", None)
    assert body["usage"]["output_tokens"] > 0
    assert body["usage"]["cache_read_input_tokens"] == 0


def test_stream_has_the_documented_order() -> None:
    reply = messages(stream=True, text="the tide is low")
    assert names(reply) == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    text = "".join(
        data["delta"]["text"] for name, data in reply.events if name == "content_block_delta"
    )
    assert text.endswith("the tide is low")


def test_stream_usage_starts_small_and_ends_with_totals() -> None:
    reply = messages(stream=True, sim={"usage": {"input": 100, "output": 30, "cached": 60}})
    data = {event["type"]: event for event in reply.data}
    start = data["message_start"]["message"]
    assert start["content"] == []
    assert start["stop_reason"] is None
    assert start["usage"]["input_tokens"] == 40
    assert start["usage"]["cache_read_input_tokens"] == 60
    assert start["usage"]["output_tokens"] == 1
    assert data["message_delta"]["usage"] == {
        "input_tokens": 40,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 60,
        "output_tokens": 30,
    }


def test_tool_use_blocks_come_with_their_json_in_pieces() -> None:
    reply = messages(stream=True, tools=TOOLS)
    starts = [data for data in reply.data if data["type"] == "content_block_start"]
    assert [start["index"] for start in starts] == [0, 1]
    assert [start["content_block"]["name"] for start in starts] == ["weather", "news"]
    assert all(start["content_block"]["input"] == {} for start in starts)
    assert all(start["content_block"]["id"].startswith("toolu_") for start in starts)
    pieces = [
        data["delta"]["partial_json"]
        for data in reply.data
        if data["type"] == "content_block_delta" and data["index"] == 1
    ]
    assert len(pieces) > 1
    assert "".join(pieces) == '{"city":"hello out there"}'
    delta = next(data for data in reply.data if data["type"] == "message_delta")
    assert delta["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}


def test_plain_tool_use_has_an_object_as_input() -> None:
    body = messages(tools=TOOLS).json
    assert [block["input"] for block in body["content"]] == [{"city": "hello out there"}] * 2
    assert body["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        ({"type": "none"}, []),
        ({"type": "auto", "disable_parallel_tool_use": True}, ["weather"]),
        ({"type": "tool", "name": "news"}, ["news"]),
        ({"type": "any"}, ["weather", "news"]),
    ],
)
def test_tool_choice_is_obeyed(choice: dict[str, Any], called: list[str]) -> None:
    content = messages(tools=TOOLS, tool_choice=choice).json["content"]
    assert [block["name"] for block in content if block["type"] == "tool_use"] == called


def test_tool_result_gets_a_text_answer() -> None:
    turns = [
        {"role": "user", "content": "rain?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "weather"}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": "wet"}],
                }
            ],
        },
    ]
    body = messages(messages=turns, tools=TOOLS).json
    assert body["stop_reason"] == "end_turn"
    assert "wet" in body["content"][0]["text"]


def test_thinking_comes_first_and_signed() -> None:
    asked = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    body = messages(**asked).json
    assert [block["type"] for block in body["content"]] == ["thinking", "text"]
    assert body["content"][0]["signature"]
    reply = messages(stream=True, **asked)
    kinds = [data["delta"]["type"] for data in reply.data if data["type"] == "content_block_delta"]
    assert kinds[:3] == ["thinking_delta", "signature_delta", "text_delta"]
    stops = [data["index"] for data in reply.data if data["type"] == "content_block_stop"]
    assert stops == [0, 1]


def test_token_maximum_and_cache_marks() -> None:
    body = messages(text="x" * 100, max_tokens=4).json
    assert (body["stop_reason"], body["usage"]["output_tokens"]) == ("max_tokens", 4)
    part = {"type": "text", "text": "x" * 100, "cache_control": {"type": "ephemeral"}}
    usage = messages(messages=[{"role": "user", "content": [part]}]).json["usage"]
    assert usage["cache_read_input_tokens"] > 0
    assert usage["cache_creation_input_tokens"] > 0
    assert (
        usage["cache_creation"]["ephemeral_5m_input_tokens"] == usage["cache_creation_input_tokens"]
    )


def test_stated_tool_call_goes_out_as_stated() -> None:
    call = [{"name": "w", "arguments": {"a": 1}, "id": "toolu_own"}]
    body = messages(sim={"tool_calls": call}).json
    assert body["content"] == [
        {"type": "tool_use", "id": "toolu_own", "name": "w", "input": {"a": 1}}
    ]
