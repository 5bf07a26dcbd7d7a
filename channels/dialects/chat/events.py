"""The members of a chat-completions response that are read, as types.

One type serves a stream's chunk and a whole response, and is decoded once for the meter and a
translation. A documented chunk is decoded into the types, which is fast; any other is decoded
loosely.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects import base_resp
from channels.dialects.chat.content import read_content
from channels.dialects.chat.thinking import THOUGHTS, bare_text, thoughts_in_content
from channels.dialects.loose_members import loosely
from channels.json import lenient
from channels.json.lenient import is_stated
from channels.json.weight import is_heavy_event
from channels.translation.model import Media, Refusal, Text

_TERMINATOR = b"[DONE]"


class ChunkFunction(Struct, gc=False):
    """A function's name and arguments, or a part of either."""

    name: str | None = None
    arguments: str | None = None


class ChunkToolCall(Struct, gc=False):
    """One tool call, or a part of it. `extra_content` has signatures."""

    index: int | None = None
    id: str | None = None
    function: ChunkFunction | None = None
    extra_content: msgspec.Raw = lenient.NULL


class ChunkMessage(Struct, gc=False):
    """The message of a choice, or a delta of it."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    thinking: str | None = None
    reasoning_text: str | None = None  # of Copilot
    reasoning_details: msgspec.Raw = lenient.NULL
    thinking_blocks: msgspec.Raw = lenient.NULL  # of LiteLLM
    tool_calls: list[ChunkToolCall] | None = None
    function_call: ChunkFunction | None = None
    images: msgspec.Raw = lenient.NULL
    annotations: msgspec.Raw = lenient.NULL

    def thought(self) -> str | None:
        """Return the text of its thinking: some upstreams send one thought under several names."""
        return self.reasoning_content or self.reasoning or self.thinking or self.reasoning_text

    def characters(self) -> int:
        """Count characters of text, thinking and tool calls (reference 5.6)."""
        content = self.content
        count = 0 if content is None else len(content)
        if (thought := self.thought()) is not None:
            count += len(thought)
        elif self.thinking_blocks is not lenient.NULL:
            count += lenient.characters_of(lenient.read_json(bytes(self.thinking_blocks)))
        if self.tool_calls is not None:
            count += sum(_length(call.function) for call in self.tool_calls)
        if self.refusal is not None:
            count += len(self.refusal)
        if self.function_call is not None:
            count += _length(self.function_call)
        return count


class LooseMessage(ChunkMessage, gc=False):
    """A message with undocumented types, as far as it can be decoded.

    `counted` is the number of characters of all its texts, including those not translated; `parts`
    is content that is an array.
    """

    counted: int = 0
    parts: tuple[Text | Media | Refusal, ...] = ()

    def characters(self) -> int:
        """Return the count made while the message was decoded."""
        return self.counted


class Choice(Struct, gc=False):
    """One of the requested responses; the first may lack its index."""

    index: int | None = None
    delta: ChunkMessage | None = None
    message: ChunkMessage | None = None
    finish_reason: str | None = None
    error: msgspec.Raw = lenient.NULL  # of OpenRouter, why its provider stopped
    usage: msgspec.Raw = lenient.NULL  # of Moonshot, in the chunk with the finish reason

    def is_stated(self) -> bool:
        """Whether it says anything, or why it says nothing."""
        return bool(self.delta is not None or self.message is not None or self.finish_reason)


class GroqMember(Struct, gc=False):
    """Groq's own member of the last chunk."""

    usage: msgspec.Raw = lenient.NULL


class ChatChunk(Struct, gc=False):
    """A stream's event, or a whole response."""

    choices: list[Choice] | None = None
    usage: msgspec.Raw = lenient.NULL
    error: msgspec.Raw = lenient.NULL
    id: str | None = None
    model: str | None = None
    x_groq: GroqMember | None = None
    service_tier: str | None = None
    base_resp: msgspec.Raw = lenient.NULL  # of MiniMax: its errors, instead of choices
    message: msgspec.Raw = lenient.NULL  # of Mistral, vLLM and others: a bare error
    code: msgspec.Raw = lenient.NULL


# The event that ends a stream, which is not JSON.
TERMINATOR = ChatChunk()

# Decodes a documented chunk; raises the errors in UNREADABLE.
decode_chunk = msgspec.json.Decoder(ChatChunk).decode
_CALLS = msgspec.json.Decoder(list[ChunkToolCall])


def read_chunk(data: bytes) -> ChatChunk | None:
    """Decode an event's data as far as possible; `TERMINATOR` for the stream's end.

    None if it is not a JSON object, or undocumented and heavy. Never raises.
    """
    try:
        return decode_chunk(data)
    except lenient.UNREADABLE:
        if is_terminator(data):
            return TERMINATOR
        return None if is_heavy_event(data) else _read_loosely(data, mends=True)


