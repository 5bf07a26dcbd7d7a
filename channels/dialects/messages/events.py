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

from channels.dialects.loose_members import loosely
from channels.dialects.meter import ResponseMeter, fit_name
from channels.dialects.token_counts import (
    TOKENS_MAX,
    PartialUsage,
    Tokens,
    Usage,
    UsageParts,
    served_region,
    served_tier,
    tool_calls,
)
from channels.dialects.usage import Counts, RunningUsage, UsageType, usage_of
from channels.errors import UpstreamMalformed
from channels.json.lenient import NULL, UNREADABLE, is_stated, length_of, read_loosely
from channels.json.weight import is_heavy_event


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


class _ToolBlock(Struct, gc=False):
    """Members of a block of a tool that the provider runs."""

    type: str | None = None
    name: str | None = None
    content: msgspec.Raw = NULL


# Decodes a documented event; raises the errors in UNREADABLE.
decode_event = msgspec.json.Decoder(Event).decode
_MESSAGE = msgspec.json.Decoder(Message)
_BLOCK = msgspec.json.Decoder(_Block)
_TOOL_BLOCK = msgspec.json.Decoder(_ToolBlock)
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
# read from a cache nor written to one. A count missing in an event keeps its last value.


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
    web_search_requests: Tokens | None = None
    web_fetch_requests: Tokens | None = None


class _Usage(_Counts, gc=False):
    """A usage with its tools, service tier, region, and iterations."""

    server_tool_use: _ServerTools | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    iterations: list[_Iteration] | None = None


_USAGE = UsageType(_Usage)
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
        cache_creation_input_tokens=sum(one.written_tokens() or 0 for one in apart),
        cache_creation=_Written(
            ephemeral_1h_input_tokens=sum(one.ephemeral_1h_input_tokens or 0 for one in hours)
        ),
        output_tokens=_sum_of("output_tokens", apart),
    )


def _advised_tokens(stated: _Usage) -> int:
    """Sum the tokens of the adviser's iterations."""
    every = [one for one in stated.iterations or () if one.type == _ADVISER]
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    written = sum(one.written_tokens() or 0 for one in every)
    return min(written + sum(_sum_of(name, every) for name in names), TOKENS_MAX)


def _sum_of(name: str, iterations: Iterable[_Iteration]) -> int:
    counts: Iterable[int | None] = (getattr(one, name) for one in iterations)
    return min(sum(count or 0 for count in counts), TOKENS_MAX)


