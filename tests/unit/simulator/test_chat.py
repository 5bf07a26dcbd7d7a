"""The chat-completions wire: shapes and orders, plain and streamed."""

from __future__ import annotations

from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Reply, ask

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    }
    for name in ("weather", "news")
]


def chat(**options: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, "chat", **options)

    return run(one())


def content(reply: Reply) -> str:
    return "".join(
        chunk["choices"][0]["delta"].get("content") or ""
        for chunk in reply.data[:-1]
        if chunk["choices"]
    )


def test_plain_answer_has_the_shape_and_echoes() -> None:
    reply = chat(text="the tide is low")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    body = reply.json
    assert list(body)[:4] == ["id", "object", "created", "model"]
    assert body["id"].startswith("chatcmpl-")
    assert body["object"] == "chat.completion"
    assert body["model"] == "model-a"
    (choice,) = body["choices"]
    assert choice["index"] == 0
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"].endswith("the tide is low")
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 0


def test_stream_has_role_deltas_finish_and_done() -> None:
    reply = chat(stream=True, text="the tide is low")
    assert reply.headers["content-type"].startswith("text/event-stream")
    *chunks, done = reply.data
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert content(reply).endswith("the tide is low")
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (
        len(chunks) - 1
    ) + ["stop"]
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert all("usage" not in chunk for chunk in chunks)


def test_usage_chunk_comes_only_when_asked_for() -> None:
    reply = chat(stream=True, stream_options={"include_usage": True})
    *chunks, usage, done = reply.data
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in chunks)


def test_stream_and_plain_answer_say_the_same() -> None:
    told = chat(sim={"text": "one and the same"}).json
    streamed = chat(
        sim={"text": "one and the same"}, stream=True, stream_options={"include_usage": True}
    )
    assert content(streamed) == told["choices"][0]["message"]["content"]
    assert streamed.data[-2]["usage"] == told["usage"]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_token_maximum_cuts_the_echo_with_length(name: str) -> None:
    body = chat(text="x" * 100, **{name: 4}).json
    assert body["choices"][0]["finish_reason"] == "length"
    assert len(body["choices"][0]["message"]["content"]) == 20
    assert body["usage"]["completion_tokens"] == 4


def test_two_tools_are_called_in_parallel() -> None:
    (choice,) = chat(tools=TOOLS, text="rain?").json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] is None
    calls = choice["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["weather", "news"]
    assert calls[0]["function"]["arguments"] == '{"city":"rain?","days":5}'
    assert len({call["id"] for call in calls}) == 2


def test_tool_call_stream_sends_id_once_and_arguments_in_pieces() -> None:
    *chunks, _ = chat(tools=TOOLS, stream=True).data
    deltas = [
        call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())
    ]
    heads = [delta for delta in deltas if "id" in delta]
    assert [(head["index"], head["function"]["name"]) for head in heads] == [
        (0, "weather"),
        (1, "news"),
    ]
    assert all(head["type"] == "function" for head in heads)
    assert len(deltas) > 4
    for index in (0, 1):
        mine = [delta["function"]["arguments"] for delta in deltas if delta["index"] == index]
        assert "".join(mine) == '{"city":"hello out there","days":15}'
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ({"tool_choice": "none"}, []),
        ({"parallel_tool_calls": False}, ["weather"]),
        ({"tool_choice": {"type": "function", "function": {"name": "news"}}}, ["news"]),
    ],
)
def test_tool_choice_is_obeyed(members: dict[str, Any], names: list[str]) -> None:
    (choice,) = chat(tools=TOOLS, **members).json["choices"]
    calls = choice["message"].get("tool_calls", [])
    assert [call["function"]["name"] for call in calls] == names


def test_tool_result_gets_a_text_answer() -> None:
    messages = [
        {"role": "user", "content": 'rain? [[sim {"tool_calls": 1}]]'},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "w", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a light drizzle"},
    ]
    (choice,) = chat(messages=messages, tools=TOOLS).json["choices"]
    assert choice["finish_reason"] == "stop"
    assert "a light drizzle" in choice["message"]["content"]


def test_images_in_the_input_are_accepted() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts = [{"type": "text", "text": "what is this"}, image]
    reply = chat(messages=[{"role": "user", "content": parts}])
    assert reply.json["choices"][0]["message"]["content"].endswith("what is this")


def test_reasoning_and_cache_are_counted() -> None:
    usage = chat(reasoning_effort="low", prompt_cache_key="k", text="x" * 98).json["usage"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 32
    assert usage["completion_tokens"] > 32
    assert usage["prompt_tokens"] == 20
    assert usage["prompt_tokens_details"]["cached_tokens"] == 10


def test_several_choices_are_all_there() -> None:
    assert [choice["index"] for choice in chat(n=2).json["choices"]] == [0, 1]
    *chunks, _ = chat(n=2, stream=True).data
    finished = [c["choices"][0] for c in chunks if c["choices"][0]["finish_reason"]]
    assert [choice["index"] for choice in finished] == [0, 1]


def test_json_formats_get_json() -> None:
    shape = {"type": "object", "properties": {"mood": {"enum": ["calm"]}}}
    formats = [
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "mood", "schema": shape}},
    ]
    texts = [
        chat(response_format=form).json["choices"][0]["message"]["content"] for form in formats
    ]
    assert texts == ['{"answer":"hello out there"}', '{"mood":"calm"}']


def test_model_name_with_format_marks_survives() -> None:
    *chunks, _ = chat(stream=True, model="100%d %b").data
    assert {chunk["model"] for chunk in chunks} == {"100%d %b"}
