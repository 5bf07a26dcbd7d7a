"""Refused, blocked, stopped at a sequence, thought about: how each wire says so, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Reply, ask

NO = "I cannot help with that."
THOUGHT = "What does she want?"


def reply_to(protocol: str, *, stream: bool = False, **sim: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, protocol, stream=stream, sim=sim)

    return run(one())


def kinds(reply: Reply) -> list[str]:
    """The types of a stream's events, repeated ones once."""
    return list(dict.fromkeys(data["type"] for data in reply.data))


# --- The model declines ---


def test_refusal_on_chat_is_a_member_of_its_own_and_an_ordinary_stop() -> None:
    (choice,) = reply_to("chat", refusal=NO).json["choices"]
    assert (choice["message"]["content"], choice["message"]["refusal"]) == (None, NO)
    assert choice["finish_reason"] == "stop"
    data = reply_to("chat", stream=True, refusal=NO).data
    deltas = [one["choices"][0]["delta"] for one in data[:-1]]
    assert "".join(delta.get("refusal") or "" for delta in deltas) == NO
    assert not any(delta.get("content") for delta in deltas)
    assert data[-2]["choices"][0]["finish_reason"] == "stop"


def test_refusal_on_responses_is_a_part_of_its_own() -> None:
    body = reply_to("responses", refusal=NO).json
    assert body["status"] == "completed"
    assert body["output"][0]["content"] == [{"type": "refusal", "refusal": NO}]
    reply = reply_to("responses", stream=True, refusal=NO)
    deltas = [one["delta"] for one in reply.data if one["type"] == "response.refusal.delta"]
    assert "".join(deltas) == NO
    (done,) = [one for one in reply.data if one["type"] == "response.refusal.done"]
    assert done["refusal"] == NO
    assert not any("output_text" in kind for kind in kinds(reply))
    (item,) = reply.data[-1]["response"]["output"]
    assert item["content"] == body["output"][0]["content"]


def test_refusal_on_messages_is_a_stop_reason_with_details() -> None:
    body = reply_to("messages", refusal=NO).json
    assert body["content"] == [{"type": "text", "text": NO}]
    assert body["stop_reason"] == "refusal"
    assert body["stop_details"]["type"] == "refusal"
    last = reply_to("messages", stream=True, refusal=NO).data[-2]
    assert last["delta"]["stop_reason"] == "refusal"
    assert last["delta"]["stop_details"] == body["stop_details"]


def test_refusal_on_native_is_the_finish_for_safety() -> None:
    (candidate,) = reply_to("native", refusal=NO).json["candidates"]
    assert candidate["content"]["parts"] == [{"text": NO}]
    assert candidate["finishReason"] == "SAFETY"
    last = reply_to("native", stream=True, refusal=NO).data[-1]
    assert last["candidates"][0]["finishReason"] == "SAFETY"


# --- The provider gives nothing ---


def test_blocked_on_chat_is_an_empty_answer_that_was_filtered() -> None:
    (choice,) = reply_to("chat", blocked=True).json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "content_filter")
    data = reply_to("chat", stream=True, blocked=True).data
    assert [one["choices"][0]["finish_reason"] for one in data[:-1]] == [None, "content_filter"]


def test_blocked_on_messages_has_no_content() -> None:
    body = reply_to("messages", blocked=True).json
    assert (body["content"], body["stop_reason"]) == ([], "refusal")
    reply = reply_to("messages", stream=True, blocked=True)
    assert kinds(reply) == ["message_start", "message_delta", "message_stop"]


