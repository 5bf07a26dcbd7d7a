"""Write canonical events as a messages stream.

message_start, blocks, message_delta, message_stop, in this order. The start is held back until
there is something to say, so that another channel may still be tried; the end until the upstream
has really ended: a cut stream has no stop reason and no `message_stop` (spec: Stream failure
behaviour). The blocks' order is `block_queue.py`'s part.
"""

from __future__ import annotations

from typing import Any

from channels.dialects.messages.block_queue import BlockQueue, PendingBlock, arguments_delta
from channels.dialects.messages.finish import write_finish
from channels.dialects.messages.response import thinking_block
from channels.dialects.messages.usage import write_usage
from channels.json.text import dumps
from channels.translation.failures import failure_named
from channels.translation.media import markdown
from channels.translation.model import (
    CallBegan,
    CallDelta,
    Media,
    StreamFailed,
    Thinking,
    ThinkingDelta,
)
from channels.translation.stream_encoder import EventEncoder
from channels.translation.tool_arguments import Arguments

_TERMINATOR = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

# What is sent while there is nothing to say: the protocol has an event for it.
KEEP_ALIVE = b'event: ping\ndata: {"type":"ping"}\n\n'


class StreamEncoder(EventEncoder):
    """Writes one response's stream. Made for one attempt, used from one task.

    The protocol always states usage, so `include_usage` changes nothing, nor does `created`.
    """

    __slots__ = (
        "_calls",
        "_has_started",
        "_message",
        "_queue",
        "_thought",
    )

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__()
        self._message: dict[str, Any] = {
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        self._queue = BlockQueue()
        self._calls: dict[int, PendingBlock] = {}
        self._thought: list[str] = []  # text of the present thought, until it is signed
        self._has_started = False

    def __repr__(self) -> str:
        state = "over" if self._is_over else "open" if self._has_started else "new"
        return f"<messages.StreamEncoder {state}, {self._queue}>"

    def _text(self, text: str) -> bytes:
        return self._words("text", text)

    def _refusal(self, text: str) -> bytes:
        return self._words("refusal", text)

    def _media(self, media: Media) -> bytes:
        return self._words("text", markdown(media))

    def _failed(self, event: StreamFailed) -> bytes:
        return _error(event)

    def _words(self, kind: str, text: str) -> bytes:
        self._thought.clear()
        if not text:
            return b""
        delta = b'{"type":"text_delta","text":' + dumps(text) + b"}"
        block = self._queue.last()
        if block is not None and block.kind == kind:
            return self._queue.write(block, delta)
        block = PendingBlock(kind, {"type": "text", "text": ""})
        return self._add(block) + self._queue.write(block, delta)

    def _thinking(self, event: ThinkingDelta) -> bytes:
        """A thought goes out once it is signed: without that it must not come back."""
        if event.text:
            self._thought.append(event.text)
        if not (event.signature or event.redacted):
            return b""
        text = "" if event.redacted else "".join(self._thought)
        if event.signature:
            self._thought.clear()
        stated = thinking_block(
            Thinking(text, signature=event.signature, signer=event.signer, redacted=event.redacted)
        )
        assert stated is not None, event
        if event.redacted:
            return self._add(PendingBlock("thinking", stated))
        start = {"type": "thinking", "thinking": "", "signature": ""}
        block = PendingBlock("thinking", start)
        pieces = [self._add(block)]
        if text:
            delta = b'{"type":"thinking_delta","thinking":' + dumps(text) + b"}"
            pieces.append(self._queue.write(block, delta))
        signature = dumps(stated["signature"])
        delta = b'{"type":"signature_delta","signature":' + signature + b"}"
        pieces.append(self._queue.write(block, delta))
        return b"".join(pieces)

    def _call_began(self, event: CallBegan) -> bytes:
        self._thought.clear()
        if event.index in self._calls:
            return b""
        start = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
        block = PendingBlock("call", start, arguments=Arguments())
        self._calls[event.index] = block
        return self._add(block)

    def _call_delta(self, event: CallDelta) -> bytes:
        block = self._calls.get(event.index)
        if block is None or block.arguments is None or not event.arguments:
            return b""
        block.arguments.add(event.arguments)
        return self._queue.write(block, arguments_delta(event.arguments))

    def _add(self, block: PendingBlock) -> bytes:
        return self._start() + self._queue.add(block)

    def _start(self) -> bytes:
        if self._has_started:
            return b""
        self._has_started = True
        message = {**self._message, "usage": write_usage(self._usage)}
        start = dumps({"type": "message_start", "message": message})
        return b"event: message_start\ndata: " + start + b"\n\n"

    def _end(self) -> bytes:
        finished = self._finished
        delta = write_finish(
            None if finished is None else finished.reason,
            stop_sequence=None if finished is None else finished.stop_sequence,
            explanation=None if finished is None else finished.explanation,
            has_calls=bool(self._calls),
            has_refusal=self._has_refusal,
        )
        last = {"type": "message_delta", "delta": delta, "usage": write_usage(self._usage)}
        ending = b"event: message_delta\ndata: " + dumps(last) + b"\n\n" + _TERMINATOR
        return self._start() + self._queue.close() + ending


def _error(event: StreamFailed) -> bytes:
    error = {"type": failure_named(event.code).messages_type, "message": event.message}
    return b"event: error\ndata: " + dumps({"type": "error", "error": error}) + b"\n\n"
