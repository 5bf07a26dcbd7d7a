"""Token counts of one call, the same for every dialect.

Each dialect has its own form of them, `actors/wallet/pricing.py` their cost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from channels.families import SERVICE_TIERS

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
    if stated is None:
        return None
    found = stated.lower()
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
    return replace(usage, parts=None if found == NO_PARTS else found)


NO_PARTS = UsageParts()
# Context sizes of searches that have prices.
_SEARCH_SIZES = frozenset(("low", "medium", "high"))


def search_size(stated: str | None) -> str | None:
    """Return the context size of a search, as prices name it; None for any other value."""
    return stated if stated in _SEARCH_SIZES else None


def _within(count: int, whole: int) -> int:
    return max(0, min(count, whole))


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
