"""Read a chat-completions stream into canonical events.

Nothing an upstream sends raises. How a chunk is read is `chunk.py`; the calls' own rules are
`tool_calls.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from channels.dialects.chat.chunk import TERMINATOR, Choice, Chunk, Message, ToolCall, error_in
from channels.dialects.chat.content import read_content
from channels.dialects.chat.finish import read_finish
from channels.dialects.chat.thinking import read_entry
from channels.dialects.chat.tool_calls import ToolCallReader
from channels.dialects.chat.usage import UsageReader
from channels.json.lenient import NOTHING, is_stated, read_loosely
from channels.translation.failures import failure_in
from channels.translation.model import (
    Began,
    Ended,
    Event,
    Finished,
    Media,
    MediaDelta,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)


class StreamDecoder:
    """Reads one stream. Made for one attempt, used from one task."""

    __slots__ = ("_began", "_calls", "_ended", "_stated", "_thought")

    def __init__(self) -> None:
        self._calls = ToolCallReader()
        self._began = False
        self._ended = False
        self._stated = UsageReader()
        self._thought = False  # text of the present thought has been given

    def __repr__(self) -> str:
        state = "ended" if self._ended else "began" if self._began else "new"
        return f"<chat.StreamDecoder {state}, {self._calls}>"

    def take(self, read: Chunk | None) -> list[Event]:
        """The events that one event of the wire holds. Never raises."""
        if read is None or self._ended:
            return []
        if read is TERMINATOR:
            self._ended = True
            return [*self._calls.close(), Ended()]
        return self._take(read)

    def end(self) -> list[Event]:
        """The upstream has closed. Without its terminator the stream was cut: nothing to say."""
        self._ended = True
        return []

    def _take(self, chunk: Chunk) -> list[Event]:
        events: list[Event] = []
        stated = chunk.error if chunk.choices else error_in(chunk)
        error = None if stated is NOTHING else read_loosely(bytes(stated))
        if (failed := failure_in(error)) is not None:
            self._ended = True
            return [failed]
        if not self._began and chunk.choices is not None:
            self._began = True
            self._calls.seed = chunk.id or ""
            events.append(Began(chunk.id, chunk.model))
        for choice in chunk.choices or ():
            if choice.usage is not NOTHING and self._stated.take_spare(None, choice.usage):
                self._emit_usage(events)
            if not choice.index:
                self._take_choice(choice, events)
        if chunk.x_groq is not None and self._stated.take_spare(chunk.x_groq):
            self._emit_usage(events)
        if chunk.usage is not NOTHING and is_stated(chunk.usage) and self._stated.take(chunk.usage):
            self._emit_usage(events)
        return events

    def _take_choice(self, choice: Choice, events: list[Event]) -> None:
        if choice.delta is not None:
            self._take_delta(choice.delta, events)
        if choice.finish_reason:
            events.extend(self._calls.close())
            has_calls = self._calls.count > 0
            events.append(Finished(read_finish(choice.finish_reason, has_calls=has_calls)))

    def _emit_usage(self, events: list[Event]) -> None:
        if (usage := self._stated.usage) is not None:
            events.append(UsageStated(usage))

    def _take_delta(self, delta: Message, events: list[Event]) -> None:
        thought = delta.thought()
        if thought:
            self._thought = True
            events.append(ThinkingDelta(thought))
        if delta.reasoning_details is not NOTHING:
            self._take_details(delta.reasoning_details, events)
        if delta.content:
            events.append(TextDelta(delta.content))
        if delta.images is not NOTHING:
            _take_images(delta.images, events)
        if delta.refusal:
            events.append(RefusalDelta(delta.refusal))
        if delta.tool_calls is not None:
            events.extend(self._calls.read(delta.tool_calls))
        if delta.function_call is not None:  # from before there were several calls
            events.extend(self._calls.read([ToolCall(index=0, function=delta.function_call)]))

    def _take_details(self, raw: msgspec.Raw, events: list[Event]) -> None:
        """Signatures of thoughts; their text as well, where it did not come by itself."""
        details = read_loosely(bytes(raw))
        for entry in details if isinstance(details, list) else ():
            thinking = read_entry(entry) if isinstance(entry, Mapping) else None
            if thinking is None:
                continue
            text = "" if self._thought else thinking.text
            is_whole = bool(thinking.signature or thinking.redacted)
            if not text and not is_whole:
                continue
            events.append(
                ThinkingDelta(
                    text,
                    signature=thinking.signature,
                    redacted=thinking.redacted,
                    signer=thinking.signer,
                )
            )
            if thinking.signature:
                self._thought = False


def _take_images(raw: msgspec.Raw, events: list[Event]) -> None:
    for part in read_content(read_loosely(bytes(raw)), {}):
        if isinstance(part, Media):
            events.append(MediaDelta(part))
