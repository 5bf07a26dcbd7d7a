"""Whole responses between the protocols, as documented and as chat-completions upstreams are."""

import json
from typing import Any

import pytest

from channels.dialects.messages.events import PlainMessage
from channels.dialects.token_counts import Usage
from channels.errors import UpstreamMalformed
from channels.translation.identifiers import made_id
from channels.translation.model import FinishReason, Media, Refusal, Text, Thinking, ToolCall
from tests.support.rows import cases, each
from tests.unit.translation.gemini.pieces import call, chunk, inline, thought, usage
from tests.unit.translation.pieces import PNG, assistant
from tests.unit.translation.response import Response
from tests.unit.translation.translated import (
    events_from,
    events_of_body,
    folded,
    read_body,
    response_in,
    response_to,
    sse,
    whole,
)


def message(*content: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 4},
        **members,
    }


def completion(finish: str | None = "stop", **members: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **members}, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "up",
        "choices": [choice],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@each("texts", [["a"], ["a", "b"], ["", "b"], [""], []])
def test_plain_message_is_read_as_any_other(texts: list[str]) -> None:
    stated = [message(*map(text, texts)), message(*({**text(one), "odd": 1} for one in texts))]
    bodies = [json.dumps(one).encode() for one in stated]
    (plain, meter), (other, other_meter) = (read_body("messages", body) for body in bodies)
    assert isinstance(plain, PlainMessage) is bool(texts)
    assert not isinstance(other, PlainMessage)
    assert repr(meter) == repr(other_meter)
    assert meter.has_choice == other_meter.has_choice
    assert events_of_body("messages", bodies[0]) == events_of_body("messages", bodies[1])


def test_message_becomes_a_completion() -> None:
    response = response_to("messages", message(text("Hello"), text(" there")))
    assert whole("chat", response) == {
        "id": "answer-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": assistant("Hello there", refusal=None),
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 4,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


def test_completion_becomes_a_message() -> None:
    response = response_to("chat", completion(content="Hello"))
    assert whole("messages", response) == {
        "id": "answer-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [text("Hello")],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 4,
        },
    }


