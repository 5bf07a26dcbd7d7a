"""Chat-completions streams, to canonical events and back.

Nothing that an upstream sends in a stream raises. `events.py` decodes chunks and tool calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import msgspec

from channels.dialects.chat import events as wire
from channels.dialects.chat import thinking
from channels.dialects.chat.content import read_content
from channels.dialects.chat.finish_reasons import WITHHELD, read_finish, write_finish
from channels.dialects.chat.tool_calls import ChatToolCallReader
from channels.dialects.chat.usage import ChatUsageReader, write_usage
from channels.dialects.usage_details import tier_member
from channels.errors import UpstreamMalformed
from channels.json import lenient
from channels.translation import error_names
from channels.translation.event_encoder import EventEncoder
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Citation,
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
from channels.translation.media import markdown
from channels.translation.model import Media, Refusal, Text, Thinking


class ChatStreamDecoder:
    """Decodes one stream. Made for one attempt, used from one task."""

    __slots__ = ("_began", "_calls", "_ended", "_is_finished", "_stated", "_thought")

    def __init__(self) -> None:
        self._calls = ChatToolCallReader()
        self._began = False
        self._ended = False
        self._is_finished = False  # a finish reason was received
        self._stated = ChatUsageReader()
        self._thought = False  # text of the present thought was emitted

    def __repr__(self) -> str:
        state = "ended" if self._ended else "began" if self._began else "new"
        return f"<ChatStreamDecoder {state}, {self._calls}>"

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
        choice = wire.Choice(delta=message, finish_reason=first.finish_reason, usage=first.usage)
        events: list[Event] = []
        self._take_response(read, (choice,), events)
        return [*events, *self._calls.close(), Ended()]

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
        self._take_response(chunk, chunk.choices, events)
        return events

    def _take_response(
        self, chunk: wire.ChatChunk, choices: Sequence[wire.Choice] | None, events: list[Event]
    ) -> None:
        if not self._began and choices is not None:
            self._began = True
            self._calls.seed = chunk.id or ""
            self._stated.model = chunk.model
            events.append(Began(chunk.id, chunk.model))
        if chunk.service_tier is not None:
            self._stated.tier = chunk.service_tier
        for choice in choices or ():
            self._take_choice(choice, events)
        if chunk.x_groq is not None and self._stated.take_spare(chunk.x_groq):
            self._emit_usage(events)
        if chunk.usage is not lenient.NULL and lenient.is_stated(chunk.usage):
            self._stated.take_usage(chunk.usage)
            self._emit_usage(events)

    def _take_choice(self, choice: wire.Choice, events: list[Event]) -> None:
        if choice.usage is not lenient.NULL and self._stated.take_spare(None, choice.usage):
            self._emit_usage(events)
        if choice.index:
            return
        if choice.delta is not None:
            self._take_delta(choice.delta, events)
        if choice.finish_reason:
            self._is_finished = True
            events.extend(self._calls.close())
            has_calls = self._calls.count > 0
            events.append(Finished(read_finish(choice.finish_reason, has_calls=has_calls)))

    def _emit_usage(self, events: list[Event]) -> None:
        if (usage := self._stated.usage) is not None:
            events.append(UsageStated(usage))

    def _take_delta(self, delta: wire.ChunkMessage, events: list[Event]) -> None:
        thought = delta.thought()
        if delta.reasoning_details is not lenient.NULL:
            self._take_details(thought, delta.reasoning_details, events)
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
        if delta.refusal:
            events.append(RefusalDelta(delta.refusal))
        if delta.tool_calls is not None:
            events.extend(self._calls.read(delta.tool_calls))
        if delta.function_call is not None:  # from before there were several calls
            call = wire.ChunkToolCall(index=_FUNCTION_CALL, function=delta.function_call)
            events.extend(self._calls.read([call]))

    def _take_details(self, thought: str | None, raw: msgspec.Raw, events: list[Event]) -> None:
        """Emit thoughts and their signatures; the envelope repeats text that was sent outside."""
        entries = thinking.read_entries(lenient.read_loosely(bytes(raw)))
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


_TERMINATOR = b"data: [DONE]\n\n"

# A keep-alive is a comment, which clients ignore.
KEEP_ALIVE = b": keep-alive\n\n"


class ChatStreamEncoder(EventEncoder):
    """Encodes one response's stream. Made for one attempt, used from one task.

    The first chunk has the role, the first piece of a call its id and name; calls have their own
    numbering. The finish reason is kept until the upstream has ended: a cut stream has no
    finish_reason and no `[DONE]` (spec: Stream failure behaviour). Lifecycle events are kept, too:
    no byte is sent before there is content, so that another channel may still be tried.
    """

    __slots__ = (
        "_arguments",
        "_characters",
        "_ends",
        "_head",
        "_includes_usage",
        "_media_offsets",
        "_placed_characters",
        "_tail",
        "_thought",
        "_thoughts",
    )

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        super().__init__()
        start: dict[str, Any] = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._head = b"data: " + lenient.dumps(start)[:-1] + b',"choices":['
        # Every chunk has a null usage, except the one that states it.
        self._tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._includes_usage = include_usage
        self._ends = b',"logprobs":null,"finish_reason":null}' + self._tail
        self._arguments: list[bool] | None = None  # per call: has arguments; None: no chunk yet
        self._thought: list[str] = []  # text of the present thought
        self._thoughts = 0
        self._characters = 0  # of the text so far
        # Offsets of media in the text, each with the characters of the media before it.
        self._media_offsets: list[tuple[int, int]] = []
        self._placed_characters = 0

    def __repr__(self) -> str:
        state = "over" if self._is_over else "new" if self._arguments is None else "open"
        return f"<ChatStreamEncoder {state}>"

    def _text(self, text: str) -> bytes:
        self._thought.clear()
        self._characters += len(text)
        return self._chunk(b'{"content":' + lenient.dumps(text) + b"}")

    def _refusal(self, text: str) -> bytes:
        self._thought.clear()
        return self._chunk(b'{"refusal":' + lenient.dumps(text) + b"}")

    def _media(self, media: Media) -> bytes:
        self._thought.clear()
        written = markdown(media)
        self._media_offsets.append((self._characters, self._placed_characters))
        self._placed_characters += len(written)
        return self._chunk(lenient.dumps({"content": written}))

    def _citation(self, citation: Citation) -> bytes:
        return self._chunk(lenient.dumps({"annotations": [self._annotation(citation)]}))

    def _failed(self, event: StreamFailed) -> bytes:
        return b"data: " + _error(event) + b"\n\n"

    def _chunk(self, delta: bytes) -> bytes:
        """Encode one chunk, and the role before the first."""
        chunk = self._head + b'{"index":0,"delta":' + delta + self._ends
        if self._arguments is not None:
            return chunk
        self._arguments = []
        role = b'{"role":"assistant","content":"","refusal":null}'
        return self._head + b'{"index":0,"delta":' + role + self._ends + chunk

    def _thinking(self, event: ThinkingDelta) -> bytes:
        members: dict[str, Any] = {}
        if event.text:
            self._thought.append(event.text)
            members["reasoning_content"] = event.text
        if event.signature or event.redacted:
            part = Thinking(
                "" if event.redacted else "".join(self._thought),
                signature=event.signature,
                signer=event.signer,
                redacted=event.redacted,
            )
            if thinking.is_proven(part):
                members["reasoning_details"] = [thinking.entry_of(part, index=self._thoughts)]
                self._thoughts += 1
            if event.signature:
                self._thought.clear()
        return self._chunk(lenient.dumps(members)) if members else b""

    def _annotation(self, event: Citation) -> dict[str, Any]:
        """Encode a source as in whole responses; streams have it in a delta."""
        cited: dict[str, Any] = {"url": event.url, "title": event.title}
        # Media are part of the content here, but not of the text that the offsets refer to.
        if (start := event.start) is not None:
            cited["start_index"] = start + self._media_before(start + 1)
        if (end := event.end) is not None:
            cited["end_index"] = end + self._media_before(end)
        return {"type": "url_citation", "url_citation": cited}

    def _media_before(self, offset: int) -> int:
        """Return the characters of the media before an offset in the text."""
        found = bisect_left(self._media_offsets, (offset, 0))
        return (
            self._media_offsets[found][1]
            if found < len(self._media_offsets)
            else self._placed_characters
        )

    def _call_began(self, event: CallBegan) -> bytes:
        self._thought.clear()
        call = {
            "index": event.index,
            "id": event.id,
            "type": "function",
            "function": {"name": event.name, "arguments": ""},
            **thinking.call_signature(event.signature, event.signer),
        }
        chunk = self._chunk(lenient.dumps({"tool_calls": [call]}))
        assert self._arguments is not None, "a chunk was written"
        while len(self._arguments) <= event.index:
            self._arguments.append(False)
        return chunk

    def _call_delta(self, event: CallDelta) -> bytes:
        started = self._arguments
        if not event.arguments or started is None or event.index >= len(started):
            return b""
        started[event.index] = True
        index = b'{"tool_calls":[{"index":%d,"function":{"arguments":' % event.index
        return self._chunk(index + lenient.dumps(event.arguments) + b"}}]}")

    def _end(self) -> bytes:
        finished = self._finished
        pieces = []
        for index, has_arguments in enumerate(self._arguments or ()):
            if not has_arguments:  # arguments are an object, even if empty
                pieces.append(self._call_delta(CallDelta(index, "{}")))
        if finished is not None and finished.reason == "refusal":
            explanation = None if self._has_refusal else finished.explanation
            if explanation:
                pieces.append(self._chunk(lenient.dumps({"refusal": explanation})))
        reason = None if finished is None else finished.reason
        word = write_finish(reason, has_calls=bool(self._arguments))
        last = b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"%b"}' % word.encode()
        if self._arguments is None:
            last = last.replace(b'"delta":{}', b'"delta":{"role":"assistant","content":""}')
        pieces.append(self._head + last + self._tail)
        if self._includes_usage and self._usage is not None:
            usage = {"usage": write_usage(self._usage), **tier_member(self._usage)}
            pieces.append(self._head + b"]," + lenient.dumps(usage)[1:] + b"\n\n")
        pieces.append(_TERMINATOR)
        return b"".join(pieces)


def closing_failure(message: str) -> bytes:
    """Encode an error and the terminator, with which the gateway closes a failed stream.

    For built-in tools only, and always with the same names (spec: Stream failure behaviour 3).
    """
    return b"data: " + _written(error_names.OTHER, message) + b"\n\n" + _TERMINATOR


def _error(event: StreamFailed) -> bytes:
    return _written(error_names.failure_named(event.code), event.message)


def _written(failure: error_names.ErrorNames, message: str) -> bytes:
    error = {"message": message, "type": failure.chat_type, "code": failure.chat_code}
    return lenient.dumps({"error": error})
