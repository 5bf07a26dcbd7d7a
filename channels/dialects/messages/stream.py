"""Messages responses, streamed and whole: decode an upstream's, and encode a client's.

Blocks have their own indices; of the tools only the client's are calls, which are numbered. Unknown
events, blocks and deltas are ignored. Nothing that an upstream sends raises. `events.py` decodes
the events.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import msgspec
from msgspec.structs import replace

from channels.dialects.messages.blocks import (
    BlockReader,
    arguments_of,
    read_explanation,
    read_finish,
    write_finish,
)
from channels.dialects.messages.events import Event as UpstreamEvent
from channels.dialects.messages.events import Message, UsageReader, read_message
from channels.dialects.token_counts import Usage, UsageParts
from channels.dialects.usage_details import hour_member, tools_member
from channels.errors import UpstreamMalformed
from channels.families import MESSAGES
from channels.json.lenient import NULL, dumps, raw_of, read_json, read_loosely, text_of
from channels.translation.call_arguments import Arguments, arguments_object
from channels.translation.error_names import UNNAMED, failure_in, failure_named
from channels.translation.event_encoder import EventEncoder
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
    UsageStated,
)
from channels.translation.identifiers import made_id
from channels.translation.media import markdown
from channels.translation.model import Media, Part, Refusal, Response, Text, Thinking, ToolCall
from channels.translation.signatures import UNSIGNED, opened, sealed


@dataclass(slots=True)
class _Call:
    """A block that is a call; `given` are arguments that its start already had."""

    index: int
    given: str
    has_arguments: bool = False


class StreamDecoder:
    """Decodes one stream. Made for one attempt, used from one task."""

    __slots__ = ("_began", "_calls", "_count", "_ended", "_id", "_stated")

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}  # open calls, by their block's index
        self._count = 0
        self._stated = UsageReader()
        self._id = ""
        self._began = False
        self._ended = False

    def __repr__(self) -> str:
        state = "ended" if self._ended else "began" if self._began else "new"
        return f"<messages.StreamDecoder {state}, {self._count} calls>"

    def take(self, read: UpstreamEvent | None) -> list[Event]:
        """Return the canonical events of one decoded event; none for pings. Never raises."""
        if read is None or self._ended:
            return []
        is_delta = read.type == "content_block_delta"
        events = self._take_delta(read) if is_delta else self._take(read)
        if read.usage is not NULL:
            container = NULL if read.delta is None else read.delta.container
            self._take_usage(read.usage, container, events)
        return events

    def end(self) -> list[Event]:
        """Note the end of the connection. Without a terminator the stream was cut: no events."""
        self._ended = True
        return []

    def _take_delta(self, read: UpstreamEvent) -> list[Event]:
        delta = read.delta
        if delta is None:
            return []
        if delta.text:
            return [TextDelta(delta.text)]
        if delta.partial_json:
            call = self._calls.get(read.index or 0)
            if call is None:
                return []  # of a tool that the provider runs
            call.has_arguments = True
            return [CallDelta(call.index, delta.partial_json)]
        if delta.thinking:
            return [ThinkingDelta(delta.thinking)]
        if delta.signature:
            return [_signed("", delta.signature)]
        return []

    def _take_usage(self, stated: msgspec.Raw, container: msgspec.Raw, events: list[Event]) -> None:
        """Emit the usage that an event states, before the response's end."""
        self._stated.take(stated, is_start=False, container=container)
        if usage := self._stated.displayed:
            events.insert(len(events) - self._ended, UsageStated(usage))

    def _take(self, read: UpstreamEvent) -> list[Event]:
        kind = read.type
        if kind == "content_block_start":
            return self._start_block(read)
        if kind == "content_block_stop":
            call = self._calls.pop(read.index or 0, None)
            return [] if call is None else _closing(call)
        if kind == "message_start":
            return self._start(read.message)
        if kind == "message_delta":
            return self._take_message_delta(read)
        if kind == "message_stop":
            self._ended = True
            return [*self._close(), Ended()]
        if kind == "error" or read.error is not NULL:
            self._ended = True
            return [failure_in(read_loosely(bytes(read.error)), ("type", "code")) or UNNAMED]
        return []

    def _start(self, raw: msgspec.Raw) -> list[Event]:
        message = read_message(raw) or Message()
        self._stated.take(message.usage, is_start=True, container=message.container)
        # A second start belongs to a restarted response, with other blocks.
        events = self._close()
        if not self._began:
            self._began = True
            self._id = message.id or ""
            events.append(Began(message.id, message.model))
        return events

    def _start_block(self, read: UpstreamEvent) -> list[Event]:
        block = read_json(bytes(read.content_block))
        if not isinstance(block, dict):
            return []
        kind = block.get("type")
        if kind == "text" and (text := text_of(block.get("text"))):
            return [TextDelta(text)]
        if kind == "thinking":
            return _thinking_of(block)
        if kind == "redacted_thinking" and (data := text_of(block.get("data"))):
            data, signer = opened(data, own=MESSAGES.protocol)
            return [ThinkingDelta(redacted=data, signer=signer)]
        if kind == "tool_use":
            given = block.get("input")
            call = _Call(self._count, arguments_of(given))
            self._count += 1
            self._calls[read.index or 0] = call
            call_id = text_of(block.get("id")) or made_id(self._id, str(call.index))
            name = text_of(block.get("name")) or ""
            return [CallBegan(call.index, call_id, name)]
        return []

    def _take_message_delta(self, read: UpstreamEvent) -> list[Event]:
        events: list[Event] = []
        delta = read.delta
        if delta is not None and delta.stop_reason:
            details = None if delta.stop_details is NULL else delta.stop_details
            explanation = None if details is None else read_json(bytes(details))
            events.extend(self._close())
            events.append(
                Finished(
                    read_finish(delta.stop_reason),
                    stop_sequence=delta.stop_sequence,
                    explanation=read_explanation(explanation),
                )
            )
        return events

    def _close(self) -> list[Event]:
        """End the calls whose blocks were never stopped."""
        events = [event for call in self._calls.values() for event in _closing(call)]
        self._calls.clear()
        return events


