"""Whole native-content answers: read as streams are, written as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.dialects.gemini import codec as gemini
from channels.dialects.meter import Usage
from channels.errors import UpstreamMalformed
from channels.translation.model import Media, Refusal, Response, Text, Thinking, ToolCall
from channels.translation.tool_calls import made_id
from tests.unit.translators.gemini.pieces import PNG, call, chunk, inline, thought, usage
from tests.unit.translators.wire import answered, events_from, folded, sse, whole

# name: an answer's body, and what it says.
ANSWERS: dict[str, tuple[dict[str, Any], Response]] = {
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
    "no reason": (
        chunk("a"),
        Response(id="r", model="g", parts=(Text("a"),), finish=None),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_is_read(name: str) -> None:
    body, expected = ANSWERS[name]
    assert answered("native", body) == expected


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_says_what_its_stream_says(name: str) -> None:
    body, expected = ANSWERS[name]
    parts = body.get("candidates", [{}])[0].get("content", {}).get("parts", [])
    named = {name: body[name] for name in ("modelVersion", "responseId") if name in body}
    chunks = [{"candidates": [{"content": {"parts": [part]}}], **named} for part in parts]
    candidates = [{**one, "content": {}} for one in body.get("candidates", ())]
    last = {**body, "candidates": candidates}
    assert folded(events_from("native", sse(*chunks, last))) == expected


@pytest.mark.parametrize(
    "body",
    [
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
    ],
)
def test_body_that_answers_nothing_is_malformed(body: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        gemini.decode_response(body)


@pytest.mark.parametrize(
    ("answer", "candidate", "counts"),
    [
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
            {
                "content": {"parts": [{"text": ""}], "role": "model"},
                "finishReason": "STOP",
                "index": 0,
            },
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
            Response(
                id="u",
                model="g",
                parts=(ToolCall("x", "f", '{"a": 1}'),),
                finish="tool_calls",
            ),
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
    ],
)
def test_answer_is_written(
    answer: Response, candidate: dict[str, Any], counts: dict[str, int] | None
) -> None:
    body = whole("native", answer)
    assert body["candidates"] == [candidate]
    assert body.get("usageMetadata") == counts
    assert (body["modelVersion"], body["responseId"]) == ("m", "answer-1")


def test_pretty_arguments_are_compact() -> None:
    body = json.dumps(chunk(call(args={"a": [1, {"b": "x y"}]})), indent=2).encode()
    (made,) = gemini.decode_response(body).parts
    assert isinstance(made, ToolCall)
    assert made.arguments == '{"a":[1,{"b":"x y"}]}'
