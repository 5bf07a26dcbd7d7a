"""Streams of native-content upstreams and for its clients, trap by trap."""

import base64
import json
from typing import Any

from channels.dialects.gemini.array_stream import ArrayFraming
from channels.dialects.token_counts import Usage
from channels.http.sse import SseSplitter
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    MediaDelta,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.identifiers import made_id
from channels.translation.model import FinishReason, Media
from channels.translation.session import codec
from tests.support.rows import each
from tests.unit.translation.gemini.pieces import call, chunk, inline
from tests.unit.translation.pieces import PNG
from tests.unit.translation.translated import data_of, events_from, read, sse, written

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
    told = events(chunk("a", finishReason=reason, finishMessage="told"))
    assert told[-2] == Finished(finish, explanation="told")


def test_nothing_follows_the_end() -> None:
    decoder = codec("native").new_decoder()
    (event,) = sse(chunk("a", finishReason="STOP"))
    assert decoder.take(read("native", event)) == [BEGAN, TextDelta("a")]
    assert decoder.end() == stopped()
    assert decoder.take(read("native", event)) == []
    assert decoder.end() == []


# --- Canonical events as streams for native-content clients, trap by trap ---

NAMES = {"modelVersion": "m", "responseId": "answer-1"}


def spoken(*parts: dict[str, Any]) -> dict[str, Any]:
    content = {"parts": list(parts), "role": "model"}
    return {"candidates": [{"content": content, "index": 0}], **NAMES}


def ending(reason: str = "STOP", *, content: bool = True, **members: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"finishReason": reason, "index": 0}
    if content:
        candidate["content"] = {"parts": [{"text": ""}], "role": "model"}
    if "finishMessage" in members:
        candidate["finishMessage"] = members.pop("finishMessage")
    return {"candidates": [candidate], **members, **NAMES}


def called(call_id: str, name: str, args: Any, **members: Any) -> dict[str, Any]:
    return spoken({"functionCall": {"id": call_id, "name": name, "args": args}, **members})


def sealed(text: str) -> str:
    return base64.b64encode(f"translated:{text}".encode()).decode()


STOPPED: list[Event] = [Finished("stop"), Ended()]
CALLS: list[Event] = [Finished("tool_calls"), Ended()]
TEXT = spoken({"text": "a"})

