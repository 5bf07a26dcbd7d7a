"""Whole gemini responses, both ways.

A whole response has the form of a stream's chunk, and is decoded as a stream of one, so that both
mean the same. Only the first candidate is decoded: translations never request more.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from channels.dialects.gemini.events import read_chunks, write_usage
from channels.dialects.gemini.parts import write_part, write_thinking
from channels.dialects.gemini.stream_decoder import StreamDecoder, write_finish
from channels.errors import UpstreamMalformed
from channels.json.lenient import dumps
from channels.translation.codec import EventEncoder, folded
from channels.translation.model import (
    CallBegan,
    CallDelta,
    Media,
    Refusal,
    Response,
    StreamFailed,
    Thinking,
    ThinkingDelta,
    ToolCall,
)
from channels.translation.tool_calls import Arguments, failure_named


def decode_response(body: bytes) -> Response:
    """Decode a whole response. Raises UpstreamMalformed if it has no candidate, or an error."""
    decoder = StreamDecoder()
    events = decoder.take(read_chunks(body))
    failed = next((event for event in events if isinstance(event, StreamFailed)), None)
    if failed is not None:
        raise UpstreamMalformed("an error where an answer was promised", failed.code)
    ending = decoder.end()
    response = folded([*events, *ending])
    if response is None or not (response.parts or ending):
        raise UpstreamMalformed("an answer without a candidate")
    return response


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id; the protocol has no time of creation."""
    has_refusal = any(isinstance(part, Refusal) for part in response.parts)
    reason, message = write_finish(response.finish, response.explanation, has_refusal=has_refusal)
    candidate: dict[str, Any] = {}
    if response.parts or reason == "STOP":
        parts = [write_part(part) for part in response.parts] or [{"text": ""}]
        candidate["content"] = {"parts": parts, "role": "model"}
    candidate["finishReason"] = reason
    candidate["index"] = 0
    if message is not None:
        candidate["finishMessage"] = message
    whole: dict[str, Any] = {"candidates": [candidate]}
    if response.usage is not None:
        whole["usageMetadata"] = write_usage(response.usage)
    whole["modelVersion"] = model
    whole["responseId"] = id
    return dumps(whole)


# Encodes canonical events as a gemini stream.
#
# A function call is one part in this protocol: it is sent once its arguments are complete. The
# finish reason and the usage are in the last chunk, sent only after the upstream has ended: a cut
# stream has no finishReason (spec: Stream failure behaviour). Here as server-sent events; the array
# form has the same objects as elements (`channels/dialects/gemini/array_stream.py`).

# An empty line: the provider's Python library takes a comment for JSON, and fails.
KEEP_ALIVE = b"\n"


@dataclass(slots=True)
class _Waiting:
    """A call whose arguments are incomplete."""

    began: CallBegan
    arguments: Arguments = field(default_factory=Arguments)

    def part(self) -> dict[str, Any]:
        """Return the part of the complete call."""
        began = self.began
        return write_part(
            ToolCall(
                began.id,
                began.name,
                self.arguments.text(),
                signature=began.signature,
                signer=began.signer,
            )
        )


class StreamEncoder(EventEncoder):
    """Encodes one response's stream, for one attempt and one task.

    The protocol always has usage and no time of creation: `include_usage` and `created` are
    ignored.
    """

    __slots__ = (
        "_calls",
        "_has_open_thought",
        "_has_written",
        "_names",
        "_tail",
    )

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__()
        self._names: dict[str, Any] = {"modelVersion": model, "responseId": id}
        self._tail = b'],"role":"model"},"index":0}],' + dumps(self._names)[1:] + b"\r\n\r\n"
        # Items are removed from the front, which takes ever longer in a plain dict.
        self._calls: OrderedDict[int, _Waiting] = OrderedDict()
        self._has_open_thought = False
        self._has_written = False

    def __repr__(self) -> str:
        state = "over" if self._is_over else "open" if self._has_written else "new"
        return f"<gemini.StreamEncoder {state}, {len(self._calls)} calls waiting>"

    def _call_began(self, event: CallBegan) -> bytes:
        self._has_open_thought = False
        whole = self._whole_calls()
        self._calls.setdefault(event.index, _Waiting(event))
        return whole

    def _call_delta(self, event: CallDelta) -> bytes:
        waiting = self._calls.get(event.index)
        if waiting is not None:
            waiting.arguments.add(event.arguments)
        return b""

    def _refusal(self, text: str) -> bytes:
        return self._text(text)

    def _media(self, media: Media) -> bytes:
        self._has_open_thought = False
        return self._whole_calls() + self._chunk(dumps(write_part(media)))

    def _failed(self, event: StreamFailed) -> bytes:
        return _framed(_error(event))

    def _chunk(self, part: bytes) -> bytes:
        self._has_written = True
        return b'data: {"candidates":[{"content":{"parts":[' + part + self._tail

    def _text(self, text: str) -> bytes:
        self._has_open_thought = False
        if not text:
            return b""
        chunk = self._chunk(b'{"text":' + dumps(text) + b"}")
        return self._whole_calls() + chunk if self._calls else chunk

    def _thinking(self, event: ThinkingDelta) -> bytes:
        thought = Thinking(
            "" if event.redacted else event.text,
            signature=event.signature,
            signer=event.signer,
            redacted=event.redacted,
        )
        if not (thought.text or thought.signature or thought.redacted):
            return b""
        part = write_thinking(thought, is_thought=self._has_open_thought)
        self._has_open_thought = "thoughtSignature" not in part
        return self._whole_calls() + self._chunk(dumps(part))

    def _whole_calls(self) -> bytes:
        """Return the complete calls up to the first incomplete one."""
        written = []
        while self._calls:
            index, waiting = next(iter(self._calls.items()))
            if not waiting.arguments.is_whole():
                break
            written.append(self._chunk(dumps(waiting.part())))
            del self._calls[index]
        return b"".join(written)

    def _end(self) -> bytes:
        written = [self._chunk(dumps(waiting.part())) for waiting in self._calls.values()]
        finished = self._finished
        reason, message = write_finish(
            None if finished is None else finished.reason,
            None if finished is None else finished.explanation,
            has_refusal=self._has_refusal,
        )
        candidate: dict[str, Any] = {}
        if self._has_written or reason == "STOP":
            candidate["content"] = {"parts": [{"text": ""}], "role": "model"}
        candidate["finishReason"] = reason
        candidate["index"] = 0
        if message is not None:
            candidate["finishMessage"] = message
        last: dict[str, Any] = {"candidates": [candidate]}
        if self._usage is not None:
            last["usageMetadata"] = write_usage(self._usage)
        return b"".join([*written, _framed(dumps({**last, **self._names}))])


def _framed(chunk: bytes) -> bytes:
    return b"data: " + chunk + b"\r\n\r\n"


def _error(event: StreamFailed) -> bytes:
    failure = failure_named(event.code)
    error = {
        "code": failure.http_status,
        "message": event.message,
        "status": failure.gemini_status,
    }
    return dumps({"error": error})
