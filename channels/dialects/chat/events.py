"""The members of a chat-completions response that are read, as types, and its meter.

One type serves a stream's chunk and a whole response, and is decoded once for the meter and a
translation. A documented chunk is decoded into the types, which is fast; any other is decoded
loosely.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects import error_body
from channels.dialects.chat.parts import read_content, text_in_content
from channels.dialects.meter import (
    InputDetails,
    OutputDetails,
    PartialUsage,
    ResponseMeter,
    Tokens,
    ToolUsage,
    Usage,
    UsageParts,
    add_parts,
    fit_name,
    loosely,
    served_tier,
    tools_member,
)
from channels.dialects.usage import Counts, RunningUsage, UsageType
from channels.errors import UpstreamMalformed
from channels.json.lenient import (
    NULL,
    UNREADABLE,
    characters_of,
    dumps,
    is_stated,
    raw_of,
    read_loosely,
    text_of,
)
from channels.json.weight import is_heavy_event
from channels.translation.model import Refusal, Text

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
        content = self.content
        count = 0 if content is None else len(content)
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

    None if it is not a JSON object, or undocumented and heavy. Never raises.
    """
    try:
        return decode_chunk(data)
    except UNREADABLE:
        if is_terminator(data):
            return TERMINATOR
        return None if is_heavy_event(data) else _read_loosely(data, mends=True)


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


def _read_loosely(data: bytes, *, mends: bool) -> Chunk | None:
    """Decode an undocumented response as far as possible.

    An id that is a number, a lone surrogate in the text, content in parts: the delivered text is
    still counted and shown.
    """
    value = read_loosely(data, mends=mends)
    chunk = loosely(Chunk, value)
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


# Meter a chat-completions response as it is passed on: usage, characters, how it ended.
#
# The caller passes on the bytes; nothing here changes or delays them. An unreadable event is
# passed on and counted in `malformed_events`: it must not end a stream. `gw/calls/bills.py` prices
# the counts.

# Token counts as the chat-completions protocol states them, for billing and for responses.
#
# `prompt_tokens` is the whole input, cached parts included; `completion_tokens` includes reasoning.


class _Input(InputDetails, gc=False):
    cache_creation_input_tokens: Tokens | None = None  # of Alibaba


class _Usage(ToolUsage, gc=False):
    """A usage with the parts that may have their own prices."""

    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    prompt_tokens_details: _Input | None = None
    completion_tokens_details: OutputDetails | None = None
    cached_tokens: Tokens | None = None  # of Moonshot and others, without details
    prompt_cache_hit_tokens: Tokens | None = None  # of DeepSeek


_USAGE = UsageType(_Usage)
# Limit of the choices that are told apart; upstreams refuse more.
CHOICES_MAX = 1_000
# Part of the names of OpenAI's models that search for every response without stating a count.
_SEARCHING = "-search-"


class UsageReader(RunningUsage):
    """The usage of one response so far.

    `tier` is the last service tier stated, `model` the model of the response. `is_own`: the usage
    was stated in the protocol's own member, after which no other counts.
    """

    __slots__ = ("is_own", "model", "tier")

    def __init__(self) -> None:
        super().__init__()
        self.is_own = False
        self.tier: str | None = None
        self.model: str | None = None

    @property
    def usage(self) -> Usage | None:
        """The usage; None while it is incomplete."""
        return self.usage_with(self._parts())

    @property
    def partial(self) -> PartialUsage | None:
        """What is known while the usage is incomplete."""
        return self.partial_with(self._parts())

    def take(self, stated: msgspec.Raw, characters: int = 0) -> bool:
        """Take a `usage` member, stated after so many characters. False if a part is unreadable."""
        counts, is_whole = read_usage(stated)
        if counts is None:
            return False
        self.is_own = True
        self.add(counts, characters)
        return is_whole

    def take_spare(
        self, groq: GroqMember | None, *of_choices: msgspec.Raw, characters: int = 0
    ) -> bool:
        """Take usage stated elsewhere. False if it is empty, or the protocol's own was stated."""
        if self.is_own:
            return False
        stated = () if groq is None else (groq.usage,)
        for usage in (*stated, *of_choices):
            counts = None if usage is NULL else read_usage(usage)[0]
            if counts is not None:
                self.add(counts, characters)
                return True
        return False

    def _parts(self) -> UsageParts | None:
        """Return tier and searches, which are stated elsewhere."""
        tier = None if self.tier is None else served_tier(self.tier)
        is_searching = self.model is not None and _SEARCHING in self.model
        if tier is None and not is_searching:
            return None
        return UsageParts(service_tier=tier, web_searches=int(is_searching))


