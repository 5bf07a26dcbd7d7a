"""Streams of native-content upstreams as canonical events, trap by trap."""

from __future__ import annotations

from typing import Any

import pytest

from channels.dialects.gemini import codec as gemini
from channels.dialects.meter import Usage
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    FinishReason,
    Media,
    MediaDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.tool_calls import made_id
from tests.support.rows import each
from tests.unit.translators.gemini.pieces import PNG, call, chunk, inline, thought, usage
from tests.unit.translators.wire import events_from, read, sse

BEGAN = Began("r", "g")
STOP = chunk(finishReason="STOP")
FIRST, SECOND = made_id("r", "0"), made_id("r", "1")


def events(*chunks: Any) -> list[Event]:
    return events_from("native", sse(*chunks))


def stopped(reason: FinishReason = "stop", **members: Any) -> list[Event]:
    return [Finished(reason, **members), Ended()]


# name: chunks, and the events they are.
STREAMS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": (
        [chunk("a"), chunk("b", finishReason="STOP")],
        [BEGAN, TextDelta("a"), TextDelta("b"), *stopped()],
    ),
    "the reason in a chunk of its own": (
        [chunk("a"), STOP, {"candidates": [], **usage(1, 2)}],
        [BEGAN, TextDelta("a"), UsageStated(Usage(1, 2)), *stopped()],
    ),
    "the reason in every chunk": (
        [chunk("a", finishReason="STOP"), chunk("b", finishReason="MAX_TOKENS")],
        [BEGAN, TextDelta("a"), TextDelta("b"), *stopped("length")],
    ),
    "a cut": ([chunk("a")], [BEGAN, TextDelta("a")]),
    "a call, and the reason in a chunk of its own": (
        [chunk(call("f", {"a": [1, "x"]}, "sig")), chunk("", finishReason="STOP")],
        [
            BEGAN,
            CallBegan(0, FIRST, "f", signature="sig", signer="native"),
            CallDelta(0, '{"a":[1,"x"]}'),
            *stopped("tool_calls"),
        ],
    ),
    "parallel calls of one name, of which the first is signed": (
        [chunk(call("f", {"a": 1}, "sig"), call("f", {"a": 2}), finishReason="STOP")],
        [
            BEGAN,
            CallBegan(0, FIRST, "f", signature="sig", signer="native"),
            CallDelta(0, '{"a":1}'),
            CallBegan(1, SECOND, "f"),
            CallDelta(1, '{"a":2}'),
            *stopped("tool_calls"),
        ],
    ),
    "calls with ids": (
        [chunk(call("f", id="x")), chunk({"functionCall": {"name": "g", "id": "y"}}), STOP],
        [
            BEGAN,
            CallBegan(0, "x", "f"),
            CallDelta(0, "{}"),
            CallBegan(1, "y", "g"),
            CallDelta(1, "{}"),
            *stopped("tool_calls"),
        ],
    ),
    "a call and too many tokens": (
        [chunk(call(id="x"), finishReason="MAX_TOKENS")],
        [BEGAN, CallBegan(0, "x", "f"), CallDelta(0, "{}"), *stopped("length")],
    ),
    "thoughts and their signature": (
        [chunk(thought("a")), chunk(thought("b", "s")), chunk("x"), STOP],
        [
            BEGAN,
            ThinkingDelta("a"),
            ThinkingDelta("b", signature="s", signer="native"),
            TextDelta("x"),
            *stopped(),
        ],
    ),
    "the signature of a text, last and empty": (
        [chunk("x"), chunk({"text": "", "thoughtSignature": "s"}, finishReason="STOP")],
        [
            BEGAN,
            TextDelta("x"),
            ThinkingDelta("", signature="s", signer="native"),
            *stopped(),
        ],
    ),
    "an image": (
        [chunk("see", inline("image/png", PNG)), STOP],
        [BEGAN, TextDelta("see"), MediaDelta(Media("image", "image/png", data=PNG)), *stopped()],
    ),
    "a draft of an image among the thoughts": (
        [chunk({**inline("image/png", PNG), "thought": True}), chunk("x", finishReason="STOP")],
        [BEGAN, TextDelta("x"), *stopped()],
    ),
    "code that was run": (
        [
            chunk({"executableCode": {"language": "PYTHON", "code": "print(1)\n"}}),
            chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}),
            STOP,
        ],
        [
            BEGAN,
            TextDelta("\n```python\nprint(1)\n```\n"),
            TextDelta("\n```\n1\n```\n"),
            *stopped(),
        ],
    ),
    "unknown parts, members and chunks": (
        [
            chunk({"telepathy": {"x": 1}}, {}, "a", groundingMetadata={}, createTime="now"),
            {"somethingNew": 1},
            [],
            b"null",
            b"[DONE]",
            b"{nonsense",
            b"",
            chunk("b", finishReason="STOP"),
        ],
        [BEGAN, TextDelta("a"), TextDelta("b"), *stopped()],
    ),
    "members of other types": (
        [
            {"candidates": [{"content": {"parts": [{"text": 5}, {"text": "a", "thought": "no"}]}}]},
            {"candidates": "x"},
            {"candidates": [{"content": "x", "finishReason": 7}, None]},
            {"candidates": [{"content": {"parts": "x"}, "finishReason": "STOP"}]},
        ],
        [Began(None, None), TextDelta("a"), *stopped()],
    ),
    "half a character": (
        [b'{"candidates":[{"content":{"parts":[{"text":"\\ud83d"}]},"finishReason":"STOP"}]}'],
        [Began(None, None), TextDelta("?"), *stopped()],
    ),
    "a missing bracket": (
        [b'{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]'],
        [Began(None, None), TextDelta("a"), *stopped()],
    ),
    "chunks in an array": (
        [[chunk("a"), chunk("b", finishReason="STOP")]],
        [BEGAN, TextDelta("a"), TextDelta("b"), *stopped()],
    ),
    "other candidates are passed over": (
        [
            {
                "candidates": [
                    {"index": 1, "content": {"parts": [{"text": "z"}]}, "finishReason": "STOP"},
                    {"index": 0, "content": {"parts": [{"text": "a"}]}},
                ]
            },
        ],
        [Began(None, None), TextDelta("a")],
    ),
    "a prompt that is refused": (
        [{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, **usage(7)}],
        [
            Began(None, None),
            UsageStated(Usage(7, 0)),
            *stopped("refusal", explanation="PROHIBITED_CONTENT"),
        ],
    ),
    "a prompt that is refused, in the provider's words": (
        [{"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}],
        [Began(None, None), *stopped("refusal", explanation="no")],
    ),
    "a prompt that is not refused": (
        [{"promptFeedback": {"safetyRatings": []}}, chunk("a")],
        [Began(None, None), TextDelta("a")],
    ),
    "an error": (
        [
            chunk("a"),
            {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}},
            chunk("b", finishReason="STOP"),
        ],
        [BEGAN, TextDelta("a"), StreamFailed("RESOURCE_EXHAUSTED", "slow down")],
    ),
    "an error in an array": (
        [[{"error": {"code": 500, "message": "broke"}}]],
        [StreamFailed("500", "broke")],
    ),
    "an error that says nothing": ([{"error": None}, chunk("a")], [BEGAN, TextDelta("a")]),
    "an error without words": ([{"error": "x"}], [StreamFailed(None, "x")]),
}


