"""A messages client's response, of canonical events: as a stream, or whole.

Both have the same blocks. The protocol always states usage, so `include_usage` has no effect, and
neither has `created`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from channels.dialects.messages.block_queue import BlockList, BlockQueue, PendingBlock
from channels.dialects.messages.signatures import thinking_block
from channels.dialects.messages.stop_reasons import write_finish
from channels.dialects.messages.usage import write_usage
from channels.families import MESSAGES
from channels.json.lenient import dumps
from channels.translation import events
from channels.translation.call_arguments import Arguments
from channels.translation.error_names import failure_named
from channels.translation.event_encoder import EventEncoder
from channels.translation.media import markdown
from channels.translation.model import Media, Thinking
from channels.translation.signatures import UNSIGNED, sealed


class MessagesResponseEncoder(EventEncoder):
    """Makes blocks of the events. Made for one attempt, used from one task."""

    __slots__ = ("_blocks", "_calls", "_message", "_thought")

    def __init__(self, blocks: BlockQueue | BlockList, *, id: str, model: str) -> None:
        super().__init__()
        self._message: dict[str, Any] = {
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": model,
        }
        self._blocks = blocks
        self._calls: dict[int, PendingBlock] = {}
        self._thought: PendingBlock | None = None  # the present thought, until it is signed

    def _start(self) -> bytes:
        """Return what precedes the first block, once."""
        return b""

    @abstractmethod
    def _message_end(self, finish: dict[str, Any], usage: dict[str, Any]) -> bytes:
        """Return what follows the last block."""

    def _text(self, text: str) -> bytes:
        return self._words("text", text)

    def _refusal(self, text: str) -> bytes:
        return self._words("refusal", text)

    def _media(self, media: Media) -> bytes:
        return self._words("text", markdown(media))  # the protocol's responses have no media

    def _words(self, kind: str, text: str) -> bytes:
        if not text:
            return b""
        block = self._blocks.last()
        if block is not None and block.kind == kind:
            return self._blocks.write(block, "text", text)
        block = PendingBlock(kind, {"type": "text", "text": ""})
        return self._add(block) + self._blocks.write(block, "text", text)

    def _thinking(self, event: events.ThinkingDelta) -> bytes:
        """Write a thought as it comes; it is signed by its signature, or by what follows it."""
        if event.redacted:
            stated = thinking_block(Thinking("", redacted=event.redacted, signer=event.signer))
            assert stated is not None, event
            return self._add(PendingBlock("thinking", stated))
        if not (event.text or event.signature):
            return b""
        block, written = self._thought, b""
        if block is None:
            block = PendingBlock("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            written = self._add(block)
            self._thought = block
        if event.text:
            written += self._blocks.write(block, "thinking", event.text)
        if event.signature:
            written += self._sign(sealed(event.signature, event.signer, own=MESSAGES.protocol))
        return written

    def _sign(self, signature: str) -> bytes:
        """End the open thought, if there is one."""
        block, self._thought = self._thought, None
        return b"" if block is None else self._blocks.write(block, "signature", signature)

    def _call_began(self, event: events.CallBegan) -> bytes:
        if event.index in self._calls:
            return b""
        start = {"type": "tool_use", "id": event.id, "name": event.name, "input": {}}
        block = PendingBlock("call", start, arguments=Arguments())
        self._calls[event.index] = block
        return self._add(block)

    def _call_delta(self, event: events.CallDelta) -> bytes:
        block = self._calls.get(event.index)
        if block is None or block.arguments is None or not event.arguments:
            return b""
        block.arguments.add(event.arguments)
        return self._blocks.write(block, "input", event.arguments)

    def _add(self, block: PendingBlock) -> bytes:
        return self._start() + self._sign(UNSIGNED) + self._blocks.add(block)

    def _end(self) -> bytes:
        finished = self._finished
        finish = write_finish(
            None if finished is None else finished.reason,
            stop_sequence=None if finished is None else finished.stop_sequence,
            explanation=None if finished is None else finished.explanation,
            has_calls=bool(self._calls),
            has_refusal=self._has_refusal,
        )
        written = self._start() + self._sign(UNSIGNED) + self._blocks.close()
        return written + self._message_end(finish, write_usage(self._usage))


class MessagesBodyEncoder(MessagesResponseEncoder):
    """Encodes one whole response, at its end."""

    __slots__ = ("_content",)

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        self._content = BlockList()
        super().__init__(self._content, id=id, model=model)

    def _message_end(self, finish: dict[str, Any], usage: dict[str, Any]) -> bytes:
        content = self._content.content()
        return dumps({**self._message, "content": content, **finish, "usage": usage})


_TERMINATOR = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

# A keep-alive is an event of the protocol.
KEEP_ALIVE = b'event: ping\ndata: {"type":"ping"}\n\n'


class MessagesStreamEncoder(MessagesResponseEncoder):
    """Encodes one response's stream.

    message_start, blocks, message_delta, message_stop, in this order. The start is kept until there
    is content, so that another channel may still be tried; the end until the upstream has ended: a
    cut stream has no stop reason and no `message_stop` (reference 2.6).
    """

    __slots__ = ("_has_started",)

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__(BlockQueue(), id=id, model=model)
        self._has_started = False

    def _start(self) -> bytes:
        if self._has_started:
            return b""
        self._has_started = True
        message = {
            **self._message,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": write_usage(self._usage),
        }
        start = dumps({"type": "message_start", "message": message})
        return b"event: message_start\ndata: " + start + b"\n\n"

    def _message_end(self, finish: dict[str, Any], usage: dict[str, Any]) -> bytes:
        last = {"type": "message_delta", "delta": finish, "usage": usage}
        return b"event: message_delta\ndata: " + dumps(last) + b"\n\n" + _TERMINATOR

    def _failed(self, event: events.StreamFailed) -> bytes:
        error = {"type": failure_named(event.code).messages_type, "message": event.message}
        return b"event: error\ndata: " + dumps({"type": "error", "error": error}) + b"\n\n"
