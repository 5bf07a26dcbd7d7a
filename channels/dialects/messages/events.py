"""The members of a messages response that are read, as types; and its meter.

`Event` is one event of a stream, `Message` a whole response, which `message_start` begins. One type
is decoded once for the meter and a translation. A documented event is decoded into the types, which
is fast; any other is decoded loosely. `stream.py` makes canonical events of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.meter import (
    TOKENS_MAX,
    PartialUsage,
    ResponseMeter,
    Tokens,
    Usage,
    UsageParts,
    fit_name,
    loosely,
    served_region,
    served_tier,
    tool_calls,
    with_parts,
)
from channels.errors import UpstreamMalformed
from channels.json import (
    NULL,
    UNREADABLE,
    is_heavy_event,
    is_stated,
    length_of,
    read_loosely,
)


class Delta(Struct, gc=False):
    """A delta of a block, or of the message as a whole."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: msgspec.Raw = NULL
    container: msgspec.Raw = NULL


class Event(Struct, gc=False):
    """One event of a stream."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    usage: msgspec.Raw = NULL
    message: msgspec.Raw = NULL
    content_block: msgspec.Raw = NULL
    error: msgspec.Raw = NULL


class Message(Struct, gc=False):
    """A whole response, or its members known at the start."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    content: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    container: msgspec.Raw = NULL


class _Block(Struct, gc=False):
    """Members of a block that count as output; encrypted and search results have none of them."""

    text: msgspec.Raw = NULL
    thinking: msgspec.Raw = NULL
    name: msgspec.Raw = NULL
    input: msgspec.Raw = NULL


# Decodes a documented event; raises the errors in UNREADABLE.
decode_event = msgspec.json.Decoder(Event).decode
_MESSAGE = msgspec.json.Decoder(Message)
_BLOCK = msgspec.json.Decoder(_Block)
_BLOCKS = msgspec.json.Decoder(list[msgspec.Raw])


def read_event(data: bytes) -> Event | None:
    """Decode an event as far as possible; None if it is not a JSON object. Never raises."""
    try:
        return decode_event(data)
    except UNREADABLE:
        return None if is_heavy_event(data) else loosely(Event, read_loosely(data))


def read_message(data: bytes | msgspec.Raw) -> Message | None:
    """Decode a whole response, or its part in a `message_start`; as `read_event`."""
    try:
        return _MESSAGE.decode(data)
    except UNREADABLE:
        return loosely(Message, read_loosely(bytes(data)))


def block_characters(block: msgspec.Raw) -> int:
    """Count the characters of a content block: text, thinking, a call's name and arguments."""
    try:
        fields = _BLOCK.decode(block)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return (
        length_of(fields.text)
        + length_of(fields.thinking)
        + length_of(fields.name)
        + length_of(fields.input)
    )


def content_characters(content: msgspec.Raw) -> int:
    """Count the characters of all blocks of a whole response."""
    try:
        blocks = _BLOCKS.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(map(block_characters, blocks))


# Token counts of the messages protocol, for billing and for responses.
#
# They are running totals, and exclude the cache from the input: `input_tokens` is the part neither
# read from a cache nor written to one. A count missing in an event keeps its last value (contract
# §3).


class _Written(Struct, gc=False):
    ephemeral_5m_input_tokens: Tokens | None = None
    ephemeral_1h_input_tokens: Tokens | None = None


class _Thought(Struct, gc=False):
    thinking_tokens: Tokens | None = None


class _Counts(Struct, gc=False):
    """The counts of a usage, or of one of its iterations."""

    input_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    cache_creation: _Written | None = None
    output_tokens: Tokens | None = None
    output_tokens_details: _Thought | None = None

    def written_tokens(self) -> int | None:
        """Return the tokens written to a cache: stated as a sum, or by lifetime."""
        kept = self.cache_creation
        if self.cache_creation_input_tokens is not None or kept is None:
            return self.cache_creation_input_tokens
        return (kept.ephemeral_5m_input_tokens or 0) + (kept.ephemeral_1h_input_tokens or 0)


class _Iteration(_Counts, gc=False):
    type: str = ""


class _ServerTools(Struct, gc=False):
    web_search_requests: int | None = None
    web_fetch_requests: int | None = None


class _Usage(_Counts, gc=False):
    """A usage with its tools, service tier, region, and iterations."""

    server_tool_use: _ServerTools | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    iterations: list[_Iteration] | None = None


_USAGE = msgspec.json.Decoder(_Usage)
_COUNTS = msgspec.json.Decoder(_Counts)
# The members beside the counts, each decoded alone where the whole usage cannot be.
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BESIDE = {
    name: msgspec.json.Decoder(kind)
    for name, kind in (
        ("server_tool_use", _ServerTools | None),
        ("service_tier", str | None),
        ("speed", str | None),
        ("inference_geo", str | None),
        ("iterations", list[_Iteration] | None),
    )
}
# The iteration that summarises the conversation, which the counts of the usage exclude. They also
# exclude those of an adviser: it is another model without a price here, reported as unpriced.
_SUMMARY, _ADVISER = "compaction", "advisor_message"


