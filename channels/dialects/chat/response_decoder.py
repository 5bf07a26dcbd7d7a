"""A chat-completions upstream's response, streamed or whole, as canonical events.

Nothing that an upstream sends in a stream raises. `events.py` decodes its members, `tool_calls.py`
the calls.
"""

from __future__ import annotations

from channels.dialects.chat import events as wire
from channels.dialects.chat import thinking
from channels.dialects.chat.content import read_content
from channels.dialects.chat.finish_reasons import WITHHELD, read_finish
from channels.dialects.chat.tool_calls import ChatToolCallReader
from channels.dialects.token_counts import Usage
from channels.errors import UpstreamMalformed
from channels.json import lenient
from channels.translation import error_names
from channels.translation.codec import Metered
from channels.translation.events import (
    CITATIONS_MAX,
    Began,
    Citation,
    Ended,
    Event,
    Finished,
    MediaDelta,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    UsageStated,
    source_of,
)
from channels.translation.model import Media, Refusal, Text


class ChatResponseDecoder:
    """Decodes one response. Made for one attempt, used from one task."""

    __slots__ = (
        "_began",
        "_calls",
        "_cited",
        "_ended",
        "_has_content",
        "_is_finished",
        "_last_usage",
        "_meter",
        "_thought",
    )

    def __init__(self, meter: Metered) -> None:
        self._meter = meter
        self._calls = ChatToolCallReader()
        self._began = False
        self._cited: dict[Citation, None] = {}
        self._ended = False
        self._has_content = False
        self._last_usage: Usage | None = None  # emitted last
        self._is_finished = False  # a finish reason was received
        self._thought = False  # text of the present thought was emitted

    def take_event(self, read: wire.ChatChunk | None) -> list[Event]:
        """Return the canonical events of one decoded event. Never raises."""
        if read is None or self._ended:
            return []
        if read is wire.TERMINATOR:
            self._ended = True
            return [*self._calls.close(), Ended()]
        return self._take(read)

    def end_stream(self) -> list[Event]:
        """Return the events that end a stream without its terminator; none without a finish reason.

        Only the caller knows whether it was cut.
        """
        if self._ended:
            return []
        self._ended = True
        return [*self._calls.close(), Ended()] if self._is_finished else []

    def take_body(self, read: wire.ChatChunk) -> list[Event]:
        """Return the canonical events of a whole response. Raises UpstreamMalformed.

        The first of several choices is decoded, as translations never request more. It has a
        message, unless all of it was withheld.
        """
        first = read.choices[0] if read.choices else wire.Choice()
        if first.message is None and first.finish_reason not in WITHHELD:
            raise UpstreamMalformed("a chat completion without a choice")
        message = first.message or wire.ChunkMessage()
        for number, call in enumerate(message.tool_calls or ()):
            call.index = number  # each is a call of its own, whatever number or id it has
        events: list[Event] = []
        self._begin(read, events)
        choice = wire.Choice(delta=message, finish_reason=first.finish_reason)
        self._take_choice(choice, events)
        events += self._calls.close()
        self._emit_usage(events)
        events.append(Ended())
        return events

    def _take(self, chunk: wire.ChatChunk) -> list[Event]:
        events: list[Event] = []
        stated = wire.error_in(chunk)
        failed = (
            None
            if stated is lenient.NULL
            else error_names.failure_in(lenient.read_loosely(bytes(stated)))
        )
        if failed is not None:
            self._ended = True
            return [failed]
        if not self._began and chunk.choices is not None:
            self._begin(chunk, events)
        for choice in chunk.choices or ():
            self._take_choice(choice, events)
        if chunk.x_groq is not None or lenient.is_stated(chunk.usage):
            self._emit_usage(events)
        return events

    def _begin(self, chunk: wire.ChatChunk, events: list[Event]) -> None:
        self._began = True
        self._calls.seed = chunk.id or ""
        events.append(Began(chunk.id, chunk.model))

    def _take_choice(self, choice: wire.Choice, events: list[Event]) -> None:
        if choice.usage is not lenient.NULL:
            self._emit_usage(events)
        if choice.index:
            return
        message = choice.delta
        if message is None and not self._has_content:
            message = choice.message  # in other chunks it repeats the deltas so far
        if message is not None:
            before = len(events)
            self._take_delta(message, events)
            self._has_content = self._has_content or len(events) > before
        if choice.finish_reason:
            self._is_finished = True
            events.extend(self._calls.close())
            has_calls = self._calls.count > 0
            events.append(Finished(read_finish(choice.finish_reason, has_calls=has_calls)))

    def _emit_usage(self, events: list[Event]) -> None:
        """Emit the usage if it has changed."""
        usage = self._meter.shown_usage
        if usage is not None and usage != self._last_usage:
            self._last_usage = usage
            events.append(UsageStated(usage))

    def _take_delta(self, delta: wire.ChunkMessage, events: list[Event]) -> None:
        thought = delta.thought()
        if delta.reasoning_details is not lenient.NULL or delta.thinking_blocks is not lenient.NULL:
            self._take_details(thought, delta, events)
        elif thought:
            self._thought = True
            events.append(ThinkingDelta(thought))
        if delta.content:
            events.append(TextDelta(delta.content))
        elif isinstance(delta, wire.LooseMessage):
            events.extend(_event_of(part) for part in delta.parts if part != _NO_TEXT)
        if delta.images is not lenient.NULL:
            images = read_content(lenient.read_loosely(bytes(delta.images)), {})
            events.extend(MediaDelta(part) for part in images if isinstance(part, Media))
        if delta.annotations is not lenient.NULL:
            events.extend(self._cite(lenient.read_loosely(bytes(delta.annotations))))
        if delta.refusal:
            events.append(RefusalDelta(delta.refusal))
        if delta.tool_calls is not None:
            events.extend(self._calls.read(delta.tool_calls))
        if delta.function_call is not None:  # from before there were several calls
            call = wire.ChunkToolCall(index=_FUNCTION_CALL, function=delta.function_call)
            events.extend(self._calls.read([call]))

    def _cite(self, annotations: object) -> list[Event]:
        """Return the sources that were not stated before: some upstreams repeat them all."""
        found: list[Event] = []
        for one in annotations if isinstance(annotations, list) else ():
            stated = one.get("url_citation") if isinstance(one, dict) else None
            if not isinstance(stated, dict):
                continue
            url, title, start, end = map(stated.get, ("url", "title", "start_index", "end_index"))
            if (source := source_of(url, title)) is None:
                continue
            citation = Citation(
                *source,
                start if type(start) is int and start >= 0 else None,
                end if type(end) is int and end >= 0 else None,
            )
            if citation not in self._cited and len(self._cited) < CITATIONS_MAX:
                self._cited[citation] = None
                found.append(citation)
        return found

    def _take_details(
        self, thought: str | None, delta: wire.ChunkMessage, events: list[Event]
    ) -> None:
        """Emit thoughts and their signatures; the envelope repeats text that was sent outside."""
        stated = (delta.reasoning_details, delta.thinking_blocks)
        entries = thinking.read_entries(*(lenient.read_json(bytes(raw)) for raw in stated))
        if not self._thought:
            entries = thinking.thoughts_of(thought, entries)
        elif thought:
            events.append(ThinkingDelta(thought))
        for one in entries:
            text = "" if self._thought else one.text
            if text or thinking.is_proven(one):
                events.append(
                    ThinkingDelta(
                        text, signature=one.signature, redacted=one.redacted, signer=one.signer
                    )
                )
            if one.signature:
                self._thought = False
            elif thought and text:
                self._thought = True


# The number of the call in a `function_call`; others are counted from 0.
_FUNCTION_CALL = -1


_NO_TEXT = Text("")


def _event_of(part: Text | Media | Refusal) -> Event:
    if isinstance(part, Media):
        return MediaDelta(part)
    return TextDelta(part.text) if isinstance(part, Text) else RefusalDelta(part.text)