def read_usage(usage: msgspec.Raw) -> tuple[Counts | None, bool]:
    """Parse a `usage` member: its counts, and whether all of it was read.

    None if it counts neither input nor output nor both.
    """
    stated, is_whole = _USAGE.read(usage)
    if stated is None:
        return None, False
    details, output_details = stated.prompt_tokens_details, stated.completion_tokens_details
    cached, written = stated.cached_tokens, None
    if details is not None:
        if details.cached_tokens is not None:
            cached = details.cached_tokens
        written = details.cache_write_tokens
        if written is None:
            written = details.cache_creation_input_tokens
    if cached is None:
        cached = stated.prompt_cache_hit_tokens
    counts = Counts(
        input_tokens=stated.prompt_tokens,
        output_tokens=stated.completion_tokens,
        total_tokens=stated.total_tokens,
        cached_tokens=cached or 0,
        cache_write_tokens=written or 0,
        reasoning_tokens=0 if output_details is None else output_details.reasoning_tokens or 0,
        parts=stated.parts(details, output_details),
    )
    return (None, False) if counts.states_nothing else (counts, is_whole)


def write_usage(usage: Usage) -> dict[str, Any]:
    """Encode the `usage` member."""
    details: dict[str, Any] = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    output_details = {"reasoning_tokens": usage.reasoning_tokens}
    written = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": output_details,
    }
    if usage.parts is not None:
        add_parts(usage, details, output_details)
        written.update(tools_member(usage.parts))
    return written


class ChatMeter(ResponseMeter[Chunk]):
    """Meters one response. `finished`: the terminator was received, or the response is whole.

    Some upstreams end a stream without the terminator: it is complete if each of its choices has
    stated why it stopped, and its body has ended properly.
    """

    begins_at_once = False

    def __init__(self) -> None:
        self._stated = UsageReader()
        self._last_index = 0  # of the choices
        self._ended: set[int] = set()  # choices with a finish reason

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    @property
    def partial_usage(self) -> PartialUsage | None:
        return None if self.usage is not None else self._stated.partial

    @property
    def unstated_characters(self) -> int:
        return self.characters - self._stated.covered

    read = staticmethod(read_chunk)

    def take(self, chunk: Chunk | None) -> bool:
        """Meter a decoded event.

        False for a chunk that states usage and nothing else: it is withheld from a client that did
        not request usage (contract §5).
        """
        if chunk is None:
            self.malformed_events += 1
            return True
        choices = chunk.choices
        if choices:
            self.has_choice = True
            for choice in choices:
                if choice.index:
                    self._last_index = max(self._last_index, choice.index)
                one_delta = choice.delta
                if one_delta is not None:
                    self.characters += one_delta.characters()
                elif choice.message is not None and not self.characters:
                    # In other chunks it repeats the deltas so far.
                    self.characters += choice.message.characters()
                if choice.finish_reason is not None:
                    self.finish_reason = fit_name(choice.finish_reason)
                    if len(self._ended) < CHOICES_MAX:
                        self._ended.add(choice.index or 0)
                if choice.usage is not NULL:
                    self._stated.take_spare(None, choice.usage, characters=self.characters)
        if chunk.x_groq is not None:
            self._stated.take_spare(chunk.x_groq, characters=self.characters)
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.id, chunk.model)
            self._stated.model = self.response_model
        if chunk.service_tier is not None:
            self._stated.tier = chunk.service_tier
        if choices and chunk.usage is NULL and chunk.error is NULL:
            return True
        return self._take_end(chunk)

    def body(self, body: bytes) -> None:
        """Meter a whole response. Raises UpstreamMalformed if it is not a JSON object."""
        chunk = read_whole(body)
        if chunk is None:
            raise UpstreamMalformed("not a JSON object")
        for choice in chunk.choices or ():
            if choice.message is not None:
                self.characters += choice.message.characters()
        self.take(chunk)
        self.finished = True

    def end_of_body(self) -> None:
        if self.error_seen is None and len(self._ended) > self._last_index:
            self.finished = True

    def _take_end(self, chunk: Chunk) -> bool:
        """Meter usage and errors. False if the chunk states usage and nothing else."""
        if chunk is TERMINATOR:
            self.finished = True
            return True
        has_usage = chunk.usage is not NULL and bytes(chunk.usage) != b"null"
        if has_usage and not self._stated.take(chunk.usage, self.characters):
            self.malformed_events += 1
        if chunk.choices and chunk.error is NULL:
            return True
        has_error = self._note_error(error_in(chunk))
        return bool(chunk.choices) or has_error or not has_usage