def test_blocked_on_responses_is_incomplete_without_output() -> None:
    body = reply_to("responses", blocked=True).json
    assert (body["status"], body["output"]) == ("incomplete", [])
    assert body["incomplete_details"] == {"reason": "content_filter"}
    reply = reply_to("responses", stream=True, blocked=True)
    assert kinds(reply) == ["response.created", "response.in_progress", "response.incomplete"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_blocked_on_native_is_feedback_on_the_prompt_without_candidates(stream: bool) -> None:
    reply = reply_to("native", stream=stream, blocked=True)
    if stream:
        (body,) = reply.data
    else:
        body = reply.json
    assert body["promptFeedback"]["blockReason"] == "SAFETY"
    assert "candidates" not in body
    usage = body["usageMetadata"]
    assert "candidatesTokenCount" not in usage
    assert usage["totalTokenCount"] == usage["promptTokenCount"] > 0


# --- A stop sequence ---


def test_stop_sequence_is_told_by_messages_alone() -> None:
    body = reply_to("messages", text="one", stop_sequence="END").json
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "END")
    last = reply_to("messages", stream=True, text="one", stop_sequence="END").data[-2]
    assert last["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    (choice,) = reply_to("chat", text="one", stop_sequence="END").json["choices"]
    assert choice["finish_reason"] == "stop"
    (candidate,) = reply_to("native", text="one", stop_sequence="END").json["candidates"]
    assert candidate["finishReason"] == "STOP"


# --- Thoughts, and what proves them ---


def test_thoughts_on_messages_are_signed() -> None:
    thinking, text = reply_to("messages", text="yes", reasoning_text=THOUGHT).json["content"]
    assert (thinking["type"], thinking["thinking"], text["type"]) == ("thinking", THOUGHT, "text")
    assert thinking["signature"]
    data = reply_to("messages", stream=True, text="yes", reasoning_text=THOUGHT).data
    signed = [one["delta"] for one in data if one.get("delta", {}).get("type") == "signature_delta"]
    assert [one["signature"] for one in signed] == [thinking["signature"]]


def test_thoughts_on_native_are_signed_by_the_last_part_of_the_text() -> None:
    (candidate,) = reply_to("native", text="yes", reasoning_text=THOUGHT).json["candidates"]
    thought, text = candidate["content"]["parts"]
    assert thought == {"text": THOUGHT, "thought": True}
    assert text["thoughtSignature"]
    data = reply_to("native", stream=True, text="yes", reasoning_text=THOUGHT).data
    (last,) = data[-1]["candidates"][0]["content"]["parts"]
    assert last == {"text": "", "thoughtSignature": text["thoughtSignature"]}
    assert not any("thoughtSignature" in str(one) for one in data[:-1])


def test_thoughts_on_native_are_signed_by_the_first_call_where_there_is_one() -> None:
    body = reply_to("native", tool_calls=2, reasoning_text=THOUGHT).json
    _, first, second = body["candidates"][0]["content"]["parts"]
    assert first["thoughtSignature"]
    assert "thoughtSignature" not in second


def test_thoughts_on_responses_come_as_a_summary_in_pieces() -> None:
    reply = reply_to("responses", stream=True, text="yes", reasoning_text=THOUGHT)
    found = [kind for kind in kinds(reply) if "reasoning" in kind]
    assert found == [
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ]
    (item, _) = reply.data[-1]["response"]["output"]
    assert item["summary"] == [{"type": "summary_text", "text": THOUGHT}]


def test_thoughts_on_chat_are_a_member_of_their_own() -> None:
    (choice,) = reply_to("chat", text="yes", reasoning_text=THOUGHT).json["choices"]
    assert choice["message"]["reasoning_content"] == THOUGHT


# --- A text, and calls after it ---


def test_text_that_is_stated_stands_before_the_calls() -> None:
    sim: dict[str, Any] = {"text": "Let me look.", "tool_calls": 1}
    (choice,) = reply_to("chat", **sim).json["choices"]
    assert choice["message"]["content"] == "Let me look."
    assert len(choice["message"]["tool_calls"]) == 1
    assert choice["finish_reason"] == "tool_calls"
    content = reply_to("messages", **sim).json["content"]
    assert [block["type"] for block in content] == ["text", "tool_use"]
    output = reply_to("responses", **sim).json["output"]
    assert [item["type"] for item in output] == ["message", "function_call"]
    parts = reply_to("native", **sim).json["candidates"][0]["content"]["parts"]
    assert [next(iter(part)) for part in parts] == ["text", "functionCall"]
    (choice,) = reply_to("chat", tool_calls=1).json["choices"]
    assert choice["message"]["content"] is None