def _closing(call: _Call) -> list[Event]:
    """Return the arguments of a call without deltas: those of its start, or an empty object."""
    return [] if call.has_arguments else [CallDelta(call.index, call.given)]


def _signed(text: str, signature: str) -> ThinkingDelta:
    if signature == UNSIGNED:
        return ThinkingDelta(text)
    signature, signer = opened(signature, own=MESSAGES.protocol)
    return ThinkingDelta(text, signature=signature, signer=signer)


def _thinking_of(block: dict[str, Any]) -> list[Event]:
    text, signature = text_of(block.get("thinking")) or "", text_of(block.get("signature"))
    if signature:
        return [_signed(text, signature)]
    return [ThinkingDelta(text)] if text else []


# Content blocks of a messages stream, one open at a time.
#
# The protocol sends one block after the other; elsewhere tool calls may be interleaved. The first
# block is open on the wire, the following ones wait until it is complete: a text as soon as another
# block follows, a call when its arguments are a JSON object.

_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":'


@dataclass(slots=True, eq=False)
class PendingBlock:
    """One block: its `content_block` at the start, and the deltas not yet written.

    `arguments` are a call's; None for other blocks.
    """

    kind: str
    start: dict[str, Any]
    waiting: list[bytes] = field(default_factory=list)
    arguments: Arguments | None = None
    is_finished: bool = False

    def is_whole(self) -> bool:
        """Whether the block is complete."""
        return self.arguments is None or self.arguments.is_whole()


