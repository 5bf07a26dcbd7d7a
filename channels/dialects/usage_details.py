"""A usage as OpenAI's two protocols state it, with its tools, modalities and lifetimes.

Chat-completions names the counts `prompt_tokens` and `completion_tokens`, responses `input_tokens`
and `output_tokens`. Some upstreams use the other protocol's names, or state both and fill in one.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects import token_counts
from channels.dialects.usage import Counts, UsageType


class _XaiTools(Struct, gc=False):
    """Calls of xAI's tools that succeeded, for which it bills."""

    web_search_calls: token_counts.Tokens | None = None
    x_search_calls: token_counts.Tokens | None = None
    file_search_calls: token_counts.Tokens | None = None
    document_search_calls: token_counts.Tokens | None = None
    code_interpreter_calls: token_counts.Tokens | None = None


class _ToolRequests(Struct, gc=False):
    web_search_requests: token_counts.Tokens | None = None


class ToolUsage(Struct, gc=False):
    """Members of OpenAI's `usage` objects by which other upstreams count their tools.

    `server_tool_use` is OpenRouter's, `num_search_queries` and the size Perplexity's. The others
    are xAI's: sources if it searches by itself, details if the model calls tools.
    """

    num_sources_used: token_counts.Tokens | None = None
    num_search_queries: token_counts.Tokens | None = None
    search_context_size: str | None = None
    server_tool_use: _ToolRequests | None = None
    server_side_tool_usage_details: _XaiTools | None = None

    def parts(
        self, given: InputDetails | None, made: OutputDetails | None
    ) -> token_counts.UsageParts | None:
        """Return the parts stated here and in these details; None without any, as is usual."""
        # Written without calls, because every call's usage passes here.
        own, xai, parts = self.server_tool_use, self.server_side_tool_usage_details, None
        if own or xai or self.num_sources_used or self.num_search_queries:
            parts = self._tools(own, xai)
        if (
            given is not None and (given.audio_tokens or given.image_tokens or given.cache_creation)
        ) or (made is not None and (made.audio_tokens or made.image_tokens)):
            return _modal_parts(
                parts or token_counts.NO_PARTS, given or _NO_INPUT, made or _TEXT_ONLY
            )
        return parts

    def _tools(self, own: _ToolRequests | None, xai: _XaiTools | None) -> token_counts.UsageParts:
        if xai is not None:
            return token_counts.UsageParts(
                web_searches=token_counts.tool_calls(xai.web_search_calls, xai.x_search_calls),
                file_searches=token_counts.tool_calls(
                    xai.file_search_calls, xai.document_search_calls
                ),
                code_sessions=token_counts.tool_calls(xai.code_interpreter_calls),
            )
        searches = None if own is None else own.web_search_requests
        return token_counts.UsageParts(
            web_searches=token_counts.tool_calls(
                self.num_sources_used, self.num_search_queries, searches
            ),
            web_search_size=token_counts.search_size(self.search_context_size),
        )


class Modal(Struct, gc=False):
    """Tokens of a details object by modality; the others are text."""

    audio_tokens: token_counts.Tokens | None = None
    image_tokens: token_counts.Tokens | None = None


class _CacheWrites(Struct, gc=False):
    ephemeral_1h_input_tokens: token_counts.Tokens | None = None


class InputDetails(Modal, gc=False):
    """The details of an input; its audio and images are stated including their cached ones."""

    cached_tokens: token_counts.Tokens | None = None
    cache_write_tokens: token_counts.Tokens | None = None
    cache_creation_input_tokens: token_counts.Tokens | None = None  # of Alibaba
    cache_creation_tokens: token_counts.Tokens | None = None  # of gateways, as the next
    cached_creation_tokens: token_counts.Tokens | None = None
    cached_tokens_details: Modal | None = None
    cache_creation: _CacheWrites | None = None  # of Alibaba, and of gateways


class OutputDetails(Modal, gc=False):
    """The details of an output."""

    reasoning_tokens: token_counts.Tokens | None = None


_NO_INPUT, _NO_OUTPUT, _TEXT_ONLY = InputDetails(), OutputDetails(), Modal()


class _StatedUsage(ToolUsage, gc=False):
    """A usage by the names of either protocol, with the parts that may have their own prices."""

    prompt_tokens: token_counts.Tokens | None = None
    completion_tokens: token_counts.Tokens | None = None
    input_tokens: token_counts.Tokens | None = None
    output_tokens: token_counts.Tokens | None = None
    total_tokens: token_counts.Tokens | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None
    cached_tokens: token_counts.Tokens | None = None  # of Moonshot and others, without details
    prompt_cache_hit_tokens: token_counts.Tokens | None = None  # of DeepSeek
    # Of gateways, which keep the names of messages.
    cache_read_input_tokens: token_counts.Tokens | None = None
    cache_creation_input_tokens: token_counts.Tokens | None = None
    reasoning_tokens: token_counts.Tokens | None = None  # of SGLang, without details