# name: events, and the chunks of the stream.
WRITTEN: dict[str, tuple[list[Event], list[Any]]] = {
    "nothing": ([*STOPPED], [ending()]),
    "a beginning says nothing yet": ([Began("u", "g"), UsageStated(Usage(1, 0))], []),
    "usage, zeros and all": (
        [TextDelta("a"), Finished("stop"), UsageStated(Usage(3, 0)), Ended()],
        [
            TEXT,
            ending(
                usageMetadata={
                    "promptTokenCount": 3,
                    "candidatesTokenCount": 0,
                    "totalTokenCount": 3,
                    "thoughtsTokenCount": 0,
                    "cachedContentTokenCount": 0,
                }
            ),
        ],
    ),
    "a call without arguments": (
        [CallBegan(0, "x", "f"), *CALLS],
        [called("x", "f", {}), ending()],
    ),
    "a call goes out when the next begins": (
        [CallBegan(0, "x", "f"), CallDelta(0, "{}"), CallBegan(1, "y", "g")],
        [called("x", "f", {})],
    ),
    "interleaved calls": (
        [
            CallBegan(0, "x", "f"),
            CallBegan(1, "y", "f"),
            CallDelta(1, '{"b":2}'),
            CallDelta(0, '{"a":1}'),
            TextDelta("a"),
            *CALLS,
        ],
        [called("x", "f", {"a": 1}), called("y", "f", {"b": 2}), TEXT, ending()],
    ),
    "half a call of a cut stream is not told": (
        [CallBegan(0, "x", "f"), CallDelta(0, '{"a"'), TextDelta("a")],
        [TEXT],
    ),
    "arguments that are no object": (
        [CallBegan(0, "x", "f"), CallDelta(0, "nonsense"), *CALLS],
        [called("x", "f", {"raw_arguments": "nonsense"}), ending()],
    ),
    "a delta of no call": ([CallDelta(3, "x"), *STOPPED], [ending()]),
    "a call's own signature": (
        [CallBegan(0, "x", "f", signature="s", signer="native"), CallDelta(0, "{}"), *CALLS],
        [called("x", "f", {}, thoughtSignature="s"), ending()],
    ),
    "thinking, signed by another provider": (
        [
            ThinkingDelta("hm"),
            ThinkingDelta("", signature="sig", signer="messages"),
            ThinkingDelta("", redacted="data", signer="messages"),
            TextDelta("a"),
            *STOPPED,
        ],
        [
            spoken({"text": "hm", "thought": True}),
            spoken({"text": "", "thought": True, "thoughtSignature": sealed("messages:sig")}),
            spoken(
                {"text": "", "thought": True, "thoughtSignature": sealed("messages:redacted:data")}
            ),
            TEXT,
            ending(),
        ],
    ),
    "thinking that is signed by this provider": (
        [
            ThinkingDelta("hm"),
            ThinkingDelta("", signature="s", signer="native"),
            TextDelta("a"),
            ThinkingDelta("", signature="t", signer="native"),
            *STOPPED,
        ],
        [
            spoken({"text": "hm", "thought": True}),
            spoken({"text": "", "thought": True, "thoughtSignature": "s"}),
            TEXT,
            spoken({"text": "", "thoughtSignature": "t"}),
            ending(),
        ],
    ),
    "an image": (
        [MediaDelta(Media("image", "image/png", data=PNG)), *STOPPED],
        [spoken({"inlineData": {"mimeType": "image/png", "data": PNG}}), ending()],
    ),
    "an image by its address": (
        [MediaDelta(Media("image", None, url="https://a.example/x")), *STOPPED],
        [spoken({"fileData": {"fileUri": "https://a.example/x"}}), ending()],
    ),
    "a stop sequence": (
        [TextDelta("a"), Finished("stop_sequence", stop_sequence="x"), Ended()],
        [TEXT, ending()],
    ),
    "a pause": ([TextDelta("a"), Finished("pause"), Ended()], [TEXT, ending("MAX_TOKENS")]),
    "a refusal in words": ([RefusalDelta("a"), *STOPPED], [TEXT, ending("SAFETY")]),
    "a refusal without any": (
        [Finished("refusal", explanation="no"), Ended()],
        [ending("SAFETY", content=False, finishMessage="no")],
    ),
    "a refusal by a reason of this protocol": (
        [TextDelta("a"), Finished("refusal", explanation="RECITATION"), Ended()],
        [TEXT, ending("RECITATION")],
    ),
    "no reason": ([TextDelta("a"), Ended()], [TEXT, ending()]),
    "an error": (
        [TextDelta("a"), StreamFailed("rate_limit_error", "slow"), TextDelta("b"), Ended()],
        [TEXT, {"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}],
    ),
    "an error of no known name": (
        [StreamFailed(None, "broke")],
        [{"error": {"code": 500, "message": "broke", "status": "INTERNAL"}}],
    ),
    "nothing follows the end": ([*STOPPED, TextDelta("a"), Ended()], [ending()]),
}


@each("name", WRITTEN)
def test_stream_is_written(name: str) -> None:
    events, chunks = WRITTEN[name]
    stream = written("native", events)
    assert data_of(stream) == chunks
    assert b"[DONE]" not in stream
    assert stream.count(b"\r\n\r\n") == len(chunks)


@each("name", WRITTEN)
def test_array_form_has_the_same_objects(name: str) -> None:
    events, chunks = WRITTEN[name]
    framing = ArrayFraming()
    stream = SseSplitter().feed(written("native", events))
    pieces = [framing.element(event.data or b"") for event in stream]
    assert json.loads(b"".join(pieces) + framing.end()) == chunks
