"""Canonical events as streams for native-content clients, trap by trap."""

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
from channels.translation.model import Media
from tests.support.rows import each
from tests.unit.translation.pieces import PNG
from tests.unit.translation.translated import data_of, written

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
