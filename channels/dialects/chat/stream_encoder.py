"""Write canonical events as a chat-completions stream.

The first chunk carries the role, a call's first piece its id and name; calls are numbered by
themselves. How it ended is held back until the upstream has really ended: a cut stream has no
finish_reason and no `[DONE]` (spec: Stream failure behaviour). Lifecycle is held back too: no byte
goes out before there is something to say, so that another channel may still be tried.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from channels.dialects.chat.finish import write_finish
from channels.dialects.chat.thinking import call_signature, entry_of, is_proven
from channels.dialects.chat.usage import write_usage
from channels.json.text import dumps
from channels.translation.failures import OTHER, Failure, failure_named
from channels.translation.media import markdown
from channels.translation.model import (
    CallBegan,
    CallDelta,
    Citation,
    Ended,
    Event,
    Failed,
    Finished,
    MediaDelta,
    RefusalDelta,
    TextDelta,
    Thinking,
    ThinkingDelta,
    UsageStated,
)
from channels.usage import Usage

_TERMINATOR = b"data: [DONE]\n\n"

# What is sent while there is nothing to say: a comment, which clients pass over.
KEEP_ALIVE = b": keep-alive\n\n"


class StreamEncoder:
    """Writes one answer's stream. Made for one attempt, used from one task."""

    __slots__ = (
        "_arguments",
        "_ends",
        "_finished",
        "_has_refusal",
        "_head",
        "_includes_usage",
        "_is_over",
        "_media",
        "_media_characters",
        "_tail",
        "_text",
        "_thought",
        "_thoughts",
        "_usage",
    )

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        start: dict[str, Any] = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._head = b"data: " + dumps(start)[:-1] + b',"choices":['
        # Every chunk says that its usage is none, but the one that states it.
        self._tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._includes_usage = include_usage
        self._ends = b',"logprobs":null,"finish_reason":null}' + self._tail
        self._arguments: list[bool] | None = None  # per call whether arguments came; None: no chunk
        self._thought: list[str] = []  # text of the present thought
        self._thoughts = 0
        self._text = 0  # characters so far
        # Where in the text a medium stands, and the characters of those before it.
        self._media: list[tuple[int, int]] = []
        self._media_characters = 0
        self._finished: Finished | None = None
        self._has_refusal = False
        self._usage: Usage | None = None
        self._is_over = False

    def __repr__(self) -> str:
        state = "over" if self._is_over else "new" if self._arguments is None else "open"
        return f"<chat.StreamEncoder {state}>"

    def encode(self, event: Event) -> bytes:
        """The bytes that say the event; none where it says nothing yet, or after the end."""
        if self._is_over:
            return b""
        if type(event) is TextDelta:
            self._thought.clear()
            self._text += len(event.text)
            return self._chunk(b'{"content":' + dumps(event.text) + b"}")
        if type(event) is CallDelta:
            return self._call_delta(event)
        if type(event) is ThinkingDelta:
            return self._thinking(event)
        if type(event) is CallBegan:
            return self._call_began(event)
        return self._encode_rarer(event)

    def _encode_rarer(self, event: Event) -> bytes:
        if isinstance(event, UsageStated):
            self._usage = event.usage
        elif isinstance(event, Finished):
            self._finished = event
        elif isinstance(event, RefusalDelta):
            self._thought.clear()
            self._has_refusal = True
            return self._chunk(b'{"refusal":' + dumps(event.text) + b"}")
        elif isinstance(event, MediaDelta):
            self._thought.clear()
            written = markdown(event.media)
            self._media.append((self._text, self._media_characters))
            self._media_characters += len(written)
            return self._chunk(dumps({"content": written}))
        elif isinstance(event, Citation):
            return self._chunk(dumps({"annotations": [self._annotation(event)]}))
        elif isinstance(event, Failed):
            self._is_over = True
            return b"data: " + _error(event) + b"\n\n"
        elif isinstance(event, Ended):
            return self._end()
        return b""

    def _chunk(self, delta: bytes) -> bytes:
        """One chunk, and the role before the first."""
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
            if is_proven(part):
                members["reasoning_details"] = [entry_of(part, index=self._thoughts)]
                self._thoughts += 1
            if event.signature:
                self._thought.clear()
        return self._chunk(dumps(members)) if members else b""

    def _annotation(self, event: Citation) -> dict[str, Any]:
        """A source as whole answers have it, which streams have in a delta."""
        cited: dict[str, Any] = {"url": event.url, "title": event.title}
        # Images are part of the content here, and of no text where they come from.
        if (start := event.start) is not None:
            cited["start_index"] = start + self._media_before(start + 1)
        if (end := event.end) is not None:
            cited["end_index"] = end + self._media_before(end)
        return {"type": "url_citation", "url_citation": cited}

    def _media_before(self, place: int) -> int:
        """Characters of the media that stand before a place in the text."""
        found = bisect_left(self._media, (place, 0))
        return self._media[found][1] if found < len(self._media) else self._media_characters

    def _call_began(self, event: CallBegan) -> bytes:
        self._thought.clear()
        call = {
            "index": event.index,
            "id": event.id,
            "type": "function",
            "function": {"name": event.name, "arguments": ""},
            **call_signature(event.signature, event.signer),
        }
        chunk = self._chunk(dumps({"tool_calls": [call]}))
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
        return self._chunk(index + dumps(event.arguments) + b"}}]}")

    def _end(self) -> bytes:
        self._is_over = True
        finished = self._finished
        pieces = []
        for index, has_arguments in enumerate(self._arguments or ()):
            if not has_arguments:  # arguments are an object, however empty
                pieces.append(self._call_delta(CallDelta(index, "{}")))
        if finished is not None and finished.reason == "refusal":
            explanation = None if self._has_refusal else finished.explanation
            if explanation:
                pieces.append(self._chunk(dumps({"refusal": explanation})))
        reason = None if finished is None else finished.reason
        word = write_finish(reason, has_calls=bool(self._arguments))
        last = b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"%b"}' % word.encode()
        if self._arguments is None:
            last = last.replace(b'"delta":{}', b'"delta":{"role":"assistant","content":""}')
        pieces.append(self._head + last + self._tail)
        if self._includes_usage and self._usage is not None:
            usage = dumps(write_usage(self._usage))
            pieces.append(self._head + b'],"usage":' + usage + b"}\n\n")
        pieces.append(_TERMINATOR)
        return b"".join(pieces)


def closing_failure(message: str) -> bytes:
    """An error and the terminator: how the gateway itself closes a stream that failed.

    For built-in tools only, and always under the same names (spec: Stream failure behaviour 3).
    """
    return b"data: " + _written(OTHER, message) + b"\n\n" + _TERMINATOR


def _error(event: Failed) -> bytes:
    return _written(failure_named(event.code), event.message)


def _written(failure: Failure, message: str) -> bytes:
    error = {"message": message, "type": failure.chat_type, "code": failure.chat_code}
    return dumps({"error": error})