@each("name", STREAMS)
def test_stream_is_read(name: str) -> None:
    chunks, expected = STREAMS[name]
    assert events(*chunks) == expected


@each(
    "reason, finish, explanation",
    [
        ("STOP", "stop", None),
        ("FINISH_REASON_UNSPECIFIED", "stop", None),
        ("A_NEW_ONE", "stop", None),
        ("MAX_TOKENS", "length", None),
        ("SAFETY", "refusal", None),
        ("OTHER", "refusal", None),
        *[
            (reason, "refusal", reason)
            for reason in (
                "RECITATION",
                "LANGUAGE",
                "BLOCKLIST",
                "PROHIBITED_CONTENT",
                "SPII",
                "MODEL_ARMOR",
                "IMAGE_SAFETY",
                "IMAGE_PROHIBITED_CONTENT",
                "IMAGE_RECITATION",
                "IMAGE_OTHER",
                "NO_IMAGE",
                "MALFORMED_FUNCTION_CALL",
                "MALFORMED_RESPONSE",
                "UNEXPECTED_TOOL_CALL",
                "TOO_MANY_TOOL_CALLS",
                "MISSING_THOUGHT_SIGNATURE",
            )
        ],
    ],
)
def test_every_reason_has_its_word(
    reason: str, finish: FinishReason, explanation: str | None
) -> None:
    found = events(chunk("a", finishReason=reason))
    assert found == [BEGAN, TextDelta("a"), Finished(finish, explanation=explanation), Ended()]
    told = events(chunk("a", finishReason=reason, finishMessage="told"))
    assert told[-2] == Finished(finish, explanation="told")


# name: the counts of each chunk, and what is stated of them.
USAGES: dict[str, tuple[list[dict[str, int]], list[Usage]]] = {
    "once": ([{"promptTokenCount": 3, "candidatesTokenCount": 5}], [Usage(3, 5)]),
    "running totals": (
        [
            {"promptTokenCount": 3, "candidatesTokenCount": 1},
            {"promptTokenCount": 3, "candidatesTokenCount": 4},
        ],
        [Usage(3, 1), Usage(3, 4)],
    ),
    "the same again": ([{"promptTokenCount": 3, "candidatesTokenCount": 1}] * 2, [Usage(3, 1)]),
    "thoughts beside the candidates": (
        [
            {
                "promptTokenCount": 3,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 4,
                "totalTokenCount": 12,
            }
        ],
        [Usage(3, 9, reasoning_tokens=4)],
    ),
    "thoughts among the candidates, by the total": (
        [
            {
                "promptTokenCount": 3,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 4,
                "totalTokenCount": 8,
            }
        ],
        [Usage(3, 5, reasoning_tokens=4)],
    ),
    "a cache": (
        [{"promptTokenCount": 9, "candidatesTokenCount": 0, "cachedContentTokenCount": 4}],
        [Usage(9, 0, cached_tokens=4)],
    ),
    "tools of the provider's": (
        [{"promptTokenCount": 3, "candidatesTokenCount": 1, "toolUsePromptTokenCount": 2}],
        [Usage(5, 1)],
    ),
    "the input alone, while text passes": ([{"promptTokenCount": 3, "totalTokenCount": 3}], []),
    "no counts": ([{"trafficType": 1}], []),
}


@pytest.mark.parametrize("name", USAGES)
def test_usage_is_stated_as_the_upstream_does(name: str) -> None:
    stated, expected = USAGES[name]
    chunks = [chunk("a", usageMetadata=counts) for counts in stated]
    found = events(*chunks, STOP)
    assert [one.usage for one in found if isinstance(one, UsageStated)] == expected


def test_nothing_follows_the_end() -> None:
    decoder = gemini.StreamDecoder()
    (event,) = sse(chunk("a", finishReason="STOP"))
    assert decoder.take(read("native", event)) == [BEGAN, TextDelta("a")]
    assert decoder.end() == stopped()
    assert decoder.take(read("native", event)) == []
    assert decoder.end() == []
