"""Thinking of a messages upstream goes through a chat client and comes back with its proof."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from channels.dialects.messages import codec as messages
from channels.translation.model import Reasoning, Response, Text, Thinking, ToolCall
from channels.translation.tool_calls import LossReport
from tests.unit.translators.wire import (
    answered,
    data_of,
    decoded,
    events_from,
    sse,
    translated,
    whole,
    written,
)

CONTENT: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "first, ", "signature": "sig-1"},
    {"type": "redacted_thinking", "data": "blob"},
    {"type": "thinking", "thinking": "second", "signature": "sig-2"},
    {"type": "thinking", "thinking": "", "signature": "sig-of-nothing-shown"},
    {"type": "text", "text": "I call."},
    {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
]


def streamed_content() -> list[dict[str, Any]]:
    """The stream of CONTENT, thinking in pieces."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m"}}]
    for index, block in enumerate(CONTENT):
        start = {**block}
        deltas: list[dict[str, Any]] = []
        if block["type"] == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            words = str(block["thinking"])
            for piece in (words[:3], words[3:]):
                deltas.append({"type": "thinking_delta", "thinking": piece})
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "text":
            start["text"] = ""
            deltas.append({"type": "text_delta", "text": block["text"]})
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    return [*events, {"type": "message_stop"}]


def kept_by_a_client(stream: bytes) -> dict[str, Any]:
    """The message a chat client puts together that adds up what it does not know."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    for chunk in data_of(stream):
        if chunk == "[DONE]" or not chunk["choices"]:
            continue
        delta = chunk["choices"][0]["delta"]
        message["content"] += delta.get("content") or ""
        if "reasoning_content" in delta:
            thought = message.get("reasoning_content", "") + delta["reasoning_content"]
            message["reasoning_content"] = thought
        for entry in delta.get("reasoning_details", []):
            message.setdefault("reasoning_details", []).append(entry)
        for piece in delta.get("tool_calls", []):
            if "id" in piece:
                calls[piece["index"]] = {
                    "id": piece["id"],
                    "type": "function",
                    "function": {**piece["function"]},
                }
            else:
                calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    message["tool_calls"] = list(calls.values())
    return message


def whole_message() -> dict[str, Any]:
    body = {"content": CONTENT, "stop_reason": "tool_use"}
    said: dict[str, Any] = whole("chat", answered("messages", body))["choices"][0]["message"]
    return said


def streamed_message() -> dict[str, Any]:
    events = events_from("messages", sse(*streamed_content()))
    return kept_by_a_client(written("chat", events))


@pytest.mark.parametrize("said", [whole_message(), streamed_message()], ids=["whole", "streamed"])
def test_signatures_survive_a_chat_client(said: dict[str, Any]) -> None:
    assert said["reasoning_content"] == "first, second"
    result = {"role": "tool", "tool_call_id": "t1", "content": "42"}
    client = {"messages": [{"role": "user", "content": "go"}, said, result]}
    body, dropped = translated("chat", "messages", client)
    assert body["messages"][1] == {"role": "assistant", "content": CONTENT}
    assert dropped == []


def test_thinking_is_never_visible_text() -> None:
    for said in (whole_message(), streamed_message()):
        assert said["content"] == "I call."


def test_entries_of_the_envelope_stand_alone() -> None:
    details = streamed_message()["reasoning_details"]
    assert details == whole_message()["reasoning_details"]
    assert [entry["index"] for entry in details] == [0, 1, 2, 3]
    assert {entry["format"] for entry in details} == {"anthropic-claude-v1"}
    assert details[0]["text"] == "first, "


def test_signature_of_another_provider_is_dropped_and_reported() -> None:
    entry = {
        "type": "reasoning.text",
        "index": 0,
        "format": "google-gemini-v1",
        "text": "hm",
        "signature": "theirs",
    }
    said = {"role": "assistant", "content": "x", "reasoning_details": [entry]}
    body, dropped = translated(
        "chat", "messages", {"messages": [{"role": "user", "content": "a"}, said]}
    )
    assert body["messages"][1] == {"role": "assistant", "content": "x"}
    assert dropped == ["messages.reasoning_content"]


def test_envelope_of_an_unknown_maker_proves_nothing() -> None:
    entry = {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "whose"}
    said = {"role": "assistant", "content": "x", "reasoning_details": [entry, "junk", {}]}
    request = decoded("chat", {"messages": [{"role": "user", "content": "a"}, said]})
    assert request.turns[1].parts == (Thinking("hm"), Text("x"))


def test_signature_of_a_call_travels_with_the_call() -> None:
    call = ToolCall("c", "f", "{}", signature="theirs", signer="native")
    answer = Response(id=None, model=None, parts=(call,), finish="tool_calls")
    said = whole("chat", answer)["choices"][0]["message"]
    assert said["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "theirs"}}
    request = decoded("chat", {"messages": [said]})
    assert request.turns[0].parts == (call,)


def test_foreign_signature_comes_back_from_a_messages_client_as_it_was() -> None:
    thought = Thinking("hm", signature="theirs", signer="native")
    hidden = Thinking("", redacted="blob", signer="responses")
    answer = Response(id=None, model=None, parts=(thought, hidden), finish="stop")
    content = whole("messages", answer)["content"]
    assert content[0]["signature"] == "translated:native:theirs"
    request = decoded("messages", {"messages": [{"role": "assistant", "content": content}]})
    assert request.turns[0].parts == (thought, hidden)


def test_thinking_with_a_budget_is_not_asked_amid_calls_it_cannot_prove() -> None:
    """The protocol refuses such a turn; the client learns what was left out."""
    body = {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        ]
    }
    request = replace(decoded("chat", body), reasoning=Reasoning(budget_tokens=2048))
    report = LossReport()
    encoded = messages.encode_request(
        request, model="m", stream=False, max_tokens=4000, report=report
    )
    assert "thinking" not in encoded
    assert report.dropped == ["reasoning_effort"]
    # The same request, once the thought is there.
    assistant = request.turns[1]
    proven = replace(assistant, parts=(Thinking("hm", "s", "messages"), *assistant.parts))
    request = replace(request, turns=(request.turns[0], proven, request.turns[2]))
    encoded = messages.encode_request(
        request, model="m", stream=False, max_tokens=2000, report=LossReport()
    )
    assert encoded["thinking"] == {"type": "enabled", "budget_tokens": 1999}


def test_thought_is_silent_in_a_messages_stream_until_it_is_signed() -> None:
    pieces: list[dict[str, Any] | bytes] = [
        {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]},
        {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]},
        b"[DONE]",
    ]
    stream = written("messages", events_from("chat", sse(*pieces)))
    assert b"hm" not in stream
    assert data_of(stream)[0]["type"] == "message_start"
