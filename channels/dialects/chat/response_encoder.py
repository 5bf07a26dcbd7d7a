"""A chat-completions client's response, of canonical events: as a stream, or whole.

Both have the same members, in deltas or in one message.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from channels.dialects.chat import thinking
from channels.dialects.chat.finish_reasons import write_finish
from channels.dialects.chat.usage import write_usage
from channels.dialects.usage_details import tier_member
from channels.json.lenient import dumps
from channels.translation import error_names
from channels.translation.event_encoder import EventEncoder
from channels.translation.events import CallBegan, CallDelta, Citation, StreamFailed, ThinkingDelta
from channels.translation.media import markdown
from channels.translation.model import Media, Thinking


class ChatResponseEncoder(EventEncoder):
    """What each event adds to the message. Made for one attempt, used from one task."""

    _thought: list[str] | None = None  # text of the present thought
    _thoughts: int = 0
    _characters: int = 0  # of the text so far
    # Offsets of media in the text, each with the characters of the media before it.
    _media_offsets: list[tuple[int, int]] | None = None
    _placed_characters: int = 0

    @abstractmethod
    def _add_text(self, member: str, text: str) -> bytes:
        """Add to a text of the message."""

    @abstractmethod
    def _add(self, members: dict[str, Any]) -> bytes:
        """Add to several members: texts, and arrays."""

    @abstractmethod
    def _add_call(self, event: CallBegan, call: dict[str, Any]) -> bytes:
        """Add a call, whose arguments follow."""

    def _text(self, text: str) -> bytes:
        self._thought = None
        self._characters += len(text)
        return self._add_text("content", text)

    def _refusal(self, text: str) -> bytes:
        self._thought = None
        return self._add_text("refusal", text)

    def _media(self, media: Media) -> bytes:
        self._thought = None
        written = markdown(media)
        if self._media_offsets is None:
            self._media_offsets = []
        self._media_offsets.append((self._characters, self._placed_characters))
        self._placed_characters += len(written)
        return self._add_text("content", written)

    def _thinking(self, event: ThinkingDelta) -> bytes:
        members: dict[str, Any] = {}
        if event.text:
            if self._thought is None:
                self._thought = []
            self._thought.append(event.text)
            members["reasoning_content"] = event.text
        if event.signature or event.redacted:
            part = Thinking(
                "" if event.redacted else "".join(self._thought or ()),
                signature=event.signature,
                signer=event.signer,
                redacted=event.redacted,
            )
            if thinking.is_proven(part):
                members["reasoning_details"] = [thinking.entry_of(part, index=self._thoughts)]
                self._thoughts += 1
            if event.signature:
                self._thought = None
        return self._add(members) if members else b""

    def _citation(self, citation: Citation) -> bytes:
        cited: dict[str, Any] = {"url": citation.url, "title": citation.title}
        # Media are part of the content here, but not of the text that the offsets refer to.
        if (start := citation.start) is not None:
            cited["start_index"] = start + self._media_before(start + 1)
        if (end := citation.end) is not None:
            cited["end_index"] = end + self._media_before(end)
        return self._add({"annotations": [{"type": "url_citation", "url_citation": cited}]})

    def _media_before(self, offset: int) -> int:
        """Return the characters of the media before an offset in the text."""
        placed = self._media_offsets or ()
        found = bisect_left(placed, (offset, 0))
        return placed[found][1] if found < len(placed) else self._placed_characters

    def _call_began(self, event: CallBegan) -> bytes:
        self._thought = None
        call = {
            "id": event.id,
            "type": "function",
            "function": {"name": event.name, "arguments": ""},
            **thinking.call_signature(event.signature, event.signer),
        }
        return self._add_call(event, call)

    def _explain(self) -> bytes:
        """Add the provider's text about a refusal, unless the model has refused in its own."""
        finished = self._finished
        if finished is None or finished.reason != "refusal" or self._has_refusal:
            return b""
        return self._add_text("refusal", finished.explanation) if finished.explanation else b""

    def _finish_reason(self, *, has_calls: bool) -> str:
        finished = self._finished
        return write_finish(None if finished is None else finished.reason, has_calls=has_calls)