def _beside(stated: _Usage) -> _Counts | None:
    """Return the sum of the iterations that the counts of a usage exclude; None without any.

    If the counts are large enough for all iterations, they include these.
    """
    every = [one for one in stated.iterations or () if one.type != _ADVISER]
    apart = [one for one in every if one.type == _SUMMARY]
    if not apart or _sum_of("output_tokens", every) <= (stated.output_tokens or 0):
        return None
    hours = [one.cache_creation for one in apart if one.cache_creation is not None]
    return _Counts(
        input_tokens=_sum_of("input_tokens", apart),
        cache_read_input_tokens=_sum_of("cache_read_input_tokens", apart),
        cache_creation_input_tokens=sum(max(one.written_tokens() or 0, 0) for one in apart),
        cache_creation=_Written(
            ephemeral_1h_input_tokens=sum(
                max(one.ephemeral_1h_input_tokens or 0, 0) for one in hours
            )
        ),
        output_tokens=_sum_of("output_tokens", apart),
    )


def _advised_tokens(stated: _Usage) -> int:
    """Sum the tokens of the adviser's iterations."""
    every = [one for one in stated.iterations or () if one.type == _ADVISER]
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    written = sum(max(one.written_tokens() or 0, 0) for one in every)
    return min(written + sum(_sum_of(name, every) for name in names), TOKENS_MAX)


def _sum_of(name: str, iterations: Iterable[_Iteration]) -> int:
    counts: Iterable[int | None] = (getattr(one, name) for one in iterations)
    return min(sum(max(count or 0, 0) for count in counts), TOKENS_MAX)


class UsageReader:
    """The usage of one response so far. Each count replaces the one before.

    `_fresh` is the input apart from what was read from a cache and written to one; None: not stated
    yet. `_beside` are counts of iterations that the others exclude.
    """

    __slots__ = ("_beside", "_fresh", "_hour", "_output", "_parts", "_read", "_thought", "_written")

    def __init__(self) -> None:
        self._fresh: int | None = None
        self._read = 0
        self._written = 0
        self._hour = 0  # of those written, those kept for an hour
        self._output: int | None = None
        self._thought = 0
        self._parts: UsageParts | None = None  # the tools, tier and region stated
        self._beside: _Counts | None = None

    def __repr__(self) -> str:
        return f"<UsageReader {self._fresh} in, {self._output} out>"

    @property
    def usage(self) -> Usage | None:
        """The whole usage, once input and output are known."""
        return None if self._fresh is None else self.displayed

    @property
    def displayed(self) -> Usage | None:
        """The usage shown to a client: also the output of a response without a stated input."""
        return None if self._output is None else self._made(self._output)

    @property
    def partial(self) -> PartialUsage | None:
        """The counts stated while the usage is incomplete; None without any."""
        if self.usage is not None or (self._fresh is None and not self._output):
            return None  # an output of 0 alone states nothing
        stated = None if self._fresh is None else self._made(output=0)
        return PartialUsage(input=stated, output_tokens=self._output)

    def take(self, stated: msgspec.Raw, *, is_start: bool, container: msgspec.Raw = NULL) -> bool:
        """Take one usage member. False if some of it cannot be read, or a count is negative.

        Counts are taken together, the other members each alone.
        The output stated at a stream's start is only its first moment's, and is ignored.
        `container` is the one that the response's code ran in.
        """
        try:
            counts, is_readable = _read_usage(stated)
        except (msgspec.DecodeError, RecursionError):
            return False
        fresh, read = counts.input_tokens, counts.cache_read_input_tokens
        written, output = counts.written_tokens(), counts.output_tokens
        details, kept = counts.output_tokens_details, counts.cache_creation
        thought = None if details is None else details.thinking_tokens
        hour = None if kept is None else kept.ephemeral_1h_input_tokens
        numbers = (fresh, read, written, output, thought, hour)
        if any(number is not None and number < 0 for number in numbers):
            return False
        if fresh is not None:
            self._fresh = fresh
        if read is not None:
            self._read = read
        if written is not None:
            self._written = written
        if hour is not None:
            self._hour = hour
        if not is_start:
            if output is not None:
                self._output = output
            if thought is not None:
                self._thought = thought
        self._take_more(counts, container)
        return is_readable

    def _take_more(self, stated: _Usage, container: msgspec.Raw) -> None:
        """Take the tier, the region, the tools and the iterations, if stated."""
        tools, beside = stated.server_tool_use, stated.iterations
        tier = "fast" if stated.speed == "fast" else served_tier(stated.service_tier)
        region = served_region(stated.inference_geo)
        if beside is not None:
            self._beside = _beside(stated)
            if advised := _advised_tokens(stated):
                self._parts = replace(self._parts or UsageParts(), advisor_tokens=advised)
        known = self._parts
        has_code = is_stated(container) or (known is not None and known.code_sessions > 0)
        if tools is None and not has_code:
            if tier is not None or region is not None:
                self._note(tier, region)
            return
        searches = 0 if tools is None else tool_calls(tools.web_search_requests)
        fetches = 0 if tools is None else tool_calls(tools.web_fetch_requests)
        # Code run by searches and fetches of the same response is free of charge.
        self._note(
            tier,
            region,
            web_searches=searches,
            code_sessions=int(has_code and not searches and not fetches),
        )

    def _note(self, tier: str | None, region: str | None, **tools: int) -> None:
        known = self._parts or UsageParts()
        self._parts = replace(
            known,
            service_tier=tier or known.service_tier,
            region=region or known.region,
            **tools,
        )

    def _made(self, output: int) -> Usage:
        fresh, read, written, hour = self._fresh or 0, self._read, self._written, self._hour
        thought = min(self._thought, output)
        if (more := self._beside) is not None:
            fresh += more.input_tokens or 0
            read += more.cache_read_input_tokens or 0
            written += more.cache_creation_input_tokens or 0
            output += more.output_tokens or 0
            kept = more.cache_creation
            hour += (kept.ephemeral_1h_input_tokens or 0) if kept else 0
        usage = Usage(
            input_tokens=fresh + read + written,
            output_tokens=output,
            cached_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=thought,
        )
        if self._parts is None and not hour:
            return usage
        return with_parts(usage, replace(self._parts or UsageParts(), cache_write_1h_tokens=hour))


