"""Chat-completions responses: streams and whole ones, to canonical events and back.

Nothing that an upstream sends in a stream raises. `events.py` decodes chunks and tool calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import msgspec

from channels.dialects.chat.events import (
    TERMINATOR,
    Choice,
    Chunk,
    GroqMember,
    Message,
    UsageReader,
    error_in,
    write_usage,
)
from channels.dialects.chat.events import ToolCall as ChunkToolCall
from channels.dialects.chat.parts import (
    call_signature,
    entry_of,
    is_proven,
    members_of,
    read_call_signature,
    read_content,
    read_entry,
    read_thinking,
)
from channels.dialects.chat.tool_calls import ToolCallReader, is_placeholder
from channels.dialects.meter import Usage, loosely, tier_member
from channels.errors import UpstreamMalformed
from channels.json.lenient import NULL, dumps, is_stated, raw_of, read_json, read_loosely, text_of
from channels.translation.call_arguments import call_arguments
from channels.translation.codec import EventEncoder
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Citation,
    Ended,
    Event,
    Finished,
    FinishReason,
    Media,
    MediaDelta,
    Part,
    Refusal,
    RefusalDelta,
    Response,
    StreamFailed,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    UsageStated,
    markdown,
)
from channels.translation.tool_calls import OTHER, ErrorNames, failure_in, failure_named, made_id

# Finish reasons of the chat-completions protocol, and their canonical equivalents.

_READ: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    # Truncated as well: by the model's own length (Mistral), by a server without resources
    # (DeepSeek), by an unnamed error.
    "model_length": "length",
    "insufficient_system_resource": "length",
    "error": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
    # Of Zhipu: withheld, too long for the model, interrupted.
    "sensitive": "refusal",
    "model_context_window_exceeded": "length",
    "network_error": "length",
}
# With these a response may lack its message.
WITHHELD = tuple(reason for reason, found in _READ.items() if found == "refusal")
_WRITTEN: dict[FinishReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "refusal": "content_filter",
    # A paused turn is not finished; this is the protocol's reason for an incomplete one.
    "pause": "length",
}


def read_finish(reason: str, *, has_calls: bool) -> FinishReason:
    """Return the canonical reason.

    Some upstreams send `stop` after tool calls, others `tool_calls` without any: a client would
    wait for calls that are never sent.
    """
    found = _READ.get(reason, "stop")
    if found in ("stop", "tool_calls"):
        return "tool_calls" if has_calls else "stop"
    return found


def write_finish(reason: FinishReason | None, *, has_calls: bool) -> str:
    """Return the protocol's reason; a response without a reason has ended normally."""
    if reason is None or reason == "stop":
        return "tool_calls" if has_calls else "stop"
    return _WRITTEN[reason]