class ChatBodyEncoder(ChatResponseEncoder):
    """Encodes one whole response, at its end."""

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        self._head: dict[str, Any] = {
            "id": id,
            "object": "chat.completion",
            "created": created,
            "model": model,
        }
        self._texts: dict[str, list[str]] = {}
        self._arrays: dict[str, list[Any]] = {}
        self._calls: list[dict[str, Any]] = []
        self._arguments: dict[int, list[str]] = {}  # by the call's index

    def _add_text(self, member: str, text: str) -> bytes:
        if member in self._texts:
            self._texts[member].append(text)
        else:
            self._texts[member] = [text]
        return b""

    def _add(self, members: dict[str, Any]) -> bytes:
        for member, value in members.items():
            if isinstance(value, str):
                self._add_text(member, value)
            else:
                self._arrays.setdefault(member, []).extend(value)
        return b""

    def _add_call(self, event: CallBegan, call: dict[str, Any]) -> bytes:
        self._calls.append(call)
        self._arguments[event.index] = []
        return b""

    def _call_delta(self, event: CallDelta) -> bytes:
        if event.index in self._arguments:
            self._arguments[event.index].append(event.arguments)
        return b""

    def _end(self) -> bytes:
        self._explain()
        pieces = self._texts
        content = "".join(pieces.pop("content", ()))
        refusal = "".join(pieces.pop("refusal", ())) or None
        for call, arguments in zip(self._calls, self._arguments.values(), strict=True):
            call["function"]["arguments"] = "".join(arguments) or "{}"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": content if content or not (self._calls or refusal) else None,
            "refusal": refusal,
        }
        if pieces or self._arrays:
            message |= {member: "".join(texts) for member, texts in pieces.items()}
            message |= self._arrays
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._finish_reason(has_calls=bool(self._calls)),
        }
        whole = self._head
        whole["choices"] = [choice]
        if self._usage is not None:
            whole["usage"] = write_usage(self._usage)
            whole |= tier_member(self._usage)
        return dumps(whole)


_TERMINATOR = b"data: [DONE]\n\n"

# A keep-alive is a comment, which clients ignore.
KEEP_ALIVE = b": keep-alive\n\n"

_TEXTS = {"content": b'{"content":', "refusal": b'{"refusal":'}


class ChatStreamEncoder(ChatResponseEncoder):
    """Encodes one response's stream.

    The first chunk has the role, the first piece of a call its id and name; calls have their own
    numbering. The finish reason is kept until the upstream has ended: a cut stream has no
    finish_reason and no `[DONE]` (reference 2.6). Lifecycle events are kept, too:
    no byte is sent before there is content, so that another channel may still be tried.
    """

    def __init__(self, *, id: str, created: int, model: str, include_usage: bool) -> None:
        start: dict[str, Any] = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._head = b"data: " + dumps(start)[:-1] + b',"choices":['
        # Every chunk has a null usage, except the one that states it.
        self._tail = b'],"usage":null}\n\n' if include_usage else b"]}\n\n"
        self._includes_usage = include_usage
        self._ends = b',"logprobs":null,"finish_reason":null}' + self._tail
        self._before_text = self._head + b'{"index":0,"delta":' + _TEXTS["content"]
        self._after_text = b"}" + self._ends
        self._between_texts = b'"%b%b"' % (self._after_text, self._before_text)
        self._arguments: list[bool] | None = None  # per call: has arguments; None: no chunk yet

    def encode_texts(self, texts: Sequence[bytes], characters: int) -> bytes | None:
        """See ResponseEncoder."""
        if self._is_over or self._arguments is None:
            return None
        self._thought = None
        self._characters += characters
        return b'%b"%b"%b' % (self._before_text, self._between_texts.join(texts), self._after_text)

    def _add_text(self, member: str, text: str) -> bytes:
        return self._chunk(_TEXTS[member] + dumps(text) + b"}")

    def _add(self, members: dict[str, Any]) -> bytes:
        return self._chunk(dumps(members))

    def _chunk(self, delta: bytes) -> bytes:
        """Encode one chunk, and the role before the first."""
        chunk = self._head + b'{"index":0,"delta":' + delta + self._ends
        if self._arguments is not None:
            return chunk
        self._arguments = []
        role = b'{"role":"assistant","content":"","refusal":null}'
        return self._head + b'{"index":0,"delta":' + role + self._ends + chunk

    def _add_call(self, event: CallBegan, call: dict[str, Any]) -> bytes:
        chunk = self._add({"tool_calls": [{"index": event.index, **call}]})
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

    def _failed(self, event: StreamFailed) -> bytes:
        failure = error_names.failure_named(event.code)
        return b"data: " + _error(failure, event.message) + b"\n\n"

    def _end(self) -> bytes:
        pieces = []
        for index, has_arguments in enumerate(self._arguments or ()):
            if not has_arguments:  # arguments are an object, even if empty
                pieces.append(self._call_delta(CallDelta(index, "{}")))
        pieces.append(self._explain())
        word = self._finish_reason(has_calls=bool(self._arguments))
        last = b'{"index":0,"delta":{},"logprobs":null,"finish_reason":"%b"}' % word.encode()
        if self._arguments is None:
            last = last.replace(b'"delta":{}', b'"delta":{"role":"assistant","content":""}')
        pieces.append(self._head + last + self._tail)
        if self._includes_usage and self._usage is not None:
            usage = {"usage": write_usage(self._usage), **tier_member(self._usage)}
            pieces.append(self._head + b"]," + dumps(usage)[1:] + b"\n\n")
        pieces.append(_TERMINATOR)
        return b"".join(pieces)


def closing_failure(message: str) -> bytes:
    """Encode an error and the terminator, with which the gateway closes a failed stream.

    For built-in tools only, and always with the same names (reference 2.7).
    """
    return b"data: " + _error(error_names.OTHER, message) + b"\n\n" + _TERMINATOR


def _error(failure: error_names.ErrorNames, message: str) -> bytes:
    error = {"message": message, "type": failure.chat_type, "code": failure.chat_code}
    return dumps({"error": error})