def _read_usage(stated: msgspec.Raw) -> tuple[_Usage, bool]:
    """Decode a usage, without the members that are malformed; whether all of it could be read.

    Raises like a decoder if its counts are malformed.
    """
    try:
        return _USAGE.decode(stated), True
    except (msgspec.DecodeError, RecursionError):
        counts, beside = _COUNTS.decode(stated), {}
    for name, raw in _MEMBERS.decode(stated).items():
        if name in _BESIDE:
            try:
                beside[name] = _BESIDE[name].decode(raw)
            except (msgspec.DecodeError, RecursionError):
                continue
    of_counts = {name: getattr(counts, name) for name in _Counts.__struct_fields__}
    return _Usage(**of_counts, **beside), False


# Meters a messages response as it is passed on: usage, characters, how it ended.
#
# The caller passes on the bytes; nothing here changes or delays them. An unreadable event is passed
# on and counted in `malformed_events`: it must not end a stream.
#
# Usage has two parts: `message_start` has the input, `message_delta` the output so far, and changed
# values again. Its numbers are running totals, so each replaces the one before (contract §3). The
# output in `message_start` is only the first moment's, and is ignored.

_END = "message_stop"


class MessagesMeter(ResponseMeter[Event]):
    """Meters one response. `finished`: `message_stop` was received, or the response is whole."""

    _error_names: ClassVar[tuple[str, ...]] = ("type", "code")

    def __init__(self) -> None:
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    @property
    def partial_usage(self) -> PartialUsage | None:
        return self._stated.partial

    read = staticmethod(read_event)

    def body(self, body: bytes) -> None:
        """Meter a whole response. Raises UpstreamMalformed if it is not a JSON object."""
        message = read_message(body)
        if message is None:
            raise UpstreamMalformed("not a JSON object")
        self._take_message(message, is_whole=True)
        self._note_error(message.error)
        self.finished = True

    def take(self, event: Event | None) -> bool:
        """Meter a decoded event. True: every client gets it."""
        if event is None:
            self.malformed_events += 1
            return True
        delta = event.delta
        if delta is not None:
            if delta.text is not None:
                self.characters += len(delta.text)
            if delta.partial_json is not None:
                self.characters += len(delta.partial_json)
            if delta.thinking is not None:
                self.characters += len(delta.thinking)
            if delta.stop_reason is not None:
                self.finish_reason = fit_name(delta.stop_reason)
        # The default is shared, so an absent member costs no comparison of bytes.
        if event.usage is not NULL:
            container = NULL if delta is None else delta.container
            self._take_usage(event.usage, is_start=False, container=container)
        if event.content_block is not NULL:
            self.characters += block_characters(event.content_block)
        if event.message is not NULL:
            message = read_message(event.message)
            if message is None:
                self.malformed_events += 1
            else:
                self._take_message(message, is_whole=False)
        if event.error is not NULL:
            self._note_error(event.error)
        if event.type == _END:
            self.finished = True
        return True

    def _take_message(self, message: Message, *, is_whole: bool) -> None:
        self._note_names(message.id, message.model)
        if message.stop_reason is not None:
            self.finish_reason = fit_name(message.stop_reason)
        self.characters += content_characters(message.content)
        self._take_usage(message.usage, is_start=not is_whole, container=message.container)

    def _take_usage(self, stated: msgspec.Raw, *, is_start: bool, container: msgspec.Raw) -> None:
        if not is_stated(stated):
            return
        if not self._stated.take(stated, is_start=is_start, container=container):
            self.malformed_events += 1


def ends(data: bytes) -> bool:
    """Whether an event without its final blank line ends the stream."""
    value = read_loosely(data, mends=False)
    return isinstance(value, dict) and value.get("type") == _END