def test_call_without_an_id_is_given_one_that_stays() -> None:
    calls = [{"function": {"name": "f", "arguments": "{}"}}] * 2
    ids = [
        [part.id for part in response_to("chat", completion(tool_calls=calls)).parts]  # type: ignore[union-attr]
        for _ in range(2)
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == 2
    assert all(call_id.startswith("call_") for call_id in ids[0])


FINISHES: list[tuple[FinishReason, str, str]] = [
    ("stop", "end_turn", "stop"),
    ("length", "max_tokens", "length"),
    ("tool_calls", "tool_use", "tool_calls"),
    ("refusal", "refusal", "content_filter"),
]


@each("reason, of_messages, of_chat", FINISHES)
def test_finish_means_the_same_both_ways(
    reason: FinishReason, of_messages: str, of_chat: str
) -> None:
    assert response_to("messages", message(stop_reason=of_messages)).finish == reason
    calls = [{"function": {"name": "f"}}] if reason == "tool_calls" else None
    assert response_to("chat", completion(of_chat, content="", tool_calls=calls)).finish == reason
    response = Response(id=None, model=None, parts=(), finish=reason)
    assert whole("messages", response)["stop_reason"] == of_messages
    assert whole("chat", response)["choices"][0]["finish_reason"] == of_chat


@cases(
    "stated, in_chat",
    ("stop_sequence", "stop"),
    ("pause_turn", "length"),
    ("model_context_window_exceeded", "length"),
    ("a_reason_to_come", "stop"),
)
def test_finish_that_only_messages_has(stated: str, in_chat: str) -> None:
    response = response_to("messages", message(text("x"), stop_reason=stated))
    assert whole("chat", response)["choices"][0]["finish_reason"] == in_chat


def test_no_finish_is_an_end_like_any_other() -> None:
    call = ToolCall("c", "f", "{}")
    for parts, of_chat, of_messages in (
        ((), "stop", "end_turn"),
        ((call,), "tool_calls", "tool_use"),
    ):
        response = Response(id=None, model=None, parts=parts, finish=None)
        assert whole("chat", response)["choices"][0]["finish_reason"] == of_chat
        assert whole("messages", response)["stop_reason"] == of_messages


def test_refusal_of_the_provider_is_explained() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    response = response_to("messages", message(stop_reason="refusal", stop_details=details))
    choice = whole("chat", response)["choices"][0]
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"] == assistant(None, refusal="Not this.")
    assert whole("messages", response)["stop_details"]["explanation"] == "Not this."


def test_refusal_in_the_models_words_is_passed_on() -> None:
    response = response_to("chat", completion("stop", content=None, refusal="I won't."))
    assert response.parts == (Refusal("I won't."),)
    output = whole("messages", response)
    assert output["content"] == [text("I won't.")]
    assert output["stop_reason"] == "refusal"


def test_usage_of_zero_is_stated_and_none_is_not() -> None:
    zero = completion(content="")
    zero["usage"] = {"prompt_tokens": 0, "completion_tokens": 0}
    assert response_to("chat", zero).usage == Usage(input_tokens=0, output_tokens=0)
    none = completion(content="")
    del none["usage"]
    response = response_to("chat", none)
    assert response.usage is None
    assert "usage" not in whole("chat", response)


def test_images_the_model_made_are_links_in_text() -> None:
    image = Media("image", "image/png", data="iVBOR")
    response = Response(id=None, model=None, parts=(Text("See: "), image), finish="stop")
    link = "![image](data:image/png;base64,iVBOR)"
    assert whole("chat", response)["choices"][0]["message"]["content"] == "See: " + link
    assert whole("messages", response)["content"] == [text("See: " + link)]


def test_thinking_without_proof_has_the_mark_of_the_gateway() -> None:
    response = response_to("chat", completion(content="4", reasoning_content="2 and 2"))
    assert response.parts == (Thinking("2 and 2"), Text("4"))
    thought = {"type": "thinking", "thinking": "2 and 2", "signature": "translated:unsigned"}
    assert whole("messages", response)["content"] == [thought, text("4")]


@cases(
    "body",
    b"",
    b"[]",
    b"oops",
    b'{"choices": []}',
    b'{"choices": [{}]}',
    b'{"error": {"message": "x"}}',
)
def test_what_is_no_completion_is_malformed(body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        response_in("chat", body)


@cases("body", b"", b"[]", b"oops", b'{"content": "x"}', b'{"type": "error", "error": {}}')
def test_what_is_no_message_is_malformed(body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        response_in("messages", body)


# name: an answer's body, and what it says.
RESPONSES: dict[str, tuple[dict[str, Any], Response]] = {
    "text": (
        chunk("a", "b", finishReason="STOP", **usage(3, 2)),
        Response(id="r", model="g", parts=(Text("ab"),), finish="stop", usage=Usage(3, 2)),
    ),
    "everything": (
        chunk(
            thought("hm"),
            thought("so", "s"),
            "see",
            inline("image/png", PNG),
            call("f", {"a": 1}, "t"),
            call("f"),
            finishReason="STOP",
            finishMessage="called",
        ),
        Response(
            id="r",
            model="g",
            parts=(
                Thinking("hmso", "s", "native"),
                Text("see"),
                Media("image", "image/png", data=PNG),
                ToolCall(made_id("r", "0"), "f", '{"a":1}', "t", "native"),
                ToolCall(made_id("r", "1"), "f", "{}"),
            ),
            finish="tool_calls",
            explanation="called",
        ),
    ),
    "a text that is signed": (
        chunk({"text": "a", "thoughtSignature": "s"}, finishReason="STOP"),
        Response(id="r", model="g", parts=(Text("a"), Thinking("", "s", "native")), finish="stop"),
    ),
    "nothing said": (
        chunk(finishReason="MAX_TOKENS", **usage(3)),
        Response(id="r", model="g", parts=(), finish="length", usage=Usage(3, 0)),
    ),
    "a refused prompt": (
        {"promptFeedback": {"blockReason": "BLOCKLIST"}, "modelVersion": "g", **usage(3)},
        Response(
            id=None,
            model="g",
            parts=(),
            finish="refusal",
            usage=Usage(3, 0),
            explanation="BLOCKLIST",
        ),
    ),
    "no reason": (chunk("a"), Response(id="r", model="g", parts=(Text("a"),), finish=None)),
}


@each("name", RESPONSES)
def test_answer_is_read(name: str) -> None:
    body, expected = RESPONSES[name]
    assert response_to("native", body) == expected


@each("name", RESPONSES)
def test_answer_says_what_its_stream_says(name: str) -> None:
    body, expected = RESPONSES[name]
    parts = body.get("candidates", [{}])[0].get("content", {}).get("parts", [])
    named = {name: body[name] for name in ("modelVersion", "responseId") if name in body}
    chunks = [{"candidates": [{"content": {"parts": [part]}}], **named} for part in parts]
    candidates = [{**one, "content": {}} for one in body.get("candidates", ())]
    last = {**body, "candidates": candidates}
    assert folded(events_from("native", sse(*chunks, last))) == expected


@cases(
    "body",
    b"",
    b"null",
    b"[]",
    b"{}",
    b"nonsense",
    b'{"candidates": []}',
    b'{"candidates": [{}]}',
    b'{"candidates": [{"index": 1, "finishReason": "STOP"}]}',
    b'{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}',
    b'[{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}]',
)
def test_body_that_answers_nothing_is_malformed(body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        response_in("native", body)


@cases(
    "response, candidate, counts",
    (
        Response(id="u", model="g", parts=(Text("a"),), finish="stop", usage=Usage(3, 0)),
        {
            "content": {"parts": [{"text": "a"}], "role": "model"},
            "finishReason": "STOP",
            "index": 0,
        },
        {
            "promptTokenCount": 3,
            "candidatesTokenCount": 0,
            "totalTokenCount": 3,
            "thoughtsTokenCount": 0,
            "cachedContentTokenCount": 0,
        },
    ),
    (
        Response(id="u", model="g", parts=(), finish="stop"),
        {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": "STOP", "index": 0},
        None,
    ),
    (
        Response(id="u", model="g", parts=(), finish="refusal", explanation="no"),
        {"finishReason": "SAFETY", "index": 0, "finishMessage": "no"},
        None,
    ),
    (
        Response(id="u", model="g", parts=(Refusal("no"),), finish="stop"),
        {
            "content": {"parts": [{"text": "no"}], "role": "model"},
            "finishReason": "SAFETY",
            "index": 0,
        },
        None,
    ),
    (
        Response(id="u", model="g", parts=(ToolCall("x", "f", '{"a": 1}'),), finish="tool_calls"),
        {
            "content": {
                "parts": [{"functionCall": {"id": "x", "name": "f", "args": {"a": 1}}}],
                "role": "model",
            },
            "finishReason": "STOP",
            "index": 0,
        },
        None,
    ),
)
def test_answer_is_written(
    response: Response, candidate: dict[str, Any], counts: dict[str, int] | None
) -> None:
    body = whole("native", response)
    assert body["candidates"] == [candidate]
    assert body.get("usageMetadata") == counts
    assert (body["modelVersion"], body["responseId"]) == ("m", "answer-1")
