"""Read a messages stream into canonical events.

Blocks have indices of their own; of the tools only the client's are calls, and they are counted.
Unknown events, blocks and deltas are passed over. Nothing an upstream sends raises. How an event is
read is `event.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from channels.dialects.messages.blocks import arguments_of
from channels.dialects.messages.event import Event as WireEvent
from channels.dialects.messages.event import Message, read_message
from channels.dialects.messages.finish import read_explanation, read_finish
from channels.dialects.messages.usage import UsageReader
from channels.families import MESSAGES
from channels.json.lenient import NOTHING, read_loosely, text_of
from channels.json.text import read_json
from channels.translation.failures import UNNAMED, failure_in
from channels.translation.identifiers import made_id
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.sealed_signature import opened


@dataclass(slots=True)
class _Call:
    """A block that is a call; `given` are arguments that its start already held."""

    index: int
    given: str
    has_arguments: bool = False


class StreamDecoder:
    """Reads one stream. Made for one attempt, used from one task."""

    __slots__ = ("_began", "_calls", "_count", "_ended", "_id", "_stated")

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}  # the open ones, by their block's index
        self._count = 0
        self._stated = UsageReader()
        self._id = ""
        self._began = False
        self._ended = False

    def __repr__(self) -> str:
        state = "ended" if self._ended else "began" if self._began else "new"
        return f"<messages.StreamDecoder {state}, {self._count} calls>"

    def take(self, read: WireEvent | None) -> list[Event]:
        """The events that one event of the wire holds; none for pings. Never raises."""
        if read is None or self._ended:
            return []
        is_delta = read.type == "content_block_delta"
        events = self._take_delta(read) if is_delta else self._take(read)
        if read.usage is not NOTHING:
            self._take_usage(read.usage, events)
        return events

    def end(self) -> list[Event]:
        """The upstream has closed. Without its terminator the stream was cut: nothing to say."""
        self._ended = True
        return []

    def _take_delta(self, read: WireEvent) -> list[Event]:
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

    def _take_usage(self, stated: msgspec.Raw, events: list[Event]) -> None:
        """Tell the usage that an event states, before the response's end."""
        if self._stated.take(stated, is_start=False) and (usage := self._stated.displayed):
            events.insert(len(events) - self._ended, UsageStated(usage))

    def _take(self, read: WireEvent) -> list[Event]:
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
        if kind == "error" or read.error is not NOTHING:
            self._ended = True
            return [failure_in(read_loosely(bytes(read.error)), ("type", "code")) or UNNAMED]
        return []

    def _start(self, raw: msgspec.Raw) -> list[Event]:
        message = read_message(raw) or Message()
        self._stated.take(message.usage, is_start=True)
        # A second start belongs to a response begun anew: its blocks are others.
        events = self._close()
        if not self._began:
            self._began = True
            self._id = message.id or ""
            events.append(Began(message.id, message.model))
        return events

    def _start_block(self, read: WireEvent) -> list[Event]:
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

    def _take_message_delta(self, read: WireEvent) -> list[Event]:
        events: list[Event] = []
        delta = read.delta
        if delta is not None and delta.stop_reason:
            details = None if delta.stop_details is NOTHING else delta.stop_details
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
    """No more arguments follow: those of its start, or none, which is an empty object."""
    return [] if call.has_arguments else [CallDelta(call.index, call.given)]


def _signed(text: str, signature: str) -> ThinkingDelta:
    signature, signer = opened(signature, own=MESSAGES.protocol)
    return ThinkingDelta(text, signature=signature, signer=signer)


def _thinking_of(block: dict[str, Any]) -> list[Event]:
    text, signature = text_of(block.get("thinking")) or "", text_of(block.get("signature"))
    if signature:
        return [_signed(text, signature)]
    return [ThinkingDelta(text)] if text else []
