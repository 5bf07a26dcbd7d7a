"""Meter a chat-completions response as it is passed on: usage, characters, how it ended.

The caller passes on the bytes; nothing here changes or delays them. An unreadable event is passed
on and counted in `malformed_events`: it must not end a stream. `gw/calls/bills.py` prices the
counts.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.chat.events import (
    TERMINATOR,
    Chunk,
    GroqMember,
    decode_chunk,
    error_in,
    is_terminator,
    read_chunk,
    read_whole,
)
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
    modal_parts,
    served_tier,
    tools_member,
    usage_of,
    with_parts,
)
from channels.errors import UpstreamMalformed
from channels.json import NULL

# Token counts as the chat-completions protocol states them, for billing and for responses.
#
# `prompt_tokens` is the whole input, cached parts included; `completion_tokens` includes reasoning.


class _Cached(Struct, gc=False):
    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None


class _Reasoning(Struct, gc=False):
    reasoning_tokens: Tokens | None = None


class _Counts(Struct, gc=False):
    """The members that are read of any usage."""

    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    prompt_tokens_details: _Cached | None = None
    completion_tokens_details: _Reasoning | None = None
    cached_tokens: Tokens | None = None  # of Moonshot and others, without details
    prompt_cache_hit_tokens: Tokens | None = None  # of DeepSeek


class _Input(InputDetails, gc=False):
    cache_creation_input_tokens: Tokens | None = None  # of Alibaba


class _Usage(ToolUsage, gc=False):
    """A usage with the parts that may have their own prices."""

    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    prompt_tokens_details: _Input | None = None
    completion_tokens_details: OutputDetails | None = None
    cached_tokens: Tokens | None = None
    prompt_cache_hit_tokens: Tokens | None = None

    def parts(self) -> UsageParts | None:
        """Return the parts that it states; None if there are none, the common case."""
        given, made = self.prompt_tokens_details, self.completion_tokens_details
        return modal_parts(self.tools(), given, made)


_COUNTS = msgspec.json.Decoder(_Counts)
_USAGE = msgspec.json.Decoder(_Usage)
# Part of the names of OpenAI's models that search for every response without stating a count.
_SEARCHING = "-search-"


class UsageReader:
    """The usage of one response so far: some upstreams state a running count in every chunk.

    `tier` is the last service tier stated, `model` the model of the response.
    """

    __slots__ = ("_is_own", "model", "tier", "total_tokens", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.total_tokens: int | None = None  # stated without the others
        self._is_own = False  # stated in the protocol's own member
        self.tier: str | None = None
        self.model: str | None = None

    def __repr__(self) -> str:
        return f"<UsageReader {self.usage}>"

    def take(self, stated: msgspec.Raw) -> bool:
        """Take a `usage` member. False if its counts cannot be read."""
        usage = self._read(stated)
        if usage is not None:
            self.usage, self._is_own = usage, True
            return True
        total = total_alone(stated)
        if total is not None:
            self.total_tokens = total
        return total is not None

    def take_spare(self, groq: GroqMember | None, *of_choices: msgspec.Raw) -> bool:
        """Take usage stated elsewhere. False if it is empty, or the protocol's own was stated."""
        if self._is_own:
            return False
        stated = () if groq is None else (groq.usage,)
        usages = (self._read(usage) for usage in (*stated, *of_choices) if usage is not NULL)
        usage = next((usage for usage in usages if usage is not None), None)
        if usage is None:
            return False
        self.usage = usage
        return True

    def _read(self, stated: msgspec.Raw) -> Usage | None:
        """Return the usage, with tier and searches stated elsewhere."""
        usage = read_usage(stated)
        tier, model = served_tier(self.tier), self.model
        if usage is None or (tier is None and (model is None or _SEARCHING not in model)):
            return usage
        parts = replace(usage.parts or UsageParts(), service_tier=tier)
        if model is not None and _SEARCHING in model and not parts.web_searches:
            parts = replace(parts, web_searches=1)
        return with_parts(usage, parts)


