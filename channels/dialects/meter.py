"""What the meters of the dialects have in common: what they have read, and how it is noted.

Each dialect's own meter reads its events. What the counts cost is `gw/calls/bills.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from channels.dialects.error_body import code_in, fit, message_in
from channels.json import NULL, UNREADABLE, is_heavy_event, read_loosely

# Token counts of one call, the same for every dialect.
#
# How each dialect states them is in `channels/dialects`, what they cost in
# `actors/wallet/pricing.py`.

# Far above any context; a count beyond it is a slip or a trick, and its price would not fit a row.
TOKENS_MAX = 2**31 - 1
Tokens = Annotated[int, Meta(le=TOKENS_MAX)]


class UsageParts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parts of a usage that some prices are made for, and what was used beside its tokens.

    Each count of tokens is a part of the one it is named after: `cache_write_1h_tokens` of the
    tokens written to a cache, audio and image tokens of the input (the cached ones included) or of
    the output, cached audio and image tokens also of the cached ones. The rest are calls of tools
    that the upstream ran. `web_search_size` is the size of context a search was made with,
    `service_tier` the tier that the upstream reports to have served: `priority`, `flex`, `batch`
    or `fast`, None for the standard one.
    """

    cache_write_1h_tokens: int = 0
    audio_input_tokens: int = 0
    cached_audio_tokens: int = 0
    image_input_tokens: int = 0
    cached_image_tokens: int = 0
    audio_output_tokens: int = 0
    image_output_tokens: int = 0
    web_searches: int = 0
    file_searches: int = 0
    code_sessions: int = 0
    web_search_size: str | None = None
    service_tier: str | None = None


class Usage(Struct, frozen=True):
    """Tokens an upstream states a call took.

    `input_tokens` is the whole input: fresh, read from a cache, and written to one; the two cache
    counts are parts of it. `output_tokens` is the whole output, `reasoning_tokens` a part of it.
    A count of 0 is a statement; where an upstream states nothing there is no Usage at all. `parts`
    is None where nothing of it was reported, which is most calls.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    parts: UsageParts | None = None

    def __post_init__(self) -> None:
        assert min(self.cached_tokens, self.cache_write_tokens, self.reasoning_tokens) >= 0, self
        assert self.cached_tokens + self.cache_write_tokens <= self.input_tokens, self
        assert self.reasoning_tokens <= self.output_tokens, self


def whole_output(
    *, input_tokens: int, output_tokens: int, reasoning_tokens: int, total_tokens: int | None
) -> tuple[int, int]:
    """Tokens of the whole output and of the reasoning in it (contract §7: Reasoning tokens).

    Reasoning is inside the output that an upstream states, unless its total has room for it beside
    that output. Without a total nothing is added: what is not stated is not charged.
    """
    beside = input_tokens + output_tokens + reasoning_tokens
    if total_tokens is not None and total_tokens >= beside:
        output_tokens += reasoning_tokens
    return output_tokens, min(reasoning_tokens, output_tokens)


def usage_of(
    *,
    input_tokens: int | None,
    output_tokens: int | None,
    total_tokens: int | None,
    cached_tokens: int,
    cache_write_tokens: int,
    reasoning_tokens: int,
) -> Usage | None:
    """The usage of counts as stated; None where one is below zero, or not stated.

    One of input and output may be missing when the total is stated. Tokens read from a cache and
    written to one never exceed the input.
    """
    if total_tokens is not None:
        if input_tokens is None and output_tokens is not None:
            input_tokens = total_tokens - output_tokens
        elif output_tokens is None and input_tokens is not None:
            output_tokens = total_tokens - input_tokens
    if input_tokens is None or output_tokens is None:
        return None
    if min(input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens) < 0:
        return None
    output_tokens, reasoning_tokens = whole_output(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=reasoning_tokens,
        total_tokens=total_tokens,
    )
    cached_tokens = min(cached_tokens, input_tokens)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached_tokens,
        cache_write_tokens=min(cache_write_tokens, input_tokens - cached_tokens),
        reasoning_tokens=reasoning_tokens,
    )


class PartialUsage(Struct, frozen=True, omit_defaults=True):
    """What an upstream stated of a usage that it never stated whole; None is what it left out.

    `input` has the input's three counts and no output. `output_tokens` is the whole output,
    `total_tokens` both together where neither was stated by itself.
    """

    input: Usage | None
    output_tokens: int | None
    total_tokens: int | None = None


# What the data of an event as documented hold, and what `read` gives of any.
One = TypeVar("One")
Read = TypeVar("Read")
# Names and ids go into a row of the call log.
NAME_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error the upstream reported within its response, in its own, unredacted words."""

    code: str | None
    message: str | None


class ResponseMeter(ABC, Generic[One, Read]):
    """Follows one response. Made for one attempt, used from one task.

    `characters` are code points of text, refusals, thinking, and tool calls' names and arguments.
    `finished`: the response's end was seen, or it came whole.
    """

    __slots__ = (
        "characters",
        "error_seen",
        "finish_reason",
        "finished",
        "malformed_events",
        "response_id",
        "response_model",
    )

    # Members of an error that name it, in the order they are trusted.
    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")
    reads_any_size: ClassVar[bool] = False  # see Meter

    def __init__(self) -> None:
        self.characters = 0
        self.finished = False
        self.finish_reason: str | None = None
        self.response_id: str | None = None
        self.response_model: str | None = None
        self.error_seen: ErrorEvent | None = None
        self.malformed_events = 0

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.characters} characters, {self.usage}, "
            f"finish_reason={self.finish_reason!r}{' finished' if self.finished else ''}"
            f"{f' {self.error_seen}' if self.error_seen else ''}"
            f"{f' {self.malformed_events} malformed' if self.malformed_events else ''}>"
        )

    @property
    @abstractmethod
    def usage(self) -> Usage | None:
        """The usage stated last; None while none was stated whole."""

    @property
    def saw_content(self) -> bool:
        """Whether anything that counts as output has passed."""
        return self.characters > 0

    @property
    def partial_usage(self) -> PartialUsage | None:
        """What was stated while `usage` is None; None when nothing was."""
        return None

    def event(self, data: bytes) -> bool:
        """Read and meter one event. Never raises; False where only some clients get the event."""
        try:
            read = self._decode(data)
        except UNREADABLE:
            return self.take(None if is_heavy_event(data) else self.read(data))
        return self._take(read)

    @abstractmethod
    def _take(self, one: One) -> bool:
        """Meter an event that is as documented, or a chunk; as `event`."""

    @staticmethod
    @abstractmethod
    def _decode(data: bytes, /) -> One:
        """What `read` tries first: an event that is as documented. Raises what is UNREADABLE."""

    @staticmethod
    @abstractmethod
    def read(data: bytes) -> Read | None:
        """What one event's data hold; None where they cannot be read. Never raises."""

    def take(self, read: Read | None) -> bool:
        """Meter what was read of an event; as `event`. Overridden where that is no `One`."""
        if read is None:
            self.malformed_events += 1
            return True
        return self._take(read)  # type: ignore[arg-type]

    @abstractmethod
    def body(self, body: bytes) -> None:
        """Read a whole response. Raises UpstreamMalformed when it is not a JSON object."""

    def _note_names(self, response_id: str | None, response_model: str | None) -> None:
        """Keep the first id and the first model that are stated."""
        if self.response_id is None and response_id is not None:
            self.response_id = fit_name(response_id)
        if self.response_model is None and response_model is not None:
            self.response_model = fit_name(response_model)

    def _note_error(self, stated: msgspec.Raw) -> bool:
        """Note an error member. True when it states something."""
        if stated is NULL:
            return False
        text = bytes(stated)
        error = None if is_heavy_event(text) else read_loosely(text)
        if error is None and text != b"null":
            error = "unreadable"
        if not error:
            return False  # some upstreams always have the member
        code = code_in(error, self._error_names)
        self.error_seen = ErrorEvent(None if code is None else fit_name(code), message_in(error))
        return True


def fit_name(text: str) -> str:
    """A name fit for a row; nearly all are."""
    if text.isprintable() and len(text) <= NAME_CHARACTERS_MAX:
        return text
    return fit(text, NAME_CHARACTERS_MAX)
