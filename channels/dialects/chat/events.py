"""The members of a chat-completions response that are read, as types.

One type serves a stream's chunk and a whole response, and is decoded once for the meter and a
translation. A documented chunk is decoded into the types, which is fast; any other is decoded
loosely. `meter.py` and `stream.py` interpret the chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects import error_body
from channels.dialects.chat.parts import read_call_signature, read_content, text_in_content
from channels.json import (
    NULL,
    UNREADABLE,
    call_arguments,
    characters_of,
    dumps,
    is_no_arguments,
    is_stated,
    raw_of,
    read_loosely,
    text_of,
)
from channels.translation.model import CallBegan, CallDelta, Event, Protocol, Refusal, Text
from channels.translation.tool_calls import WaitingArguments, made_id

_TERMINATOR = b"[DONE]"


class Function(Struct, gc=False):
    """A function's name and arguments, or a part of either."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(Struct, gc=False):
    """One tool call, or a part of it. `extra_content` has signatures."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: msgspec.Raw = NULL


class Message(Struct, gc=False):
    """The message of a choice, or a delta of it."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: msgspec.Raw = NULL
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None
    images: msgspec.Raw = NULL

    def thought(self) -> str | None:
        """Return the text of its thinking: some upstreams send one thought under both names."""
        return self.reasoning_content or self.reasoning

    def characters(self) -> int:
        """Count characters of text, thinking and tool calls (contract §7: Cost of a cut call)."""
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
    """A message with undocumented types, as far as it can be decoded.

    `counted` is the number of characters of all its texts, including those not translated.
    """

    counted: int = 0

    def characters(self) -> int:
        """Return the count made while the message was decoded."""
        return self.counted


class Choice(Struct, gc=False):
    """One of the requested responses; the first may lack its index."""

    index: int | None = None
    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None
    usage: msgspec.Raw = NULL  # of Moonshot, in the chunk with the finish reason


class GroqMember(Struct, gc=False):
    """Groq's own member of the last chunk."""

    usage: msgspec.Raw = NULL


class Chunk(Struct, gc=False):
    """A stream's event, or a whole response."""

    choices: list[Choice] | None = None
    usage: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    id: str | None = None
    model: str | None = None
    x_groq: GroqMember | None = None
    service_tier: str | None = None
    base_resp: msgspec.Raw = NULL  # of MiniMax: its errors, instead of choices
    message: msgspec.Raw = NULL  # of Mistral, vLLM and others: a bare error
    code: msgspec.Raw = NULL


# The event that ends a stream, which is not JSON.
TERMINATOR = Chunk()

# Decodes a documented chunk; raises the errors in UNREADABLE.
decode_chunk = msgspec.json.Decoder(Chunk).decode
_CALLS = msgspec.json.Decoder(list[ToolCall])


def read_chunk(data: bytes) -> Chunk | None:
    """Decode an event's data as far as possible; `TERMINATOR` for the stream's end.

    None if it is not a JSON object. Never raises.
    """
    try:
        return decode_chunk(data)
    except UNREADABLE:
        return TERMINATOR if is_terminator(data) else _read_loosely(data, mends=True)


def read_whole(body: bytes) -> Chunk | None:
    """Decode a whole response, which must be complete; None if it is not an object."""
    try:
        return decode_chunk(body)
    except UNREADABLE:
        return _read_loosely(body, mends=False)


def is_terminator(data: bytes) -> bool:
    """Whether an event's data ends the stream."""
    return data.strip() == _TERMINATOR


def error_in(chunk: Chunk) -> msgspec.Raw:
    """Return the error of an event or a response: its `error`, or other forms converted to it."""
    if chunk.error is not NULL or chunk.choices:
        return chunk.error
    if chunk.base_resp is not NULL:
        return error_body.error_of(read_loosely(bytes(chunk.base_resp)))
    if not (is_stated(chunk.code) and is_stated(chunk.message)):
        return NULL
    stated = (read_loosely(bytes(one)) for one in (chunk.code, chunk.message))
    return raw_of(dict(zip(("code", "message"), stated, strict=True)))


def groq_member(value: Mapping[str, Any]) -> GroqMember | None:
    """Return Groq's own member of a loosely decoded response."""
    own = value.get("x_groq")
    return GroqMember(raw_of(own.get("usage"))) if isinstance(own, dict) else None


def _read_loosely(data: bytes, *, mends: bool) -> Chunk | None:
    """Decode an undocumented response as far as possible.

    An id that is a number, a lone surrogate in the text, content in parts: the delivered text is
    still counted and shown.
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
        service_tier=text_of(value.get("service_tier")),
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
        # Some upstreams send parts instead of a string.
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
    """Count the characters of a message with undocumented types.

    Text may be an array of parts; every string under the counted members counts.
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


