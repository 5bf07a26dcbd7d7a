"""A chat-completions client on a channel that speaks native-content (T2)."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.translated import (
    CHAT_TOOLS,
    COST_NANO_USD,
    PNG,
    SETTINGS,
    T2,
    TWO_CALLS,
    USAGE,
    chat,
    chunks,
    sent,
    streamed_calls,
    told_to,
    whole_and_streamed,
)
from tests.support.house import House

# The house of this module.
__all__ = ["SETTINGS"]


@whole_and_streamed
def test_chat_client_is_answered_and_charged_alike(h: House, stream: bool) -> None:
    told_to(h, "gemini", text="Grüße, 世界", usage=USAGE)
    before = h.client.remaining_nano_usd()
    reply = chat(h, stream=stream, stream_options={"include_usage": True} if stream else None)
    assert reply.status == 200
    assert reply.headers["x-protocol-translation"] == T2
    assert "x-protocol-warning" not in reply.headers
    if stream:
        assert reply.text == "Grüße, 世界"
        assert reply.is_complete
        finishes = [c["choices"][0]["finish_reason"] for c in chunks(reply) if c["choices"]]
        assert finishes[-1] == "stop"
        assert set(finishes[:-1]) == {None}
        usage = chunks(reply)[-1]["usage"]
    else:
        choice = reply.json["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("Grüße, 世界", "stop")
        usage = reply.json["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (
        1000,
        100,
        1100,
    )
    assert usage["prompt_tokens_details"]["cached_tokens"] == 400
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD
    row = h.row(reply.trace)
    assert (row["status"], row["input_tokens"], row["cached_tokens"]) == ("success", 1000, 400)


@whole_and_streamed
def test_parallel_calls_and_their_results_make_two_turns(h: House, stream: bool) -> None:
    told_to(h, "gemini", tool_calls=TWO_CALLS)
    asked = {"role": "user", "content": "The weather in both?"}
    first = chat(h, messages=[asked], tools=CHAT_TOOLS, tool_choice="required", stream=stream)
    calling = sent(h)["toolConfig"]["functionCallingConfig"]
    assert calling == {"mode": "ANY"}
    calls = streamed_calls(first) if stream else first.json["choices"][0]["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [
        call["arguments"] for call in TWO_CALLS
    ]
    assert len({call["id"] for call in calls}) == 2
    h.upstream.reset()
    said = {"role": "assistant", "content": None, "tool_calls": calls}
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": json.dumps({"degrees": degrees})}
        for call, degrees in zip(calls, (7, 9), strict=True)
    ]
    # In the other order: the upstream wants them in that of the calls.
    second = chat(h, messages=[asked, said, *reversed(results)], tools=CHAT_TOOLS)
    assert second.json["choices"][0]["finish_reason"] == "stop"
    user, model_turn, answered = sent(h)["contents"]
    assert (user["role"], model_turn["role"], answered["role"]) == ("user", "model", "user")
    assert [part["functionCall"]["args"] for part in model_turn["parts"]] == [
        call["arguments"] for call in TWO_CALLS
    ]
    # What the model signed came back to it, on the call that it had signed.
    assert [part.get("thoughtSignature") for part in model_turn["parts"]] == [
        "c2ltdWxhdGVkLXRob3VnaHQ=",
        None,
    ]
    assert [part["functionResponse"]["response"] for part in answered["parts"]] == [
        {"degrees": 7},
        {"degrees": 9},
    ]
    assert {part["functionResponse"]["name"] for part in answered["parts"]} == {"weather"}


def test_images_go_inline_and_by_address(h: House) -> None:
    content = [
        {"type": "text", "text": "What are these?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.jpg"}},
    ]
    assert chat(h, messages=[{"role": "user", "content": content}]).status == 200
    _, inline, file = sent(h)["contents"][0]["parts"]
    assert inline == {"inlineData": {"mimeType": "image/png", "data": PNG}}
    assert file["fileData"]["fileUri"] == "https://pictures.example/cat.jpg"


@whole_and_streamed
def test_thinking_is_shown_apart_from_the_answer(h: House, stream: bool) -> None:
    told_to(h, "gemini", reasoning_text="Let me think.", text="Four.")
    reply = chat(h, stream=stream, reasoning_effort="low")
    if stream:
        thought = "".join(
            c["choices"][0]["delta"].get("reasoning_content") or "" for c in chunks(reply)
        )
        said = reply.text
    else:
        message = reply.json["choices"][0]["message"]
        thought, said = message["reasoning_content"], message["content"]
    assert (thought, said) == ("Let me think.", "Four.")
    assert "thinkingConfig" in sent(h)["generationConfig"]


@whole_and_streamed
@pytest.mark.parametrize(
    ("reason", "expected"),
    [("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("STOP", "stop")],
)
def test_finish_reasons_of_gemini_are_those_of_chat(
    h: House, stream: bool, reason: str, expected: str
) -> None:
    told_to(h, "gemini", finish_reason=reason)
    reply = chat(h, stream=stream)
    found = (chunks(reply)[-1] if stream else reply.json)["choices"][0]["finish_reason"]
    assert found == expected