def read_usage(usage: msgspec.Raw) -> Usage | None:
    """Parse a `usage` member; None if counts are missing, negative or not integers."""
    stated: _Usage | _Counts
    parts: UsageParts | None = None
    try:
        stated = _USAGE.decode(usage)
        parts = stated.parts()
    except (msgspec.DecodeError, RecursionError):
        try:
            stated = _COUNTS.decode(usage)
        except (msgspec.DecodeError, RecursionError):
            return None
    details, output_details = stated.prompt_tokens_details, stated.completion_tokens_details
    cached = details.cached_tokens if details else None
    if cached is None:
        cached = stated.cached_tokens
    if cached is None:
        cached = stated.prompt_cache_hit_tokens
    written = details.cache_write_tokens if details else None
    if written is None and isinstance(details, _Input):
        written = details.cache_creation_input_tokens
    return usage_of(
        input_tokens=stated.prompt_tokens,
        output_tokens=stated.completion_tokens,
        total_tokens=stated.total_tokens,
        cached_tokens=cached or 0,
        cache_write_tokens=written or 0,
        reasoning_tokens=(output_details.reasoning_tokens if output_details else None) or 0,
        parts=parts,
    )


def total_alone(usage: msgspec.Raw) -> int | None:
    """Return the total of a `usage` member without other counts, as MiniMax's; else None."""
    try:
        stated = _COUNTS.decode(usage)
    except (msgspec.DecodeError, RecursionError):
        return None
    if stated.prompt_tokens is not None or stated.completion_tokens is not None:
        return None
    return max(stated.total_tokens or 0, 0) or None


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


class ChatMeter(ResponseMeter[Chunk, Chunk]):
    """Meters one response. `finished`: the terminator was received, or the response is whole."""

    __slots__ = ("_stated",)

    def __init__(self) -> None:
        super().__init__()
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    @property
    def partial_usage(self) -> PartialUsage | None:
        total = self._stated.total_tokens
        return None if total is None else PartialUsage(None, None, total)

    _decode = staticmethod(decode_chunk)
    read = staticmethod(read_chunk)

    def take(self, read: Chunk | None) -> bool:
        """Meter a decoded event.

        False for a chunk that states usage and nothing else: it is withheld from a client that did
        not request usage (contract §5).
        """
        if read is None:
            self.malformed_events += 1
            return True
        if read is TERMINATOR:
            self.finished = True
            return True
        return self._take(read)

    def body(self, body: bytes) -> None:
        """Meter a whole response. Raises UpstreamMalformed if it is not a JSON object."""
        chunk = read_whole(body)
        if chunk is None:
            raise UpstreamMalformed("not a JSON object")
        for choice in chunk.choices or ():
            if choice.message is not None:
                self.characters += choice.message.characters()
        self._take(chunk)
        self.finished = True

    def _take(self, chunk: Chunk) -> bool:
        choices = chunk.choices
        if choices:
            for choice in choices:
                one_delta = choice.delta
                if one_delta is not None:
                    self.characters += one_delta.characters()
                elif choice.message is not None and not self.characters:
                    # In other chunks it repeats the deltas so far.
                    self.characters += choice.message.characters()
                if choice.finish_reason is not None:
                    self.finish_reason = fit_name(choice.finish_reason)
                if choice.usage is not NULL:
                    self._stated.take_spare(None, choice.usage)
        if chunk.x_groq is not None:
            self._stated.take_spare(chunk.x_groq)
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.id, chunk.model)
            self._stated.tier, self._stated.model = chunk.service_tier, self.response_model
        if choices and chunk.usage is NULL and chunk.error is NULL:
            return True
        return self._take_end(chunk)

    def _take_end(self, chunk: Chunk) -> bool:
        """Meter usage and errors. False if the chunk states usage and nothing else."""
        has_usage = chunk.usage is not NULL and bytes(chunk.usage) != b"null"
        if chunk.service_tier is not None:
            self._stated.tier = chunk.service_tier
        if has_usage and not self._stated.take(chunk.usage):
            self.malformed_events += 1
        has_error = False
        if chunk.error is not NULL or not chunk.choices:
            has_error = self._note_error(error_in(chunk))
        return bool(chunk.choices) or has_error or not has_usage


def ends(data: bytes) -> bool:
    """Whether an event without its final blank line ends the stream."""
    return is_terminator(data)