# Tool calls of a chat-completions stream: assigns pieces to their call.
#
# The protocol numbers the calls of a choice; id and name are sent once, arguments in pieces.
# Upstreams differ: no number, the same number for every call, id and name in every piece, a name
# after the first arguments, no id at all. Some send an empty call with every response, which is
# ignored.


@dataclass(slots=True)
class _Call:
    """One call, as far as received.

    `index` is the canonical one, once the call has begun. Arguments are held that precede the name,
    or that may turn out to mean no arguments.
    """

    id: str | None
    index: int = -1
    name: str = ""
    waiting: WaitingArguments = field(default_factory=WaitingArguments)
    has_arguments: bool = False
    signature: str | None = None
    signer: Protocol | None = None

    @property
    def has_begun(self) -> bool:
        """Whether its CallBegan was emitted."""
        return self.index >= 0


def is_placeholder(name: str, arguments: str) -> bool:
    """Whether a call is the empty one that some upstreams send with every response."""
    return not name and (arguments.strip() == "{}" or is_no_arguments(arguments))


class ToolCallReader:
    """Decodes the calls of one response to events. `seed` derives missing ids."""

    __slots__ = ("_by_id", "_by_number", "_calls", "_is_closed", "_number_max", "count", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self.count = 0  # calls that have begun
        self._by_number: dict[int, _Call] = {}
        self._number_max = -1
        self._by_id: dict[str, _Call] = {}  # the first call of each id
        self._calls: list[_Call] = []
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<ToolCallReader {self.count} calls>"

    def read(self, pieces: Iterable[ToolCall]) -> list[Event]:
        """Return the events of the calls, or pieces of them, in a chunk."""
        events: list[Event] = []
        for piece in pieces:
            self._take(piece, events)
        return events

    def close(self) -> list[Event]:
        """Return the final events: a call without arguments gets an empty object."""
        events: list[Event] = []
        if not self._is_closed:
            self._is_closed = True
            for call in self._calls:
                if call.has_arguments or is_placeholder(call.name, call.waiting.text()):
                    continue
                self._begin(call, events)
                if not call.has_arguments:
                    events.append(CallDelta(call.index, call_arguments(call.waiting.text())))
        return events

    def _take(self, piece: ToolCall, events: list[Event]) -> None:
        function = piece.function
        name = function.name if function is not None else None
        call = self._call_of(piece, name)
        if name and not call.name:
            call.name = name
        if piece.extra_content is not NULL and not call.has_begun:
            extra = {"extra_content": read_loosely(bytes(piece.extra_content))}
            call.signature, call.signer = read_call_signature(extra)
        if call.name:
            self._begin(call, events)
        arguments = function.arguments if function is not None else None
        if call.has_arguments:
            if arguments:
                events.append(CallDelta(call.index, arguments))
            return
        if arguments:
            call.waiting.add(arguments)
            _emit_arguments(call, events)

    def _call_of(self, piece: ToolCall, name: str | None) -> _Call:
        """Return the call of a piece, which may be a new one."""
        number = piece.index
        if number is None:
            if (known := self._unnumbered_call(piece, name)) is not None:
                return known
            number = self._number_max + 1
        call = self._by_number.get(number)
        # A second call under the same number is recognised by its id and name.
        is_other = call is not None and piece.id and call.id and piece.id != call.id and name
        if call is None or is_other:
            call = _Call(piece.id or None)
            self._by_number[number] = call
            self._number_max = max(self._number_max, number)
            self._calls.append(call)
        elif call.id is None and piece.id:
            call.id = piece.id
        if call.id:
            self._by_id.setdefault(call.id, call)
        return call

    def _unnumbered_call(self, piece: ToolCall, name: str | None) -> _Call | None:
        """Return the call that a piece without a number continues: by its id, else the latest."""
        if piece.id:
            return self._by_id.get(piece.id)
        return self._calls[-1] if self._calls and not name else None

    def _begin(self, call: _Call, events: list[Event]) -> None:
        if call.has_begun:
            return
        call.index = self.count
        self.count += 1
        events.append(
            CallBegan(
                call.index,
                call.id or made_id(self.seed, str(call.index)),
                call.name,
                signature=call.signature,
                signer=call.signer,
            )
        )
        _emit_arguments(call, events)


def _emit_arguments(call: _Call, events: list[Event]) -> None:
    """Emit the held arguments, unless they may still turn out to mean none."""
    if call.has_begun and (arguments := call.waiting.take()) is not None:
        call.has_arguments = True
        events.append(CallDelta(call.index, arguments))