class StreamDecoder:
    """Decodes one stream. Made for one attempt, used from one task."""

    __slots__ = ("_began", "_calls", "_ended", "_is_finished", "_stated", "_thought")

    def __init__(self) -> None:
        self._calls = ToolCallReader()
        self._began = False
        self._ended = False
        self._is_finished = False  # a finish reason was received
        self._stated = UsageReader()
        self._thought = False  # text of the present thought was emitted

    def __repr__(self) -> str:
        state = "ended" if self._ended else "began" if self._began else "new"
        return f"<chat.StreamDecoder {state}, {self._calls}>"

    def take(self, read: Chunk | None) -> list[Event]:
        """Return the canonical events of one decoded event. Never raises."""
        if read is None or self._ended:
            return []
        if read is TERMINATOR:
            self._ended = True
            return [*self._calls.close(), Ended()]
        return self._take(read)

    def end(self) -> list[Event]:
        """Return the events that end a stream without its terminator; none without a finish reason.

        Only the caller knows whether it was cut.
        """
        if self._ended:
            return []
        self._ended = True
        return [*self._calls.close(), Ended()] if self._is_finished else []

    def _take(self, chunk: Chunk) -> list[Event]:
        events: list[Event] = []
        stated = chunk.error if chunk.choices else error_in(chunk)
        failed = None if stated is NULL else failure_in(read_loosely(bytes(stated)))
        if failed is not None:
            self._ended = True
            return [failed]
        if not self._began and chunk.choices is not None:
            self._began = True
            self._calls.seed = chunk.id or ""
            self._stated.model = chunk.model
            events.append(Began(chunk.id, chunk.model))
        if chunk.service_tier is not None:
            self._stated.tier = chunk.service_tier
        for choice in chunk.choices or ():
            self._take_choice(choice, events)
        if chunk.x_groq is not None and self._stated.take_spare(chunk.x_groq):
            self._emit_usage(events)
        if chunk.usage is not NULL and is_stated(chunk.usage):
            self._stated.take(chunk.usage)
            self._emit_usage(events)
        return events

    def _take_choice(self, choice: Choice, events: list[Event]) -> None:
        if choice.usage is not NULL and self._stated.take_spare(None, choice.usage):
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

    def _take_delta(self, delta: Message, events: list[Event]) -> None:
        thought = delta.thought()
        if thought:
            self._thought = True
            events.append(ThinkingDelta(thought))
        if delta.reasoning_details is not NULL:
            self._take_details(delta.reasoning_details, events)
        if delta.content:
            events.append(TextDelta(delta.content))
        if delta.images is not NULL:
            _take_images(delta.images, events)
        if delta.refusal:
            events.append(RefusalDelta(delta.refusal))
        if delta.tool_calls is not None:
            events.extend(self._calls.read(delta.tool_calls))
        if delta.function_call is not None:  # from before there were several calls
            events.extend(self._calls.read([ChunkToolCall(index=0, function=delta.function_call)]))

    def _take_details(self, raw: msgspec.Raw, events: list[Event]) -> None:
        """Emit signatures of thoughts, and their text unless it was sent separately."""
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


# Encodes canonical events as a chat-completions stream.
#
# The first chunk has the role, the first piece of a call its id and name; calls have their own
# numbering. The finish reason is kept until the upstream has ended: a cut stream has no
# finish_reason and no `[DONE]` (spec: Stream failure behaviour). Lifecycle events are kept, too: no
# byte is sent before there is content, so that another channel may still be tried.

_TERMINATOR = b"data: [DONE]\n\n"

# A keep-alive is a comment, which clients ignore.
KEEP_ALIVE = b": keep-alive\n\n"


class StreamEncoder(EventEncoder):
    """Encodes one response's stream. Made for one attempt, used from one task."""

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
            if is_proven(part):
                members["reasoning_details"] = [entry_of(part, index=self._thoughts)]
                self._thoughts += 1
            if event.signature:
                self._thought.clear()
        return self._chunk(dumps(members)) if members else b""

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
            if not has_arguments:  # arguments are an object, even if empty
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
            usage = {"usage": write_usage(self._usage), **tier_member(self._usage)}
            pieces.append(self._head + b"]," + dumps(usage)[1:] + b"\n\n")
        pieces.append(_TERMINATOR)
        return b"".join(pieces)


def closing_failure(message: str) -> bytes:
    """Encode an error and the terminator, with which the gateway closes a failed stream.

    For built-in tools only, and always with the same names (spec: Stream failure behaviour 3).
    """
    return b"data: " + _written(OTHER, message) + b"\n\n" + _TERMINATOR


def _error(event: StreamFailed) -> bytes:
    return _written(failure_named(event.code), event.message)


def _written(failure: ErrorNames, message: str) -> bytes:
    error = {"message": message, "type": failure.chat_type, "code": failure.chat_code}
    return dumps({"error": error})


# Whole chat-completions responses, both ways.
#
# The first of several choices is decoded: translations never request more. It must be equivalent to
# the classes for streams.


