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
from channels.translation.failures import OTHER, ErrorNames, failure_named
from channels.translation.media import markdown
from channels.translation.model import (
    CallBegan,
    CallDelta,
    Citation,
    Media,
    StreamFailed,
    Thinking,
    ThinkingDelta,
)
from channels.translation.stream_encoder import EventEncoder

_TERMINATOR = b"data: [DONE]\n\n"

# What is sent while there is nothing to say: a comment, which clients pass over.
KEEP_ALIVE = b": keep-alive\n\n"


class StreamEncoder(EventEncoder):
    """Writes one response's stream. Made for one attempt, used from one task."""

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
        self._head = b"data: " + dumps(start)[:-1] + b',"choices":['
        # Every chunk says that its usage is none, but the one that states it.
        self._tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._includes_usage = include_usage
        self._ends = b',"logprobs":null,"finish_reason":null}' + self._tail
        self._arguments: list[bool] | None = None  # per call whether arguments came; None: no chunk
        self._thought: list[str] = []  # text of the present thought
        self._thoughts = 0
        self._characters = 0  # of the text so far
        # Where in the text a medium stands, and the characters of those before it.
        self._media_offsets: list[tuple[int, int]] = []
        self._placed_characters = 0

    def __repr__(self) -> str:
        state = "over" if self._is_over else "new" if self._arguments is None else "open"
        return f"<chat.StreamEncoder {state}>"

    def _text(self, text: str) -> bytes:
        self._thought.clear()
        self._characters += len(text)
        return self._chunk(b'{"content":' + dumps(text) + b"}")

    def _refusal(self, text: str) -> bytes:
        self._thought.clear()
        return self._chunk(b'{"refusal":' + dumps(text) + b"}")

    def _media(self, media: Media) -> bytes:
        self._thought.clear()
        written = markdown(media)
        self._media_offsets.append((self._characters, self._placed_characters))
        self._placed_characters += len(written)
        return self._chunk(dumps({"content": written}))

    def _citation(self, citation: Citation) -> bytes:
        return self._chunk(dumps({"annotations": [self._annotation(citation)]}))

    def _failed(self, event: StreamFailed) -> bytes:
        return b"data: " + _error(event) + b"\n\n"

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
        """A source as whole responses have it, which streams have in a delta."""
        cited: dict[str, Any] = {"url": event.url, "title": event.title}
        # Images are part of the content here, and of no text where they come from.
        if (start := event.start) is not None:
            cited["start_index"] = start + self._media_before(start + 1)
        if (end := event.end) is not None:
            cited["end_index"] = end + self._media_before(end)
        return {"type": "url_citation", "url_citation": cited}

    def _media_before(self, offset: int) -> int:
        """Characters of the media that stand before an offset in the text."""
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


def _error(event: StreamFailed) -> bytes:
    return _written(failure_named(event.code), event.message)


def _written(failure: ErrorNames, message: str) -> bytes:
    error = {"message": message, "type": failure.chat_type, "code": failure.chat_code}
    return dumps({"error": error})