class UsageReader(RunningUsage):
    """The usage of one response so far.

    `_fresh` is the input apart from what was read from a cache and written to one; None: not stated
    yet. The three may be stated one by one, and may be divided anew: their sum does not fall.
    """

    __slots__ = ("_fetches", "_fresh", "_parts", "_read", "_searches", "_written")

    def __init__(self) -> None:
        super().__init__()
        self._fresh: int | None = None
        self._read = 0
        self._written = 0
        self._parts: UsageParts | None = None  # the tools, tier and region stated
        self._fetches = 0
        self._searches = 0  # seen to run

    @property
    def usage(self) -> Usage | None:
        """The whole usage, once input and output are known."""
        return self.usage_with(self._known())

    @property
    def displayed(self) -> Usage | None:
        """The usage shown to a client: also the output of a response without a stated input."""
        usage, counts = self.usage, self.counts
        if usage is not None or counts is None or counts.output_tokens is None:
            return usage
        return usage_of(replace(counts, input_tokens=self._read + self._written))

    @property
    def partial(self) -> PartialUsage | None:
        """The counts stated while the usage is incomplete; None without any."""
        counts = self.counts
        if counts is not None and counts.input_tokens is None and not counts.output_tokens:
            # An output of 0 alone states nothing.
            parts = self._known()
            return None if parts is None else PartialUsage(None, None, parts=parts)
        return None if self.usage is not None else self.partial_with(self._known())

    def take(
        self,
        stated: msgspec.Raw,
        *,
        is_start: bool,
        container: msgspec.Raw = NULL,
        characters: int = 0,
    ) -> bool:
        """Take one usage member, stated after so many characters. False if a part is unreadable.

        The output stated at a stream's start is only its first moment's, and is ignored.
        `container` is the one that the response's code ran in.
        """
        read, is_whole = _USAGE.read(stated)
        if read is None:
            return False
        if read.input_tokens is not None:
            self._fresh = read.input_tokens
        if read.cache_read_input_tokens is not None:
            self._read = read.cache_read_input_tokens
        if (written := read.written_tokens()) is not None:
            self._written = written
        self.add(self._counts(read, is_start=is_start), characters)
        self._take_more(read, container)
        return is_whole

    def saw_search(self, failed: bool = False) -> None:
        """Count a search that has begun, or take back one that failed."""
        self._searches += -1 if failed else 1

    def _counts(self, read: _Usage, *, is_start: bool) -> Counts:
        """Return the counts so far, with those of iterations that they exclude."""
        fresh, cached, written = self._fresh, self._read, self._written
        output, details = read.output_tokens, read.output_tokens_details
        thought = 0 if details is None else details.thinking_tokens or 0
        hour = _hour_of(read)
        if (more := _beside(read)) is not None:
            fresh = (fresh or 0) + (more.input_tokens or 0)
            cached += more.cache_read_input_tokens or 0
            written += more.cache_creation_input_tokens or 0
            output = (output or 0) + (more.output_tokens or 0)
            hour += _hour_of(more)
        return Counts(
            input_tokens=None if fresh is None else fresh + cached + written,
            output_tokens=None if is_start else output,
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=0 if is_start else thought,
            parts=UsageParts(cache_write_1h_tokens=hour) if hour else None,
        )

    def _known(self) -> UsageParts | None:
        """Return tools, tier and region: those stated, and the searches seen if none is stated."""
        parts = self._parts
        if self._searches > 0 and (parts is None or not parts.web_searches):
            return replace(parts or UsageParts(), web_searches=self._searches)
        return parts

    def _take_more(self, stated: _Usage, container: msgspec.Raw) -> None:
        """Take the tier, the region, the tools and the adviser, if stated."""
        tools = stated.server_tool_use
        tier = "fast" if stated.speed == "fast" else served_tier(stated.service_tier)
        region = served_region(stated.inference_geo)
        if stated.iterations is not None and (advised := _advised_tokens(stated)):
            self._parts = replace(self._parts or UsageParts(), advisor_tokens=advised)
        known = self._parts
        has_code = is_stated(container) or (known is not None and known.code_sessions > 0)
        if tools is None and not has_code:
            if tier is not None or region is not None:
                self._note(tier, region)
            return
        searches = 0 if known is None else known.web_searches
        if tools is not None:
            searches = max(searches, tool_calls(tools.web_search_requests))
            self._fetches = max(self._fetches, tool_calls(tools.web_fetch_requests))
        # Code run by searches and fetches of the same response is free of charge.
        is_billed = has_code and not searches and not self._fetches
        self._note(tier, region, web_searches=searches, code_sessions=int(is_billed))

    def _note(self, tier: str | None, region: str | None, **tools: int) -> None:
        known = self._parts or UsageParts()
        self._parts = replace(
            known,
            service_tier=tier or known.service_tier,
            region=region or known.region,
            **tools,
        )


def _hour_of(counts: _Counts) -> int:
    kept = counts.cache_creation
    return 0 if kept is None else kept.ephemeral_1h_input_tokens or 0


# Meters a messages response as it is passed on: usage, characters, how it ended.
#
# The caller passes on the bytes; nothing here changes or delays them. An unreadable event is passed
# on and counted in `malformed_events`: it must not end a stream.
#
# Usage has two parts: `message_start` has the input, `message_delta` the output so far, and changed
# values again. Its numbers are running totals. The output in `message_start` is only the first
# moment's, and is ignored.

_END = "message_stop"
_NO_CONTENT = (NULL, msgspec.Raw(b"[]"))


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

    @property
    def unstated_characters(self) -> int:
        return self.characters - self._stated.covered

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
            self.has_choice = True
            self.characters += block_characters(event.content_block)
            self._see_search(event.content_block)
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
        self.has_choice = self.has_choice or message.content not in _NO_CONTENT
        self.characters += content_characters(message.content)
        self._take_usage(message.usage, is_start=not is_whole, container=message.container)

    def _take_usage(self, stated: msgspec.Raw, *, is_start: bool, container: msgspec.Raw) -> None:
        if not is_stated(stated):
            return
        if not self._stated.take(
            stated, is_start=is_start, container=container, characters=self.characters
        ):
            self.malformed_events += 1

    def _see_search(self, block: msgspec.Raw) -> None:
        """Count a search of a stream, whose usage may never be stated."""
        try:
            found = _TOOL_BLOCK.decode(block)
        except UNREADABLE:
            return
        if found.type == "server_tool_use" and found.name == "web_search":
            self._stated.saw_search()
        elif found.type == "web_search_tool_result" and bytes(found.content)[:1] == b"{":
            self._stated.saw_search(failed=True)  # in a list's place there is an error


def ends(data: bytes) -> bool:
    """Whether an event without its final blank line ends the stream."""
    value = read_loosely(data, mends=False)
    return isinstance(value, dict) and value.get("type") == _END