def decode_response(body: bytes) -> Response:
    """Decode a whole response. Raises UpstreamMalformed if it has no choice."""
    value = read_json(body)
    choices = value.get("choices") if isinstance(value, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if message is None and isinstance(choice, dict) and choice.get("finish_reason") in WITHHELD:
        message = {}  # all content was withheld
    if not isinstance(value, dict) or not isinstance(choice, dict) or not isinstance(message, dict):
        raise UpstreamMalformed("a chat completion without a choice")
    response_id = _string(value, "id")
    parts: list[Part] = list(read_thinking(message))
    parts.extend(read_content(message.get("content"), {}))
    parts.extend(_images(message))
    if refusal := _string(message, "refusal"):
        parts.append(Refusal(refusal))
    calls = _calls(message, response_id or "")
    parts.extend(calls)
    reason = _string(choice, "finish_reason")
    return Response(
        id=response_id,
        model=_string(value, "model"),
        parts=tuple(parts),
        finish=None if reason is None else read_finish(reason, has_calls=bool(calls)),
        usage=_usage(value, choice),
    )


def _usage(value: Mapping[str, Any], choice: Mapping[str, Any]) -> Usage | None:
    stated = UsageReader()
    stated.tier, stated.model = text_of(value.get("service_tier")), text_of(value.get("model"))
    stated.take_spare(None, raw_of(choice.get("usage")))
    stated.take_spare(loosely(GroqMember, value.get("x_groq")))
    stated.take(raw_of(value.get("usage")))
    return stated.usage


def _images(message: Mapping[str, Any]) -> list[Media]:
    """Return images that some upstreams send beside the content."""
    images = message.get("images")
    parts = read_content(images, {}) if isinstance(images, list) else []
    return [part for part in parts if isinstance(part, Media)]


def _calls(message: Mapping[str, Any], response_id: str) -> list[ToolCall]:
    stated = message.get("tool_calls")
    calls = [call for call in stated if isinstance(call, dict)] if isinstance(stated, list) else []
    if isinstance(message.get("function_call"), dict):
        calls.append({"function": message["function_call"]})
    read = []
    for index, call in enumerate(calls):
        function = call.get("function")
        if not isinstance(function, dict):
            continue
        name, arguments = _string(function, "name") or "", function.get("arguments")
        if not isinstance(arguments, str):
            arguments = dumps({} if arguments is None else arguments).decode()
        if is_placeholder(name, arguments):
            continue
        signature, signer = read_call_signature(call)
        read.append(
            ToolCall(
                _string(call, "id") or made_id(response_id, str(index)),
                name,
                call_arguments(arguments),
                signature=signature,
                signer=signer,
            )
        )
    return read


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id, at this Unix second."""
    message = _message(response)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": write_finish(response.finish, has_calls="tool_calls" in message),
    }
    whole: dict[str, Any] = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
    }
    if response.usage is not None:
        whole["usage"] = write_usage(response.usage)
        whole.update(tier_member(response.usage))
    return dumps(whole)


def _message(response: Response) -> dict[str, Any]:
    parts = response.parts
    calls = [_call(part) for part in parts if isinstance(part, ToolCall)]
    content = "".join(text_of_part(part) for part in parts)
    refusal = _refusal(response)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content if content or not (calls or refusal) else None,
        "refusal": refusal,
    }
    message.update(members_of(part for part in parts if isinstance(part, Thinking)))
    if calls:
        message["tool_calls"] = calls
    return message


def _refusal(response: Response) -> str | None:
    refusal = "".join(part.text for part in response.parts if isinstance(part, Refusal))
    if not refusal and response.finish == "refusal":
        return response.explanation or None
    return refusal or None


def text_of_part(part: Part) -> str:
    """Return a part's visible text: its text, or a link to its medium."""
    if isinstance(part, Text):
        return part.text
    return markdown(part) if isinstance(part, Media) else ""


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
        **call_signature(call.signature, call.signer),
    }


def _string(value: Mapping[str, Any], name: str) -> str | None:
    text = value.get(name)
    return text if isinstance(text, str) and text else None
