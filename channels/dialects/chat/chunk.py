"""The members of a chat-completions answer that are read, as types.

One shape serves a stream's chunk and a whole response, and one reading both the meter and a
translation. The ordinary chunk is read through the types, which is fast; one that is not as
documented is read loosely. What a chunk means is the part of `meter.py` and `stream_decoder.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from channels import base_resp
from channels.dialects.chat.content import read_content
from channels.dialects.chat.thinking import text_in_content
from channels.json.lenient import (
    NOTHING,
    characters_of,
    is_stated,
    raw_of,
    read_loosely,
    text_of,
)
from channels.json.text import UNREADABLE, dumps
from channels.translation.model import Refusal, Text

_TERMINATOR = b"[DONE]"


class Function(Struct, gc=False):
    """A function's name and arguments, or a piece of either."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(Struct, gc=False):
    """One tool call, or a piece of it. `extra_content` holds signatures."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: msgspec.Raw = NOTHING


class Message(Struct, gc=False):
    """What a choice says, or adds to it."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: msgspec.Raw = NOTHING
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    images: msgspec.Raw = NOTHING

    def thought(self) -> str | None:
        """The text of its thinking: some upstreams send one thought under both names."""
        return self.reasoning_content or self.reasoning

    def characters(self) -> int:
        """Characters of text, thinking and tool calls (contract §7: Cost of a cut call)."""
        count = 0
        if self.content is not None:
            count += len(self.content)
        if (thought := self.reasoning_content or self.reasoning) is not None:
            count += len(thought)
        if self.tool_calls is not None:
            count += sum(_length(call.function) for call in self.tool_calls)
        if self.refusal is not None:
            count += len(self.refusal)
        if self.function_call is not None:
            count += _length(self.function_call)
        return count


class LooseMessage(Message, gc=False):
    """A message whose members are not of the documented types, as far as they can be read.

    `counted` are the characters of every text in it, also where a translation has no use for it.
    """

    counted: int = 0

    def characters(self) -> int:
        """See `Message`; never decoded from a response, but counted as the message was read."""
        return self.counted


class Choice(Struct, gc=False):
    """One of the responses asked for; the first may come without its index."""

    index: int | None = None
    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None
    usage: msgspec.Raw = NOTHING  # of Moonshot, in the chunk with the reason


class GroqMember(Struct, gc=False):
    """What Groq says of its own in the last chunk."""

    usage: msgspec.Raw = NOTHING


class Chunk(Struct, gc=False):
    """A stream's event, or a whole response."""

    choices: list[Choice] | None = None
    usage: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    id: str | None = None
    model: str | None = None
    x_groq: GroqMember | None = None
    base_resp: msgspec.Raw = NOTHING  # of MiniMax: its errors, in place of choices
    message: msgspec.Raw = NOTHING  # of Mistral, vLLM and others: an error, with nothing around it
    code: msgspec.Raw = NOTHING


# The event that ends a stream, which is no JSON.
TERMINATOR = Chunk()

# Reads a chunk that is as documented; raises what is UNREADABLE.
decode_chunk = msgspec.json.Decoder(Chunk).decode
_CALLS = msgspec.json.Decoder(list[ToolCall])


def read_chunk(data: bytes) -> Chunk | None:
    """An event's data as a chunk, as far as it can be read; `TERMINATOR` for the stream's end.

    None when it is no JSON object. Never raises.
    """
    try:
        return decode_chunk(data)
    except UNREADABLE:
        return TERMINATOR if is_terminator(data) else _read_loosely(data, mends=True)


def read_whole(body: bytes) -> Chunk | None:
    """Read a whole response, whose end must be there; None where it is no object."""
    try:
        return decode_chunk(body)
    except UNREADABLE:
        return _read_loosely(body, mends=False)


def is_terminator(data: bytes) -> bool:
    """Whether an event's data end the stream."""
    return data.strip() == _TERMINATOR


