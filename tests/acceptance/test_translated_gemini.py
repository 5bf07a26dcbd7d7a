"""A native-content client on channels that speak chat or messages (T4, T6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.translated import (
    COST_NANO_USD,
    GEMINI_TOOLS,
    PATHS,
    PNG,
    SETTINGS,
    TWO_CALLS,
    USAGE,
    chunks,
    gemini,
    parts_of,
    sent,
    text_of,
    told_to,
    whole_and_streamed,
)
from tests.support.house import House

clients = pytest.mark.parametrize("of_model", ["gpt", "claude"])


# The house of this module.
__all__ = ["SETTINGS"]


@whole_and_streamed
@clients
def test_gemini_client_is_answered_and_charged_alike(h: House, of_model: str, stream: bool) -> None:
    told_to(h, of_model, text="Grüße, 世界", usage=USAGE)
    before = h.client.remaining_nano_usd()
    reply = gemini(h, of_model, stream=stream)
    assert reply.status == 200
    assert reply.headers["x-protocol-translation"] == PATHS[of_model]
    assert "x-protocol-warning" not in reply.headers
    last = chunks(reply)[-1] if stream else reply.json
    assert text_of(parts_of(reply, stream=stream)) == "Grüße, 世界"
    assert last["candidates"][0]["finishReason"] == "STOP"
    usage = last["usageMetadata"]
    assert usage["promptTokenCount"] == 1000
    assert usage["candidatesTokenCount"] == 100
    assert usage["totalTokenCount"] == 1100
    assert usage["cachedContentTokenCount"] == 400
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD


@clients
def test_gemini_stream_is_one_array_unless_events_are_asked_for(h: House, of_model: str) -> None:
    told_to(h, of_model, text="Grüße, 世界")
    reply = gemini(h, of_model, stream=True, query="")
    assert reply.headers["content-type"].startswith("application/json")
    array = reply.json
    assert text_of([p for c in array for p in c["candidates"][0]["content"]["parts"]]) == (
        "Grüße, 世界"
    )
    assert array[-1]["candidates"][0]["finishReason"] == "STOP"
    assert "usageMetadata" in array[-1]


@clients
@pytest.mark.parametrize("query", ["", "?alt=sse"], ids=["array", "events"])
def test_cut_gemini_stream_has_no_end(h: House, of_model: str, query: str) -> None:
    told_to(h, of_model, events=30, cut_after_events=8, delay_event_ms=1)
    reply = gemini(h, of_model, stream=True, query=query)
    assert reply.status == 200
    assert b'"text"' in reply.body
    assert b"finishReason" not in reply.body
    assert query or not reply.body.rstrip().endswith(b"]")
    assert h.row(reply.trace)["status"] == "error"


@clients
@pytest.mark.parametrize("query", ["", "?alt=sse"], ids=["array", "events"])
def test_error_within_a_stream_is_the_clients_error_event(
    h: House, of_model: str, query: str
) -> None:
    told_to(h, of_model, events=30, error_event=8, message="The model fell over.")
    reply = gemini(h, of_model, stream=True, query=query)
    assert reply.status == 200
    if query:
        last = chunks(reply)[-1]
    else:
        assert not reply.body.rstrip().endswith(b"]")
        last = json.loads(reply.body + b"]")[-1]
    assert last["error"]["message"] == "The model fell over."
    assert isinstance(last["error"]["code"], int)
    assert b"finishReason" not in reply.body


@whole_and_streamed
@clients
def test_gemini_calls_and_their_results_make_two_turns(
    h: House, of_model: str, stream: bool
) -> None:
    told_to(h, of_model, tool_calls=TWO_CALLS)
    asked = {"role": "user", "parts": [{"text": "The weather in both?"}]}
    tooling: dict[str, Any] = {
        "tools": GEMINI_TOOLS,
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    }
    first = gemini(h, of_model, stream=stream, contents=[asked], **tooling)
    found = [p for p in parts_of(first, stream=stream) if "functionCall" in p]
    assert [part["functionCall"]["args"] for part in found] == [c["arguments"] for c in TWO_CALLS]
    last = chunks(first)[-1] if stream else first.json
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert sent(h)["tool_choice"] == ("required" if of_model == "gpt" else {"type": "any"})
    h.upstream.reset()
    results = [
        {"functionResponse": {**named(part), "response": {"degrees": degrees}}}
        for part, degrees in zip(found, (7, 9), strict=True)
    ]
    turns = [asked, {"role": "model", "parts": found}, {"role": "user", "parts": results}]
    second = gemini(h, of_model, contents=turns, tools=GEMINI_TOOLS)
    assert second.json["candidates"][0]["finishReason"] == "STOP"
    said = sent(h)["messages"]
    if of_model == "gpt":
        ids = [call["id"] for call in said[1]["tool_calls"]]
        assert [(m["tool_call_id"], m["content"]) for m in said[2:]] == list(
            zip(ids, ('{"degrees":7}', '{"degrees":9}'), strict=True)
        )
    else:
        ids = [block["id"] for block in said[1]["content"]]
        assert [block["tool_use_id"] for block in said[2]["content"]] == ids


def named(part: dict[str, Any]) -> dict[str, Any]:
    return {name: part["functionCall"][name] for name in ("id", "name")}


@whole_and_streamed
def test_thinking_and_its_signature_come_back_to_a_messages_channel(h: House, stream: bool) -> None:
    told_to(h, "claude", reasoning_text="Let me think.", tool_calls=TWO_CALLS[:1])
    asked = {"role": "user", "parts": [{"text": "The weather?"}]}
    thinking = {"thinkingConfig": {"thinkingBudget": 2000, "includeThoughts": True}}
    config = {"maxOutputTokens": 4000, **thinking}
    first = gemini(
        h,
        "claude",
        stream=stream,
        contents=[asked],
        tools=GEMINI_TOOLS,
        generationConfig=config,
    )
    said = parts_of(first, stream=stream)
    assert text_of(said, thought=True) == "Let me think."
    asked_for = {"type": "enabled", "budget_tokens": 2000, "display": "summarized"}
    assert sent(h)["thinking"] == asked_for
    h.upstream.reset()
    (call,) = [part for part in said if "functionCall" in part]
    result = {"functionResponse": {**named(call), "response": {"degrees": 7}}}
    turns = [asked, {"role": "model", "parts": said}, {"role": "user", "parts": [result]}]
    second = gemini(h, "claude", contents=turns, tools=GEMINI_TOOLS, generationConfig=config)
    assert second.status == 200
    assert sent(h)["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "Let me think.",
        "signature": "c2ltdWxhdGVkLXNpZ25hdHVyZQ==",
    }


def test_image_of_a_gemini_client_goes_over(h: House) -> None:
    inline = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    contents = [{"role": "user", "parts": [{"text": "What is this?"}, inline]}]
    assert gemini(h, "gpt", contents=contents).status == 200
    assert sent(h)["messages"][0]["content"][1]["image_url"]["url"] == (
        f"data:image/png;base64,{PNG}"
    )
    assert gemini(h, "claude", contents=contents).status == 200
    assert sent(h)["messages"][0]["content"][1]["source"] == {
        "type": "base64",
        "media_type": "image/png",
        "data": PNG,
    }


@clients
@pytest.mark.parametrize(
    ("reason", "expected"), [("length", "MAX_TOKENS"), ("content_filter", "SAFETY")]
)
def test_finish_reasons_reach_a_gemini_client(
    h: House, of_model: str, reason: str, expected: str
) -> None:
    told_to(h, of_model, finish_reason=reason)
    for stream in (False, True):
        reply = gemini(h, of_model, stream=stream)
        last = chunks(reply)[-1] if stream else reply.json
        assert last["candidates"][0]["finishReason"] == expected