_USAGE = UsageType(_StatedUsage)


def read_usage(usage: msgspec.Raw, *, is_chat: bool) -> tuple[Counts | None, bool]:
    """Parse a `usage` member: its counts, and whether all of it was read.

    A protocol's own names count before the other's, which state the same tokens again. None if it
    counts neither input nor output nor both.
    """
    stated, is_whole = _USAGE.read(usage)
    if stated is None:
        return None, False
    prompt, completion = stated.prompt_tokens, stated.completion_tokens
    given, made = stated.input_tokens, stated.output_tokens
    details, made_details = stated.prompt_tokens_details, stated.completion_tokens_details
    its_details, its_made = stated.input_tokens_details, stated.output_tokens_details
    is_prompt = _is_first(prompt, given) if is_chat else not _is_first(given, prompt)
    is_completion = _is_first(completion, made) if is_chat else not _is_first(made, completion)
    details = (details or its_details) if is_prompt else (its_details or details)
    made_details = (made_details or its_made) if is_completion else (its_made or made_details)
    read, written = stated.cache_read_input_tokens, stated.cache_creation_input_tokens
    whole = prompt if is_prompt else given
    if not is_prompt and given is not None and details is None and not stated.total_tokens:
        # All names are those of messages, whose input excludes the cache.
        whole = given + (read or 0) + (written or 0)
    of = details or _NO_INPUT
    counts = Counts(
        input_tokens=whole,
        output_tokens=completion if is_completion else made,
        total_tokens=stated.total_tokens,
        cached_tokens=_first(
            of.cached_tokens, stated.cached_tokens, stated.prompt_cache_hit_tokens, read
        ),
        cache_write_tokens=_first(
            of.cache_write_tokens,
            of.cache_creation_input_tokens,
            of.cache_creation_tokens,
            of.cached_creation_tokens,
            written,
        ),
        reasoning_tokens=_first(
            (made_details or _NO_OUTPUT).reasoning_tokens, stated.reasoning_tokens
        ),
        parts=stated.parts(details, made_details),
    )
    return (None, False) if counts.states_nothing else (counts, is_whole)


def _is_first(own: int | None, other: int | None) -> bool:
    """Whether the first count holds: a zero beside a count is a member that nobody filled in."""
    return bool(own) or (not other and (own is not None or other is None))


def _first(*counts: int | None) -> int:
    """Return the first count that is stated."""
    return next((count for count in counts if count is not None), 0)


def _modal_parts(
    known: token_counts.UsageParts, given: InputDetails, made: Modal
) -> token_counts.UsageParts:
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


def add_parts(usage: token_counts.Usage, given: dict[str, object], made: dict[str, object]) -> None:
    """Add the parts to the details of input and output, under upstreams' names."""
    parts = usage.parts or token_counts.NO_PARTS
    given |= _modal_members(parts.audio_input_tokens, parts.image_input_tokens)
    if cached := _modal_members(parts.cached_audio_tokens, parts.cached_image_tokens):
        given["cached_tokens_details"] = cached
    given.update(hour_member(usage))
    made |= _modal_members(parts.audio_output_tokens, parts.image_output_tokens)


def hour_member(usage: token_counts.Usage) -> dict[str, object]:
    """Return the cache writes by lifetime; empty if none is for an hour."""
    hour = 0 if usage.parts is None else usage.parts.cache_write_1h_tokens
    if not hour:
        return {}
    kept = {
        "ephemeral_5m_input_tokens": usage.cache_write_tokens - hour,
        "ephemeral_1h_input_tokens": hour,
    }
    return {"cache_creation": kept}


def tools_member(parts: token_counts.UsageParts) -> dict[str, object]:
    """Return the searches made by the upstream; empty without any."""
    searches = {"web_search_requests": parts.web_searches}
    return {"server_tool_use": searches} if parts.web_searches else {}


def tier_member(usage: token_counts.Usage | None) -> dict[str, str]:
    """Return the `service_tier` beside a usage; empty for the standard one."""
    tier = None if usage is None or usage.parts is None else usage.parts.service_tier
    return {} if tier is None else {"service_tier": tier}


def _modal_members(audio: int, image: int) -> dict[str, int]:
    counts = {"audio_tokens": audio, "image_tokens": image}
    return {name: count for name, count in counts.items() if count}