def read_whole(body: bytes) -> ChatChunk | None:
    """Decode a whole response, which must be complete; None if it is not an object."""
    try:
        return decode_chunk(body)
    except lenient.UNREADABLE:
        return _read_loosely(body, mends=False)


def is_terminator(data: bytes) -> bool:
    """Whether an event's data ends the stream."""
    return data.strip() == _TERMINATOR


def error_in(chunk: ChatChunk) -> msgspec.Raw:
    """Return the error of an event or a response: its `error`, or other forms converted to it."""
    if chunk.error is not lenient.NULL:
        return chunk.error
    if chunk.choices:
        return next(
            (one.error for one in chunk.choices if one.error is not lenient.NULL), lenient.NULL
        )
    if chunk.base_resp is not lenient.NULL:
        return base_resp.error_of(lenient.read_loosely(bytes(chunk.base_resp)))
    if not (is_stated(chunk.code) and is_stated(chunk.message)):
        return lenient.NULL
    stated = (lenient.read_loosely(bytes(one)) for one in (chunk.code, chunk.message))
    return lenient.raw_of(dict(zip(("code", "message"), stated, strict=True)))


def _read_loosely(data: bytes, *, mends: bool) -> ChatChunk | None:
    """Decode an undocumented response as far as possible.

    An id that is a number, a lone surrogate in the text, content in parts: the delivered text is
    still counted and shown.
    """
    value = lenient.read_loosely(data, mends=mends)
    chunk = loosely(ChatChunk, value)
    if chunk is not None and isinstance(choices := value.get("choices"), list):
        chunk.choices = [_loose_choice(choice) for choice in choices]
    return chunk


def _loose_choice(choice: Any) -> Choice:
    read = loosely(Choice, choice)
    if read is None:
        return Choice()
    delta, message = choice.get("delta"), choice.get("message")
    read.delta = _loose_message(delta) if isinstance(delta, dict) else None
    read.message = _loose_message(message) if isinstance(message, dict) else None
    return read


def _loose_message(fields: dict[str, Any]) -> LooseMessage:
    content = fields.get("content")
    blocks, parts = fields.get("thinking_blocks"), None
    if isinstance(content, list):  # as some upstreams send it
        parts = tuple(read_content(content, {}))
        blocks = blocks or thoughts_in_content(content)
    calls, function = fields.get("tool_calls"), fields.get("function_call")
    return LooseMessage(
        content=lenient.text_of(content),
        refusal=lenient.text_of(fields.get("refusal")),
        reasoning_content=bare_text(fields),
        reasoning_details=lenient.raw_of(fields.get("reasoning_details")),
        thinking_blocks=lenient.raw_of(blocks or None),
        tool_calls=_loose_calls(calls) if isinstance(calls, list) else None,
        function_call=_loose_function(function),
        images=lenient.raw_of(fields.get("images")),
        annotations=lenient.raw_of(fields.get("annotations")),
        counted=_count_loosely(fields),
        parts=parts or (),
    )


def _loose_calls(calls: list[Any]) -> list[ChunkToolCall]:
    try:
        return _CALLS.decode(lenient.raw_of(calls))
    except lenient.UNREADABLE:
        pass
    read = []
    for call in calls:
        if isinstance(call, dict):
            index, call_id = call.get("index"), call.get("id")
            read.append(
                ChunkToolCall(
                    index if isinstance(index, int) else None,
                    lenient.text_of(call_id),
                    _loose_function(call.get("function")),
                    lenient.raw_of(call.get("extra_content")),
                )
            )
    return read


def _loose_function(function: Any) -> ChunkFunction | None:
    if not isinstance(function, dict):
        return None
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = lenient.dumps(arguments).decode()
    return ChunkFunction(lenient.text_of(function.get("name")), arguments)


def _count_loosely(fields: dict[str, Any]) -> int:
    """Count the characters of a message with undocumented types.

    Text may be an array of parts; every string under the counted members counts.
    """
    thought = next(filter(None, map(fields.get, (*THOUGHTS, "thinking_blocks"))), None)
    count = lenient.characters_of([fields.get("content"), fields.get("refusal"), thought])
    calls = fields.get("tool_calls")
    functions = (
        [call.get("function") for call in calls if isinstance(call, dict)]
        if (isinstance(calls, list))
        else []
    )
    for function in (*functions, fields.get("function_call")):
        if isinstance(function, dict):
            count += lenient.characters_of([function.get("name"), function.get("arguments")])
    return count


def _length(function: ChunkFunction | None) -> int:
    if function is None:
        return 0
    return len(function.name or "") + len(function.arguments or "")
