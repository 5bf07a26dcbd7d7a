"""A messages upstream's response, streamed or whole, as canonical events.

Blocks have their own indices; of the tools only the client's are calls, which are numbered. Unknown
events, blocks and deltas are ignored. Nothing that an upstream sends raises. `events.py` decodes
the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from channels.dialects.messages.blocks import arguments_of
from channels.dialects.messages.events import (
    EMPTY_TEXT,
    MessagesEvent,
    PlainMessage,
    StatedMessage,
    read_message,
)
from channels.dialects.messages.stop_reasons import read_explanation, read_finish
from channels.errors import UpstreamMalformed
from channels.families import MESSAGES
from channels.json import lenient
from channels.translation.codec import Metered
from channels.translation.error_names import UNNAMED, failure_in
from channels.translation.events import (
    CITATIONS_MAX,
    Began,
    CallBegan,
    CallDelta,
    Citation,
    Ended,
    Event,
    Finished,
    TextDelta,
    ThinkingDelta,
    UsageStated,
    source_of,
)
from channels.translation.identifiers import made_id
from channels.translation.signatures import UNSIGNED, opened


@dataclass(slots=True)
class _OpenToolUse:
    """A block that is a call; `given` are arguments that its start already had."""

    index: int
    given: str
    has_arguments: bool = False


class MessagesResponseDecoder:
    """Decodes one response. Made for one attempt, used from one task."""

    __slots__ = (
        "_began",
        "_block_start",
        "_calls",
        "_characters",
        "_citations",
        "_cited",
        "_count",
        "_ended",
        "_has_stopped",
        "_id",
        "_meter",
    )

    def __init__(self, meter: Metered) -> None:
        self._meter = meter
        self._calls: dict[int, _OpenToolUse] = {}  # open calls, by their block's index
        self._count = 0
        self._characters = 0  # of all text so far
        self._block_start = 0  # where the open block begins in it
        self._cited: dict[tuple[str, str], None] = {}  # sources of the open block: URL and title
        self._citations = 0
        self._id = ""
        self._began = False
        self._ended = False
        self._has_stopped = False  # a stop reason was received

    def take_event(self, read: MessagesEvent | None) -> list[Event]:
        """Return the canonical events of one decoded event; none for pings. Never raises."""
        if read is None or self._ended:
            return []
        events: list[Event]
        if read.type != "content_block_delta":
            events = self._take(read)
        elif (delta := read.delta) is not None and delta.text:
            self._characters += len(delta.text)
            events = [TextDelta(delta.text)]
        else:
            events = self._take_delta(read)
        if read.usage is not lenient.NULL:
            self._emit_usage(events)
        return events

    def pass_texts(self, characters: int) -> None:
        """Count the characters of a run of texts, of which no event is taken."""
        self._characters += characters

    def end_stream(self) -> list[Event]:
        """Return the events that end a stream without its terminator; none without a stop reason.

        Only the caller knows whether it was cut.
        """
        if self._ended:
            return []
        self._ended = True
        return [*self._close(), Ended()] if self._has_stopped else []

    def take_body(self, message: StatedMessage) -> list[Event]:
        """Return the canonical events of a whole response. Raises UpstreamMalformed.

        A response has content, unless all of it was withheld.
        """
        self._id = message.id or ""
        events: list[Event] = [Began(message.id, message.model)]
        if isinstance(message, PlainMessage):
            events += [TextDelta(block.text) for block in message.content if block.text]
        else:
            events += self._take_content(message)
        if usage := self._meter.shown_usage:
            events.append(UsageStated(usage))
        if message.stop_reason:
            events.append(
                _finished(message.stop_reason, message.stop_sequence, message.stop_details)
            )
        events.append(Ended())
        return events

    def _take_content(self, message: StatedMessage) -> list[Event]:
        content = lenient.read_json(bytes(message.content))
        if content is None and message.stop_reason == "refusal":
            content = []
        if not isinstance(content, list):
            raise UpstreamMalformed("a message without content")
        events: list[Event] = []
        for index, block in enumerate(content):
            if isinstance(block, dict):
                events += [*self._begin_block(), *self._take_block(index, block)]
        return [*events, *self._close()]

    def _take_delta(self, read: MessagesEvent) -> list[Event]:
        """Return the events of a delta that is no text."""
        delta = read.delta
        if delta is None:
            return []
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
        if delta.citation is not lenient.NULL:
            self._note_source(lenient.read_json(bytes(delta.citation)))
        return []

    def _emit_usage(self, events: list[Event]) -> None:
        """Emit the usage, before the response's end."""
        if usage := self._meter.shown_usage:
            events.insert(len(events) - self._ended, UsageStated(usage))

    def _take(self, read: MessagesEvent) -> list[Event]:
        kind = read.type
        if kind == "content_block_start":
            return [*self._begin_block(), *self._start_block(read)]
        if kind == "content_block_stop":
            call = self._calls.pop(read.index or 0, None)
            return self._begin_block() if call is None else _closing(call)
        if kind == "message_start":
            return self._start(read.message)
        if kind == "message_delta":
            return self._take_message_delta(read)
        if kind == "message_stop":
            self._ended = True
            return [*self._close(), Ended()]
        if kind == "error" or read.error is not lenient.NULL:
            self._ended = True
            return [
                failure_in(lenient.read_loosely(bytes(read.error)), ("type", "code")) or UNNAMED
            ]
        return []

    def _start(self, raw: msgspec.Raw) -> list[Event]:
        message = read_message(raw) or StatedMessage()
        if self._began:  # a second start belongs to a restarted response, with other blocks
            return self._close()
        self._began = True
        self._id = message.id or ""
        return [*self._close(), Began(message.id, message.model)]

    def _start_block(self, read: MessagesEvent) -> list[Event]:
        stated = bytes(read.content_block)
        if stated in EMPTY_TEXT:
            return []
        block = lenient.read_json(stated)
        return self._take_block(read.index or 0, block) if isinstance(block, dict) else []

    def _take_block(self, index: int, block: dict[str, Any]) -> list[Event]:
        """Return the events of a block, or of its beginning."""
        kind = block.get("type")
        if kind == "text":
            sources = block.get("citations")
            for source in sources if isinstance(sources, list) else ():
                self._note_source(source)
            text = lenient.text_of(block.get("text")) or ""
            self._characters += len(text)
            return [TextDelta(text)] if text else []
        if kind == "thinking":
            return _thinking_of(block)
        if kind == "redacted_thinking" and (data := lenient.text_of(block.get("data"))):
            data, signer = opened(data, own=MESSAGES.protocol)
            return [ThinkingDelta(redacted=data, signer=signer)]
        if kind == "tool_use":
            given = block.get("input")
            call = _OpenToolUse(self._count, arguments_of(given))
            self._count += 1
            self._calls[index] = call
            call_id = lenient.text_of(block.get("id")) or made_id(self._id, str(call.index))
            name = lenient.text_of(block.get("name")) or ""
            return [CallBegan(call.index, call_id, name)]
        return []

    def _begin_block(self) -> list[Event]:
        """Return the sources of the block before, whose text they are stated for as a whole."""
        start, self._block_start = self._block_start, self._characters
        if not self._cited:
            return []
        cited, self._cited = self._cited, {}
        return [Citation(url, title, start, self._characters) for url, title in cited]

    def _note_source(self, stated: object) -> None:
        """Note a source on the web; others are places in the client's own documents."""
        if not isinstance(stated, dict):
            return
        source = source_of(stated.get("url"), stated.get("title"))
        if source is not None and source not in self._cited and self._citations < CITATIONS_MAX:
            self._citations += 1
            self._cited[source] = None

    def _take_message_delta(self, read: MessagesEvent) -> list[Event]:
        events: list[Event] = []
        delta = read.delta
        if delta is not None and delta.stop_reason:
            self._has_stopped = True
            events.extend(self._close())
            events.append(_finished(delta.stop_reason, delta.stop_sequence, delta.stop_details))
        return events

    def _close(self) -> list[Event]:
        """End the blocks that were never stopped."""
        events = self._begin_block()
        for call in self._calls.values():
            events += _closing(call)
        self._calls.clear()
        return events


def _finished(reason: str, stop_sequence: str | None, details: msgspec.Raw) -> Finished:
    if details is lenient.NULL:
        return Finished(read_finish(reason), stop_sequence)
    stated = lenient.read_json(bytes(details))
    return Finished(read_finish(reason), stop_sequence, read_explanation(stated))


def _closing(call: _OpenToolUse) -> list[Event]:
    """Return the arguments of a call without deltas: those of its start, or an empty object."""
    return [] if call.has_arguments else [CallDelta(call.index, call.given)]


def _signed(text: str, signature: str) -> ThinkingDelta:
    if signature == UNSIGNED:
        return ThinkingDelta(text)
    signature, signer = opened(signature, own=MESSAGES.protocol)
    return ThinkingDelta(text, signature=signature, signer=signer)


def _thinking_of(block: dict[str, Any]) -> list[Event]:
    text, signature = (
        lenient.text_of(block.get("thinking")) or "",
        lenient.text_of(block.get("signature")),
    )
    if signature:
        return [_signed(text, signature)]
    return [ThinkingDelta(text)] if text else []
