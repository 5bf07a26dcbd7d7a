"""Canonical events as streams for native-content clients, trap by trap."""

from __future__ import annotations

import base64
import json
from typing import Any

from channels.dialects.gemini import ArrayFraming
from channels.dialects.meter import Usage
from channels.http.sse import SseSplitter
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    Media,
    MediaDelta,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from tests.support.rows import each
from tests.unit.translators.gemini.pieces import PNG
from tests.unit.translators.wire import data_of, written

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


STOP: list[Event] = [Finished("stop"), Ended()]
CALLS: list[Event] = [Finished("tool_calls"), Ended()]
TEXT = spoken({"text": "a"})

# name: events, and the chunks of the stream.
STREAMS: dict[str, tuple[list[Event], list[Any]]] = {
    "text": ([Began("u", "g"), TextDelta("a"), *STOP], [TEXT, ending()]),
    "nothing": ([*STOP], [ending()]),
    "a beginning says nothing yet": ([Began("u", "g"), UsageStated(Usage(1, 0))], []),
    "a cut": ([Began("u", "g"), TextDelta("a"), Finished("stop")], [TEXT]),
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
    "the usage stated last": (
        [
            UsageStated(Usage(1, 1)),
            TextDelta("a"),
            UsageStated(Usage(9, 7, cached_tokens=4, cache_write_tokens=1, reasoning_tokens=5)),
            *STOP,
        ],
        [
            TEXT,
            ending(
                usageMetadata={
                    "promptTokenCount": 9,
                    "candidatesTokenCount": 2,
                    "totalTokenCount": 16,
                    "thoughtsTokenCount": 5,
                    "cachedContentTokenCount": 4,
                }
            ),
        ],
    ),
    "a call in pieces is one part": (
        [CallBegan(0, "x", "f"), CallDelta(0, '{"a"'), CallDelta(0, ":1}"), *CALLS],
        [called("x", "f", {"a": 1}), ending()],
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
    "a delta of no call": ([CallDelta(3, "x"), *STOP], [ending()]),
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
            *STOP,
        ],
        [
            spoken({"text": "hm", "thought": True}),
            spoken({"text": "", "thought": True, "thoughtSignature": sealed("messages:sig")}),
            spoken(
                {
                    "text": "",
                    "thought": True,
                    "thoughtSignature": sealed("messages:redacted:data"),
                }
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
            *STOP,
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
        [MediaDelta(Media("image", "image/png", data=PNG)), *STOP],
        [spoken({"inlineData": {"mimeType": "image/png", "data": PNG}}), ending()],
    ),
    "an image by its address": (
        [MediaDelta(Media("image", None, url="https://a.example/x")), *STOP],
        [spoken({"fileData": {"fileUri": "https://a.example/x"}}), ending()],
    ),
    "length": ([TextDelta("a"), Finished("length"), Ended()], [TEXT, ending("MAX_TOKENS")]),
    "a stop sequence": (
        [TextDelta("a"), Finished("stop_sequence", stop_sequence="x"), Ended()],
        [TEXT, ending()],
    ),
    "a pause": ([TextDelta("a"), Finished("pause"), Ended()], [TEXT, ending("MAX_TOKENS")]),
    "a refusal in words": (
        [RefusalDelta("a"), *STOP],
        [TEXT, ending("SAFETY")],
    ),
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
    "nothing follows the end": ([*STOP, TextDelta("a"), Ended()], [ending()]),
}


@each("name", STREAMS)
def test_stream_is_written(name: str) -> None:
    events, chunks = STREAMS[name]
    stream = written("native", events)
    assert data_of(stream) == chunks
    assert b"[DONE]" not in stream
    assert stream.count(b"\r\n\r\n") == len(chunks)


@each("name", STREAMS)
def test_array_form_has_the_same_objects(name: str) -> None:
    events, chunks = STREAMS[name]
    framing = ArrayFraming()
    stream = SseSplitter().feed(written("native", events))
    pieces = [framing.element(event.data or b"") for event in stream]
    assert json.loads(b"".join(pieces) + framing.end()) == chunks


def test_signatures_are_base64_which_official_clients_insist_on() -> None:
    stream = written(
        "native",
        [
            ThinkingDelta("hm", signature="not:base64!", signer="messages"),
            CallBegan(0, "x", "f", signature="nor:this", signer="responses"),
            *CALLS,
        ],
    )
    found = [
        part["thoughtSignature"]
        for one in data_of(stream)
        for part in one["candidates"][0]["content"]["parts"]
        if "thoughtSignature" in part
    ]
    assert [base64.b64decode(one, validate=True) for one in found] == [
        b"translated:messages:not:base64!",
        b"translated:responses:nor:this",
    ]
