"""Chat-completions on a channel that speaks messages, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests

USAGE = {"input": 1000, "output": 100, "cached": 400}
COST_NANO_USD = 1_640_000
SAID = f"[[sim {json.dumps({'text': 'Good day to you', 'usage': USAGE})}]] Hello"
T1 = "openai_chat_to_anthropic_messages"
T3 = "anthropic_messages_to_openai_chat"


@pytest.fixture(scope="module")
def h(postgres: PostgresForTests) -> Iterator[House]:
    with shared_house(
        postgres,
        translations=["chat_to_messages", "messages_to_chat"],
        channels=[
            channel("speaks-messages", protocols=["messages"]),
            channel("speaks-chat", protocols=["chat"]),
        ],
        models=[
            model("claude", "speaks-messages"),
            model("gpt", "speaks-chat"),
            model("both", "speaks-chat", "speaks-messages"),
        ],
    ) as built:
        yield built


@pytest.fixture
def sdk(h: House) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=h.key, max_retries=0) as client:
        yield client


def test_sdk_gets_its_protocol_from_a_messages_channel(h: House, sdk: OpenAI) -> None:
    before = h.client.remaining_nano_usd()
    raw = sdk.chat.completions.with_raw_response.create(
        model="claude", messages=[{"role": "user", "content": SAID}], seed=7
    )
    answer = raw.parse()
    assert answer.choices[0].message.content == "Good day to you"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (1000, 100)
    assert raw.headers["X-Protocol-Translation"] == T1
    assert "seed" in raw.headers["X-Protocol-Warning"]
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD


def test_translated_stream_is_whole_and_charged_alike(h: House, sdk: OpenAI) -> None:
    before = h.client.remaining_nano_usd()
    with sdk.chat.completions.create(
        model="claude",
        messages=[{"role": "user", "content": SAID}],
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "Good day to you"
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (1000, 100)
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD


def test_tools_go_over_and_come_back(sdk: OpenAI) -> None:
    tool: Any = {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    answer = sdk.chat.completions.create(
        model="claude",
        messages=[{"role": "user", "content": "What is the weather?"}],
        tools=[tool],
        tool_choice="required",
    )
    calls = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls"
    assert calls is not None
    assert calls[0].type == "function"
    assert calls[0].function.name == "weather"
    assert isinstance(json.loads(calls[0].function.arguments), dict)


def test_native_channel_comes_before_a_translated_one(h: House, sdk: OpenAI) -> None:
    raw = sdk.chat.completions.with_raw_response.create(
        model="both", messages=[{"role": "user", "content": "Hello"}]
    )
    assert "X-Protocol-Translation" not in raw.headers


def test_translated_attempt_follows_a_native_one(h: House, sdk: OpenAI) -> None:
    h.upstream.fault("speaks-chat", status=500)
    try:
        raw = sdk.chat.completions.with_raw_response.create(
            model="both", messages=[{"role": "user", "content": "Hello"}]
        )
    finally:
        h.upstream.heal("speaks-chat")
    assert raw.headers["X-Protocol-Translation"] == T1


def test_strict_client_is_refused_instead_of_losing_a_field(h: House) -> None:
    reply = h.client.chat(model="claude", seed=7, headers={"X-Protocol-Strict": "1"})
    assert reply.status == 400
    assert "seed" in reply.json["error"]["message"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_messages_client_on_a_chat_channel(h: House, stream: bool) -> None:
    before = h.client.remaining_nano_usd()
    reply = h.client.send(
        "POST",
        "/v1/messages",
        {
            "model": "gpt",
            "max_tokens": 200,
            "messages": [{"role": "user", "content": SAID}],
            "stream": stream,
        },
    )
    assert reply.status == 200
    assert reply.headers["x-protocol-translation"] == T3
    if stream:
        assert reply.body.rstrip().endswith(b'data: {"type":"message_stop"}')
    else:
        assert reply.json["content"][0]["text"] == "Good day to you"
        assert reply.json["stop_reason"] == "end_turn"
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD


def test_cut_translated_stream_has_no_end(h: House) -> None:
    cut = '[[sim {"cut_after_events": 6, "events": 30, "delay_event_ms": 1}]]'
    reply = h.client.chat(model="claude", stream=True, messages=[{"role": "user", "content": cut}])
    assert reply.status == 200
    assert b"[DONE]" not in reply.body
    assert b'"finish_reason":"' not in reply.body