def error_in(chunk: Chunk) -> msgspec.Raw:
    """What an event or a response says of its failure: its `error`, or other forms in that one."""
    if chunk.error is not NOTHING or chunk.choices:
        return chunk.error
    if chunk.base_resp is not NOTHING:
        return base_resp.error_of(read_loosely(bytes(chunk.base_resp)))
    if not (is_stated(chunk.code) and is_stated(chunk.message)):
        return NOTHING
    stated = (read_loosely(bytes(one)) for one in (chunk.code, chunk.message))
    return raw_of(dict(zip(("code", "message"), stated, strict=True)))


def groq_member(value: Mapping[str, Any]) -> GroqMember | None:
    """Groq's own member of a response that is read loosely."""
    own = value.get("x_groq")
    return GroqMember(raw_of(own.get("usage"))) if isinstance(own, dict) else None


def _read_loosely(data: bytes, *, mends: bool) -> Chunk | None:
    """What can be read of a response that is not as documented.

    An id that is a number, a lone surrogate in the text, content in parts: what was delivered still
    counts, and is still said.
    """
    value = read_loosely(data, mends=mends)
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    return Chunk(
        choices=[_loose_choice(choice) for choice in choices]
        if isinstance(choices, list)
        else None,
        usage=raw_of(value.get("usage")),
        error=raw_of(value.get("error")),
        id=text_of(value.get("id")),
        model=text_of(value.get("model")),
        x_groq=groq_member(value),
        base_resp=raw_of(value.get("base_resp")),
        code=raw_of(value.get("code")),
        message=raw_of(value.get("message")),
    )


def _loose_choice(choice: Any) -> Choice:
    if not isinstance(choice, dict):
        return Choice()
    index, delta, message = choice.get("index"), choice.get("delta"), choice.get("message")
    return Choice(
        index=index if isinstance(index, int) else None,
        delta=_loose_message(delta) if isinstance(delta, dict) else None,
        message=_loose_message(message) if isinstance(message, dict) else None,
        finish_reason=text_of(choice.get("finish_reason")),
        usage=raw_of(choice.get("usage")),
    )


def _loose_message(fields: dict[str, Any]) -> LooseMessage:
    content = fields.get("content")
    thought = text_of(fields.get("reasoning_content")) or text_of(fields.get("reasoning"))
    if isinstance(content, list):
        # Some upstreams send parts where the protocol has a string.
        thought = thought or text_in_content(content)
        parts = read_content(content, {})
        content = "".join(part.text for part in parts if isinstance(part, Text | Refusal))
    calls, function = fields.get("tool_calls"), fields.get("function_call")
    return LooseMessage(
        content=text_of(content),
        refusal=text_of(fields.get("refusal")),
        reasoning_content=thought,
        reasoning_details=raw_of(fields.get("reasoning_details")),
        tool_calls=_loose_calls(calls) if isinstance(calls, list) else None,
        function_call=_loose_function(function),
        images=raw_of(fields.get("images")),
        counted=_count_loosely(fields),
    )


def _loose_calls(calls: list[Any]) -> list[ToolCall]:
    try:
        return _CALLS.decode(raw_of(calls))
    except UNREADABLE:
        pass
    read = []
    for call in calls:
        if isinstance(call, dict):
            index, call_id = call.get("index"), call.get("id")
            read.append(
                ToolCall(
                    index if isinstance(index, int) else None,
                    text_of(call_id),
                    _loose_function(call.get("function")),
                )
            )
    return read


def _loose_function(function: Any) -> Function | None:
    if not isinstance(function, dict):
        return None
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = dumps(arguments).decode()
    return Function(text_of(function.get("name")), arguments)


def _count_loosely(fields: dict[str, Any]) -> int:
    """Characters of a message whose members are not of the documented types.

    Text may come as an array of parts; every string under the members that count is counted.
    """
    thought = fields.get("reasoning_content") or fields.get("reasoning")
    count = characters_of([fields.get("content"), fields.get("refusal"), thought])
    calls = fields.get("tool_calls")
    functions = (
        [call.get("function") for call in calls if isinstance(call, dict)]
        if (isinstance(calls, list))
        else []
    )
    for function in (*functions, fields.get("function_call")):
        if isinstance(function, dict):
            count += characters_of([function.get("name"), function.get("arguments")])
    return count


def _length(function: Function | None) -> int:
    if function is None:
        return 0
    return len(function.name or "") + len(function.arguments or "")
