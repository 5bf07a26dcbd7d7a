"""A response of Bedrock's Converse, streamed or whole, as the events of a messages stream.

Its stream has no start of a text block and reports the usage after the end; the messages protocol
starts every block, and ends after the usage. The response and the model are not named in it.
`converse_events.py` has the types of what is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from channels.dialects.messages import converse_events as wire
from channels.dialects.messages.converse_usage import shown, write_usage
from channels.errors import UpstreamMalformed
from channels.http.event_stream import EventMessage
from channels.json.written import Written

# An event of the messages protocol: its type, and its other members.
MessagesEvents = Iterator[tuple[str, Written]]

_STOP_REASONS: Mapping[str, str] = MappingProxyType(
    {"content_filtered": "refusal", "guardrail_intervened": "refusal"}
)


class ConverseDecoder:
    """Decodes one response. `name` is its id, which Converse does not state."""

    def __init__(self, name: str, model: str) -> None:
        self._name = name
        self._model = model
        self._open: int | None = None  # the block that was started
        self._stop_reason: str | None = None
        self._has_ended = False

    def take_event(self, message: EventMessage) -> MessagesEvents:
        """Return what an event of a stream is. Raises UpstreamMalformed."""
        found = _EVENTS.get(message.headers.get(":event-type", ""))
        if found is None or self._has_ended:
            return iter(())
        decoder, take = found
        return take(self, wire.decoded(decoder, message.payload, "an event that cannot be read"))

    def end_stream(self) -> MessagesEvents:
        """Return the last events: a response that stopped without stating its usage is complete."""
        if self._has_ended or self._stop_reason is None:
            return iter(())
        return self._end(None)

    def take_body(self, whole: wire.Whole) -> MessagesEvents:
        """Yield the events of a whole response. Raises UpstreamMalformed."""
        yield self._begin_message()
        for index, block in enumerate(whole.output.message.content):
            yield from self._take_block(index, block)
        self._stop_reason = whole.stop_reason
        yield from self._end(write_usage(whole))

    def _take_block(self, index: int, block: wire.ContentBlock) -> MessagesEvents:
        """Yield the events of a block; none if the messages protocol does not have it."""
        if block.text is not None:
            yield from self._text(index, block.text)
        elif (use := block.tool_use) is not None:
            yield from self._call(index, use, use.input)
        elif (thought := block.reasoning_content) is None:
            return
        elif thought.redacted_content is not None:
            yield from self._redacted(index, thought.redacted_content)
        elif (reasoning := thought.reasoning_text) is None:
            raise UpstreamMalformed("a thought that cannot be read")
        else:
            yield from self._thinking(index, "thinking", reasoning.text)
            if reasoning.signature:
                yield from self._thinking(index, "signature", reasoning.signature)

    def _message_start(self, event: wire.MessageStart) -> MessagesEvents:
        yield self._begin_message()

    def _block_start(self, event: wire.BlockStart) -> MessagesEvents:
        use = event.start.tool_use
        # None: a block that the messages protocol does not have.
        return iter(()) if use is None else self._call(event.content_block_index, use, {})

    def _block_delta(self, event: wire.BlockDelta) -> MessagesEvents:
        index, delta = event.content_block_index, event.delta
        thought = delta.reasoning_content
        if delta.text is not None:
            yield from self._text(index, delta.text)
        elif (use := delta.tool_use) is not None:
            yield _delta(index, "input_json", "partial_json", use.input)
        elif thought is None:
            return
        elif thought.text is not None:
            yield from self._thinking(index, "thinking", thought.text)
        elif thought.signature is not None:
            yield from self._thinking(index, "signature", thought.signature)
        elif thought.redacted_content is not None:
            yield from self._redacted(index, thought.redacted_content)

    def _block_stop(self, event: wire.BlockStop) -> MessagesEvents:
        return self._close()

    def _message_stop(self, event: wire.MessageStop) -> MessagesEvents:
        self._stop_reason = event.stop_reason
        return self._close()

    def _metadata(self, event: wire.StatedUsage) -> MessagesEvents:
        return self._end(write_usage(event))

    def _begin_message(self) -> tuple[str, Written]:
        message = {
            "id": f"msg_bdrk_{self._name}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            **_stopped(None),
            "usage": shown(None),  # no token count is known before the end
        }
        return "message_start", {"message": message}

    def _text(self, index: int, text: str) -> MessagesEvents:
        if self._open != index:
            yield from self._begin(index, {"type": "text", "text": ""})
        yield _delta(index, "text", "text", text)

    def _thinking(self, index: int, member: str, text: str) -> MessagesEvents:
        """Yield the events of a thought's text or signature."""
        if self._open != index:
            yield from self._begin(index, {"type": "thinking", "thinking": "", "signature": ""})
        yield _delta(index, member, member, text)

    def _redacted(self, index: int, data: str) -> MessagesEvents:
        return self._begin(index, {"type": "redacted_thinking", "data": data})

    def _call(self, index: int, use: wire.StartedToolUse, arguments: object) -> MessagesEvents:
        block = {
            "type": "tool_use",
            "id": use.tool_use_id,
            "name": use.name,
            "input": arguments,
        }
        return self._begin(index, block)

    def _begin(self, index: int, block: Written) -> MessagesEvents:
        yield from self._close()
        self._open = index
        yield "content_block_start", {"index": index, "content_block": block}

    def _close(self) -> MessagesEvents:
        if self._open is not None:
            index, self._open = self._open, None
            yield "content_block_stop", {"index": index}

    def _end(self, usage: Written | None) -> MessagesEvents:
        self._has_ended = True
        yield from self._close()
        yield "message_delta", {"delta": _stopped(self._stop_reason), "usage": shown(usage)}
        yield "message_stop", {}


# Each event's type, and what takes it.
_EVENTS: Mapping[
    str, tuple[msgspec.json.Decoder[Any], Callable[[ConverseDecoder, Any], MessagesEvents]]
] = MappingProxyType(
    {
        "messageStart": (msgspec.json.Decoder(wire.MessageStart), ConverseDecoder._message_start),
        "contentBlockStart": (msgspec.json.Decoder(wire.BlockStart), ConverseDecoder._block_start),
        "contentBlockDelta": (msgspec.json.Decoder(wire.BlockDelta), ConverseDecoder._block_delta),
        "contentBlockStop": (msgspec.json.Decoder(wire.BlockStop), ConverseDecoder._block_stop),
        "messageStop": (msgspec.json.Decoder(wire.MessageStop), ConverseDecoder._message_stop),
        "metadata": (msgspec.json.Decoder(wire.StatedUsage), ConverseDecoder._metadata),
    }
)


def _delta(index: int, kind: str, member: str, text: str) -> tuple[str, Written]:
    delta = {"type": f"{kind}_delta", member: text}
    return "content_block_delta", {"index": index, "delta": delta}


def _stopped(reason: str | None) -> Written:
    """Return the stop reason; most have the same name in both."""
    word = None if reason is None else _STOP_REASONS.get(reason, reason)
    return {"stop_reason": word, "stop_sequence": None}