class BlockQueue:
    """Encodes the blocks of one response, numbered from 0."""

    __slots__ = ("_head", "_index", "_queue")

    def __init__(self) -> None:
        self._queue: deque[PendingBlock] = deque()
        self._index = -1
        self._head = b""  # prefix of a delta of the open block

    def __repr__(self) -> str:
        return f"<BlockQueue {self._index + 1} begun, {len(self._queue)} unfinished>"

    def last(self) -> PendingBlock | None:
        """The last block begun, unless it is finished."""
        return self._queue[-1] if self._queue else None

    def add(self, block: PendingBlock) -> bytes:
        """Append a block; its start is returned if it can be written at once."""
        self._queue.append(block)
        if len(self._queue) == 1:
            return self._begin()
        return self._advance()

    def write(self, block: PendingBlock, delta: bytes) -> bytes:
        """Write a JSON delta into a block; it may have to wait."""
        if self._queue and block is self._queue[0]:
            written = self._head + delta + b"}\n\n"
            if len(self._queue) > 1:
                return written + self._advance()
            return written
        if not block.is_finished:
            block.waiting.append(delta)
            return self._advance()
        return b""  # it is finished: the arguments were complete

    def close(self) -> bytes:
        """Finish every block; a call without arguments gets an empty object."""
        pieces = []
        while self._queue:
            block = self._queue[0]
            if block.arguments is not None and not block.arguments.text().strip():
                pieces.append(self._head + arguments_delta("{}") + b"}\n\n")
            pieces.append(self._finish())
        return b"".join(pieces)

    def _advance(self) -> bytes:
        """Finish the open block while it is complete and another one waits."""
        pieces = []
        while len(self._queue) > 1 and self._queue[0].is_whole():
            pieces.append(self._finish())
        return b"".join(pieces)

    def _finish(self) -> bytes:
        stop = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
        written = stop % self._index
        self._queue.popleft().is_finished = True
        return written + self._begin() if self._queue else written

    def _begin(self) -> bytes:
        """Write the start of the first block, and its waiting deltas."""
        block = self._queue[0]
        self._index += 1
        self._head = _DELTA % self._index
        start = {"type": "content_block_start", "index": self._index, "content_block": block.start}
        pieces = [b"event: content_block_start\ndata: " + dumps(start) + b"\n\n"]
        pieces += [self._head + delta + b"}\n\n" for delta in block.waiting]
        block.waiting.clear()
        return b"".join(pieces)


def arguments_delta(arguments: str) -> bytes:
    """Encode the delta for a piece of a call's arguments."""
    return b'{"type":"input_json_delta","partial_json":' + dumps(arguments) + b"}"


# Encodes canonical events as a messages stream.
#
# message_start, blocks, message_delta, message_stop, in this order. The start is kept until there
# is content, so that another channel may still be tried; the end until the upstream has ended: a
# cut stream has no stop reason and no `message_stop` (spec: Stream failure behaviour).

_TERMINATOR = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

# A keep-alive is an event of the protocol.
KEEP_ALIVE = b'event: ping\ndata: {"type":"ping"}\n\n'


