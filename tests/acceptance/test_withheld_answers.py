"""A chat upstream withholds its answer, message and all: a refusal in every protocol, paid for.

Whole answers and streams; natively the upstream's bytes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.translated import SETTINGS, chunks, gemini, told_to, whole_and_streamed
from tests.support.client import Reply
from tests.support.house import House

pytestmark = pytest.mark.long

# The house of this module.
__all__ = ["SETTINGS"]

USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
COST_NANO_USD = 2_000_000
FILTERED: dict[str, Any] = {
    "id": "chatcmpl-1",
    "model": "up",
    "choices": [
        {
            "index": 0,
            "finish_reason": "content_filter",
            "content_filter_results": {"hate": {"filtered": True, "severity": "high"}},
        }
    ],
}


def withhold(h: House, *, stream: bool) -> bytes:
    """Have the upstream withhold its answer; what it sends."""
    if not stream:
        body = {**FILTERED, "object": "chat.completion", "usage": USAGE}
        told_to(h, "gpt", body=body)
        return json.dumps(body).encode()
    events = [json.dumps(FILTERED), json.dumps({"choices": [], "usage": USAGE}), "[DONE]"]
    told = "".join(f"data: {event}\n\n" for event in events)
    told_to(h, "gpt", body=told, headers={"Content-Type": "text/event-stream"})
    return told.encode()


def messages(h: House, *, stream: bool) -> Reply:
    body = {"model": "gpt", "max_tokens": 200, "messages": [{"role": "user", "content": "Hello"}]}
    return h.client.send(
        "POST", "/v1/messages", {**body, "stream": stream}, headers={"x-api-key": h.key}
    )


@whole_and_streamed
def test_withheld_answer_is_a_refusal_over_messages(h: House, stream: bool) -> None:
    withhold(h, stream=stream)
    before = h.client.remaining_nano_usd()
    reply = messages(h, stream=stream)
    assert reply.status == 200
    if stream:
        (reason,) = [
            one["delta"]["stop_reason"] for one in chunks(reply) if one["type"] == "message_delta"
        ]
    else:
        reason = reply.json["stop_reason"]
        assert reply.json["content"] == []
    assert reason == "refusal"
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD


@whole_and_streamed
def test_withheld_answer_is_unsafe_over_native_content(h: House, stream: bool) -> None:
    withhold(h, stream=stream)
    before = h.client.remaining_nano_usd()
    reply = gemini(h, "gpt", stream=stream)
    assert reply.status == 200
    last = chunks(reply)[-1] if stream else reply.json
    assert last["candidates"][0]["finishReason"] == "SAFETY"
    assert last["usageMetadata"]["totalTokenCount"] == 1100
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD


@whole_and_streamed
def test_withheld_answer_passes_untranslated_and_is_paid_for(h: House, stream: bool) -> None:
    sent = withhold(h, stream=stream)
    before = h.client.remaining_nano_usd()
    options: dict[str, Any] = {}
    if stream:
        options = {"stream": True, "stream_options": {"include_usage": True}}
    reply = h.client.chat(model="gpt", **options)
    assert reply.status == 200
    if stream:
        assert reply.body == sent
    else:
        assert reply.json == json.loads(sent)
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD
