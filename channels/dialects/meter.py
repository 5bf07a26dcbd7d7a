"""The common part of the dialects' meters: token counts, and how they are recorded.

Each dialect's own meter decodes its events. `gw/calls/bills.py` prices the counts.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType, UnionType
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from channels.dialects.error_body import code_in, fit, message_in
from channels.families import SERVICE_TIERS
from channels.json.lenient import NULL, raw_of, read_loosely
from channels.json.weight import is_heavy_event

# Token counts of one call, the same for every dialect.
#
# `channels/dialects` has each dialect's form of them, `actors/wallet/pricing.py` their cost.

# Far above any context. A larger count is read as this one, and what is charged is bounded by what
# is possible (`actors/wallet/bounds.py`).
TOKENS_MAX = 2**31 - 1
Tokens = Annotated[int, Meta(ge=0, le=TOKENS_MAX)]


def count_of(stated: object) -> int | None:
    """Return a count of tokens or pieces, which may be an integral float or a numeric string.

    None for anything else. A count above the bound is the bound.
    """
    if isinstance(stated, bool):
        return None
    try:
        return min(msgspec.convert(stated, _Count, strict=False), TOKENS_MAX)
    except (msgspec.ValidationError, OverflowError):
        return None


_Count = Annotated[int, Meta(ge=0)]


class UsageParts(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Parts of a usage that may have their own prices, and usage besides tokens.

    Each count of tokens is a part of the one it is named after: `cache_write_1h_tokens` of the
    tokens written to a cache, audio and image tokens of the input (the cached ones included) or of
    the output, cached audio and image tokens also of the cached ones. The rest are calls of tools
    that the upstream ran, and tokens of an adviser model, which the usage excludes.
    `web_search_size` is the context size of a search, `service_tier` the tier that the upstream
    reports: `priority`, `flex`, `batch` or `fast`, None for the standard one; `region` is the
    reported region, None for any.
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
    advisor_tokens: int = 0
    web_search_size: str | None = None
    service_tier: str | None = None
    region: str | None = None


class Usage(Struct, frozen=True, gc=False):
    """The tokens of a call, as stated by the upstream.

    `input_tokens` is the whole input: fresh, read from a cache, and written to one; the two cache
    counts are parts of it. `output_tokens` is the whole output, `reasoning_tokens` a part of it. A
    count of 0 is a statement; if an upstream states nothing there is no Usage. `parts` is None if
    none of them was reported, the common case.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    parts: UsageParts | None = None

    def __post_init__(self) -> None:
        unwritten = self.input_tokens - self.cache_write_tokens
        assert 0 <= self.cached_tokens <= unwritten <= self.input_tokens, self
        assert 0 <= self.reasoning_tokens <= self.output_tokens, self


# Limit of the searches and containers of one response that are told apart.
TOOL_CALLS_MAX = 10_000
# Upstreams' names of service tiers that differ from those of prices.
_TIERS: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in SERVICE_TIERS},
        "fast": "priority",  # of OpenAI; the fast mode of messages is stated as a speed
        "performance": "priority",  # of Groq
        "ON_DEMAND_PRIORITY": "priority",  # of Google, as `trafficType`
        "ON_DEMAND_FLEX": "flex",
    }
)


def served_tier(stated: str | None) -> str | None:
    """Return the service tier by the name in prices; None for the standard one."""
    return None if stated is None else _TIERS.get(stated)


_REGION = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
# Words of upstreams for no region, or an unknown one.
_ANYWHERE = frozenset(("global", "not_available", "auto", "default"))


def served_region(stated: str | None) -> str | None:
    """Return the region as named in prices; None for any."""
    found = (stated or "").lower()
    return found if _REGION.fullmatch(found) and found not in _ANYWHERE else None


def tool_calls(*stated: int | None) -> int:
    """Sum counts of tool calls."""
    return min(sum(one or 0 for one in stated), TOKENS_MAX)


def with_parts(usage: Usage, parts: UsageParts) -> Usage:
    """Return the usage with these parts, each clamped to the count it is a part of.

    Audio and images count as cached as far as they exceed the rest of the input. Parts without any
    count become None.
    """
    cached = usage.cached_tokens
    fresh = usage.input_tokens - cached - usage.cache_write_tokens
    audio = _within(parts.audio_input_tokens, fresh + cached)
    cached_audio = min(max(_within(parts.cached_audio_tokens, cached), audio - fresh), audio)
    fresh, cached = fresh - (audio - cached_audio), cached - cached_audio
    image = _within(parts.image_input_tokens, fresh + cached)
    cached_image = min(max(_within(parts.cached_image_tokens, cached), image - fresh), image)
    output = usage.output_tokens - usage.reasoning_tokens
    audio_output = _within(parts.audio_output_tokens, output)
    found = UsageParts(
        cache_write_1h_tokens=_within(parts.cache_write_1h_tokens, usage.cache_write_tokens),
        audio_input_tokens=audio,
        cached_audio_tokens=cached_audio,
        image_input_tokens=image,
        cached_image_tokens=cached_image,
        audio_output_tokens=audio_output,
        image_output_tokens=_within(parts.image_output_tokens, output - audio_output),
        web_searches=tool_calls(parts.web_searches),
        file_searches=tool_calls(parts.file_searches),
        code_sessions=tool_calls(parts.code_sessions),
        advisor_tokens=min(parts.advisor_tokens, TOKENS_MAX),
        web_search_size=parts.web_search_size if parts.web_searches else None,
        service_tier=parts.service_tier,
        region=parts.region,
    )
    return replace(usage, parts=None if found == _NO_PARTS else found)


_NO_PARTS = UsageParts()
# Context sizes of searches that have prices.
_SEARCH_SIZES = frozenset(("low", "medium", "high"))


def search_size(stated: str | None) -> str | None:
    """Return the context size of a search, as prices name it; None for any other value."""
    return stated if stated in _SEARCH_SIZES else None


def _within(count: int, whole: int) -> int:
    return max(0, min(count, whole))


class _XaiTools(Struct, gc=False):
    """Calls of xAI's tools that succeeded, for which it bills."""

    web_search_calls: Tokens | None = None
    x_search_calls: Tokens | None = None
    file_search_calls: Tokens | None = None
    document_search_calls: Tokens | None = None
    code_interpreter_calls: Tokens | None = None


class _ServerTools(Struct, gc=False):
    web_search_requests: Tokens | None = None


class ToolUsage(Struct, gc=False):
    """Members of OpenAI's `usage` objects by which other upstreams count their tools.

    `server_tool_use` is OpenRouter's, `num_search_queries` and the size Perplexity's. The others
    are xAI's: sources if it searches by itself, details if the model calls tools.
    """

    num_sources_used: Tokens | None = None
    num_search_queries: Tokens | None = None
    search_context_size: str | None = None
    server_tool_use: _ServerTools | None = None
    server_side_tool_usage_details: _XaiTools | None = None

    def parts(self, given: InputDetails | None, made: OutputDetails | None) -> UsageParts | None:
        """Return the parts stated here and in these details; None without any, as is usual."""
        # Written without calls, because every call's usage passes here.
        own, xai, parts = self.server_tool_use, self.server_side_tool_usage_details, None
        if own or xai or self.num_sources_used or self.num_search_queries:
            parts = self._tools(own, xai)
        if (
            given is not None and (given.audio_tokens or given.image_tokens or given.cache_creation)
        ) or (made is not None and (made.audio_tokens or made.image_tokens)):
            return _modal_parts(parts or _NO_PARTS, given or _NO_INPUT, made or _TEXT_ONLY)
        return parts

    def _tools(self, own: _ServerTools | None, xai: _XaiTools | None) -> UsageParts:
        if xai is not None:
            return UsageParts(
                web_searches=tool_calls(xai.web_search_calls, xai.x_search_calls),
                file_searches=tool_calls(xai.file_search_calls, xai.document_search_calls),
                code_sessions=tool_calls(xai.code_interpreter_calls),
            )
        searches = None if own is None else own.web_search_requests
        return UsageParts(
            web_searches=tool_calls(self.num_sources_used, self.num_search_queries, searches),
            web_search_size=search_size(self.search_context_size),
        )


class Modal(Struct, gc=False):
    """Tokens of a details object by modality; the others are text."""

    audio_tokens: Tokens | None = None
    image_tokens: Tokens | None = None


class _Written(Struct, gc=False):
    ephemeral_1h_input_tokens: Tokens | None = None


class InputDetails(Modal, gc=False):
    """The details of an input; its audio and images are stated including their cached ones."""

    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None
    cached_tokens_details: Modal | None = None
    cache_creation: _Written | None = None  # of Alibaba, and of gateways


class OutputDetails(Modal, gc=False):
    """The details of an output."""

    reasoning_tokens: Tokens | None = None


_NO_INPUT, _TEXT_ONLY = InputDetails(), Modal()


def _modal_parts(known: UsageParts, given: InputDetails, made: Modal) -> UsageParts:
    """Return these parts with the tokens of details added."""
    kept, cached = given.cache_creation, given.cached_tokens_details or _TEXT_ONLY
    return replace(
        known,
        cache_write_1h_tokens=0 if kept is None else kept.ephemeral_1h_input_tokens or 0,
        audio_input_tokens=given.audio_tokens or 0,
        cached_audio_tokens=cached.audio_tokens or 0,
        image_input_tokens=given.image_tokens or 0,
        cached_image_tokens=cached.image_tokens or 0,
        audio_output_tokens=made.audio_tokens or 0,
        image_output_tokens=made.image_tokens or 0,
    )


# Encodes parts for clients of the protocols that state usage as OpenAI does.


def add_parts(usage: Usage, given: dict[str, Any], made: dict[str, Any]) -> None:
    """Add the parts to the details of input and output, under upstreams' names."""
    parts = usage.parts or _NO_PARTS
    given |= _modal_members(parts.audio_input_tokens, parts.image_input_tokens)
    if cached := _modal_members(parts.cached_audio_tokens, parts.cached_image_tokens):
        given["cached_tokens_details"] = cached
    given.update(hour_member(usage))
    made |= _modal_members(parts.audio_output_tokens, parts.image_output_tokens)


def hour_member(usage: Usage) -> dict[str, Any]:
    """Return the cache writes by lifetime; empty if none is for an hour."""
    hour = 0 if usage.parts is None else usage.parts.cache_write_1h_tokens
    if not hour:
        return {}
    kept = {
        "ephemeral_5m_input_tokens": usage.cache_write_tokens - hour,
        "ephemeral_1h_input_tokens": hour,
    }
    return {"cache_creation": kept}


def tools_member(parts: UsageParts) -> dict[str, Any]:
    """Return the searches made by the upstream; empty without any."""
    searches = {"web_search_requests": parts.web_searches}
    return {"server_tool_use": searches} if parts.web_searches else {}


def tier_member(usage: Usage | None) -> dict[str, str]:
    """Return the `service_tier` beside a usage; empty for the standard one."""
    tier = None if usage is None or usage.parts is None else usage.parts.service_tier
    return {} if tier is None else {"service_tier": tier}


def _modal_members(audio: int, image: int) -> dict[str, int]:
    counts = {"audio_tokens": audio, "image_tokens": image}
    return {name: count for name, count in counts.items() if count}


class PartialUsage(Struct, frozen=True, omit_defaults=True):
    """An incompletely stated usage; None for missing counts.

    `input` has the input's three counts and no output. `output_tokens` is the whole output,
    `total_tokens` the sum if neither was stated alone. `parts` is what else is known: the tier, the
    region, and the tools that were seen to run.
    """

    input: Usage | None
    output_tokens: int | None
    total_tokens: int | None = None
    parts: UsageParts | None = None


# A decoded event.
Read = TypeVar("Read")
# Names and ids are written to a row of the call log.
NAME_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error that the upstream reported within its response, unredacted."""

    code: str | None
    message: str | None


class ResponseMeter(Generic[Read]):
    """Meters one response. Made for one attempt, used from one task.

    `characters` are code points of text, refusals, thinking, and tool calls' names and arguments.
    `finished`: the response's end was received, or it is whole. `has_choice`: a choice, a candidate
    or content was received, which may be empty.
    """

    # Members of an error that may have its code, the most trusted first.
    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")
    reads_any_size: ClassVar[bool] = False  # see Meter

    # Whether a stream begins with any event, or only with one that has a choice.
    begins_at_once: ClassVar[bool] = True

    # The defaults are the class's, so that a meter is made of what it has read.
    characters: int = 0
    has_choice: bool = False
    finished: bool = False
    finish_reason: str | None = None
    response_id: str | None = None
    response_model: str | None = None
    error_seen: ErrorEvent | None = None
    malformed_events: int = 0

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
        """The last usage stated; None while none was complete."""

    @property
    def partial_usage(self) -> PartialUsage | None:
        """The counts stated while `usage` is None; None without any."""
        return None

    @property
    def has_answer(self) -> bool:
        """Whether the response can be used: something was answered, or why it stopped."""
        return self.has_choice or self.characters > 0 or self.finish_reason is not None

    def end_of_body(self) -> None:
        """Note that the body of a stream has ended as its head promised."""

    @property
    def unstated_characters(self) -> int:
        """The characters received since the usage was stated; 0 where it was stated last."""
        return 0

    @staticmethod
    @abstractmethod
    def read(data: bytes) -> Read | None:
        """Decode one event's data; None if it is unreadable, or undocumented and heavy.

        Never raises.
        """

    @abstractmethod
    def take(self, read: Read | None, /) -> bool:
        """Meter a decoded event. Never raises; False if only some clients get the event."""

    @abstractmethod
    def body(self, body: bytes) -> None:
        """Meter a whole response. Raises UpstreamMalformed if it is not a JSON object."""

    def _note_names(self, response_id: str | None, response_model: str | None) -> None:
        """Keep the first id and the first model that are stated."""
        if self.response_id is None and response_id is not None:
            self.response_id = fit_name(response_id)
        if self.response_model is None and response_model is not None:
            self.response_model = fit_name(response_model)

    def _note_error(self, stated: msgspec.Raw) -> bool:
        """Record an error member. True if it states an error."""
        if stated is NULL:
            return False
        text = bytes(stated)
        error = None if is_heavy_event(text) else read_loosely(text)
        if error is None and text != b"null":
            error = "unreadable"
        if not error:
            return False  # some upstreams always send the member
        code = code_in(error, self._error_names)
        self.error_seen = ErrorEvent(None if code is None else fit_name(code), message_in(error))
        return True


# Decodes events whose members have undocumented types.

_Kind = TypeVar("_Kind", bound=Struct)


def loosely(kind: type[_Kind], value: Any) -> _Kind | None:
    """Return the members of an object that have the types of the struct; None for another value.

    The rest keeps its defaults: delivered text is still counted and shown.
    """
    if not isinstance(value, dict):
        return None
    members = {name: read(value.get(on_wire)) for name, on_wire, read in _readers(kind)}
    return kind(**{name: found for name, found in members.items() if found is not None})


@cache
def _readers(kind: type[Struct]) -> tuple[tuple[str, str, Callable[[Any], Any]], ...]:
    return tuple((one.name, one.encode_name, _reader(one.type)) for one in fields(kind))


def _reader(stated: Any) -> Callable[[Any], Any]:
    is_optional = isinstance(stated, UnionType) or get_origin(stated) is Union  # `kind | None`
    kind = get_args(stated)[0] if is_optional else stated
    if get_origin(kind) is Annotated:  # `Tokens` is the only one
        return count_of
    if kind is msgspec.Raw:
        return raw_of
    if get_origin(kind) is list:
        (of,) = get_args(kind)
        return lambda found: (
            [loosely(of, one) for one in found if isinstance(one, dict)]
            if isinstance(found, list)
            else None
        )
    if issubclass(kind, Struct):
        return partial(loosely, kind)
    return lambda found: found if type(found) is kind else None


def fit_name(text: str) -> str:
    """Return a name fit for a row; usually the same."""
    if text.isprintable() and len(text) <= NAME_CHARACTERS_MAX:
        return text
    return fit(text, NAME_CHARACTERS_MAX)