class StreamEncoder(EventEncoder):
    """Encodes one response's stream. Made for one attempt, used from one task.

    The protocol always states usage, so `include_usage` has no effect, and neither has `created`.
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
        self._thought: PendingBlock | None = None  # the present thought, until it is signed
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
        if not text:
            return b""
        delta = b'{"type":"text_delta","text":' + dumps(text) + b"}"
        block = self._queue.last()
        if block is not None and block.kind == kind:
            return self._queue.write(block, delta)
        block = PendingBlock(kind, {"type": "text", "text": ""})
        return self._add(block) + self._queue.write(block, delta)

    def _thinking(self, event: ThinkingDelta) -> bytes:
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
            delta = b'{"type":"thinking_delta","thinking":' + dumps(event.text) + b"}"
            written += self._queue.write(block, delta)
        if event.signature:
            written += self._sign(sealed(event.signature, event.signer, own=MESSAGES.protocol))
        return written

    def _sign(self, signature: str) -> bytes:
        """End the open thought, if there is one."""
        block, self._thought = self._thought, None
        if block is None:
            return b""
        delta = b'{"type":"signature_delta","signature":' + dumps(signature) + b"}"
        return self._queue.write(block, delta)

    def _call_began(self, event: CallBegan) -> bytes:
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
        return self._start() + self._sign(UNSIGNED) + self._queue.add(block)

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
        return self._start() + self._sign(UNSIGNED) + self._queue.close() + ending


def _error(event: StreamFailed) -> bytes:
    error = {"type": failure_named(event.code).messages_type, "message": event.message}
    return b"event: error\ndata: " + dumps({"type": "error", "error": error}) + b"\n\n"


# Whole messages responses, both ways.
#
# Blocks of the provider's own tools are ignored: the response is the model's text around them. They
# must be equivalent to the streams.


def decode_response(body: bytes) -> Response:
    """Decode a whole response. Raises UpstreamMalformed if it has no content."""
    value = read_json(body)
    content = value.get("content") if isinstance(value, dict) else None
    if content is None and isinstance(value, dict) and value.get("stop_reason") == "refusal":
        content = []  # all content was withheld
    if not isinstance(value, dict) or not isinstance(content, list):
        raise UpstreamMalformed("a message without content")
    stated = UsageReader()
    container = raw_of(value.get("container"))
    stated.take(raw_of(value.get("usage")), is_start=False, container=container)
    reason, stopped = value.get("stop_reason"), value.get("stop_sequence")
    response_id, model = value.get("id"), value.get("model")
    return Response(
        id=response_id if isinstance(response_id, str) else None,
        model=model if isinstance(model, str) else None,
        parts=_parts(content),
        finish=read_finish(reason) if isinstance(reason, str) else None,
        stop_sequence=stopped if isinstance(stopped, str) else None,
        usage=stated.displayed,
        explanation=read_explanation(value.get("stop_details")),
    )


def _parts(content: list[Any]) -> tuple[Part, ...]:
    """Return the parts; adjacent texts are one, as in a stream."""
    parts: list[Part] = []
    read = BlockReader({}).read(content)
    kept = (part for part in read if isinstance(part, Text | ToolCall | Thinking))
    for is_text, run in groupby(kept, lambda part: isinstance(part, Text)):
        if is_text:
            parts.append(Text("".join([part.text for part in run if isinstance(part, Text)])))
        else:
            parts += [replace(one, extras={}) if isinstance(one, ToolCall) else one for one in run]
    return tuple(parts)


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id; the protocol states no creation time."""
    blocks = [block for part in response.parts if (block := _block(part)) is not None]
    message: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        **write_finish(
            response.finish,
            stop_sequence=response.stop_sequence,
            explanation=response.explanation,
            has_calls=any(isinstance(part, ToolCall) for part in response.parts),
            has_refusal=any(isinstance(part, Refusal) for part in response.parts),
        ),
        "usage": write_usage(response.usage),
    }
    return dumps(message)


def _block(part: Part) -> dict[str, Any] | None:
    if isinstance(part, Text | Refusal):
        return {"type": "text", "text": part.text} if part.text else None
    if isinstance(part, ToolCall):
        return {
            "type": "tool_use",
            "id": part.id,
            "name": part.name,
            "input": arguments_object(part.arguments),
        }
    if isinstance(part, Thinking):
        return thinking_block(part)
    # The protocol's responses have no media.
    return {"type": "text", "text": markdown(part)} if isinstance(part, Media) else None


def thinking_block(part: Thinking) -> dict[str, Any] | None:
    """Return the block of a thought; None for one that says nothing."""
    if part.redacted:
        data = sealed(part.redacted, part.signer, own=MESSAGES.protocol)
        return {"type": "redacted_thinking", "data": data}
    if part.signature:
        signature = sealed(part.signature, part.signer, own=MESSAGES.protocol)
    elif part.text:
        signature = UNSIGNED
    else:
        return None
    return {"type": "thinking", "thinking": part.text, "signature": signature}


def write_usage(usage: Usage | None) -> dict[str, Any]:
    """Return the `usage` member, which the protocol requires; zeros if it is unknown yet."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    members: dict[str, Any] = {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        members["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    if usage.parts is not None:
        members.update(_write_parts(usage, usage.parts))
    return members


def _write_parts(usage: Usage, parts: UsageParts) -> dict[str, Any]:
    """Return the members for parts of the usage; there are none for audio and images."""
    members = {**hour_member(usage), **tools_member(parts)}
    if parts.service_tier == "fast":
        members["speed"] = "fast"
    elif parts.service_tier is not None:
        members["service_tier"] = parts.service_tier
    return members
