"""Streams of native-content upstreams, trap by trap."""

from typing import Any

from channels.dialects.gemini.meter import GeminiMeter
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
)
from channels.translation.identifiers import made_id
from channels.translation.model import FinishReason
from channels.translation.session import codec
from tests.support.rows import each
from tests.unit.translation.gemini.pieces import call, chunk, inline
from tests.unit.translation.pieces import PNG
from tests.unit.translation.translated import events_from, metered, sse

BEGAN = Began("r", "g")
STOP = chunk(finishReason="STOP")
FIRST, SECOND = made_id("r", "0"), made_id("r", "1")


def events(*chunks: Any) -> list[Event]:
    return events_from("native", sse(*chunks))


def stopped(reason: FinishReason = "stop", **members: Any) -> list[Event]:
    return [Finished(reason, **members), Ended()]


# name: chunks, and the events they are.
STREAMS: dict[str, tuple[list[Any], list[Event]]] = {
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
    "the signature of a text, last and empty": (
        [chunk("x"), chunk({"text": "", "thoughtSignature": "s"}, finishReason="STOP")],
        [BEGAN, TextDelta("x"), ThinkingDelta("", signature="s", signer="native"), *stopped()],
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
    "a prompt that is refused, in the provider's words": (
        [{"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}}],
        [Began(None, None), *stopped("refusal", explanation="no")],
    ),
    "a prompt that is not refused": (
        [{"promptFeedback": {"safetyRatings": []}}, chunk("a")],
        [Began(None, None), TextDelta("a")],
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
    result = events(chunk("a", finishReason=reason, finishMessage="told"))
    assert result[-2] == Finished(finish, explanation="told")


def test_nothing_follows_the_end() -> None:
    meter = GeminiMeter()
    decoder = codec("native").new_decoder(meter)
    (event,) = sse(chunk("a", finishReason="STOP"))
    assert decoder.take_event(metered(meter, event)) == [BEGAN, TextDelta("a")]
    assert decoder.end_stream() == stopped()
    assert decoder.take_event(metered(meter, event)) == []
    assert decoder.end_stream() == []
