"""Token counts of the messages protocol, for billing and for responses.

They are running totals, and exclude the cache from the input: `input_tokens` is the part neither
read from a cache nor written to one. A count missing in an event keeps its last value.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects import token_counts
from channels.dialects.usage import Counts, RunningUsage, UsageType, usage_of
from channels.dialects.usage_details import InputDetails, hour_member, tools_member
from channels.json.lenient import NULL, is_stated


def write_usage(usage: token_counts.Usage | None) -> dict[str, object]:
    """Return the `usage` member, which the protocol requires; zeros if it is unknown yet."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    members: dict[str, object] = {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        members["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    if usage.parts is not None:
        members.update(_write_parts(usage, usage.parts))
    return members


def _write_parts(usage: token_counts.Usage, parts: token_counts.UsageParts) -> dict[str, object]:
    """Return the members for parts of the usage; there are none for audio and images."""
    members = {**hour_member(usage), **tools_member(parts)}
    if parts.service_tier == "fast":
        members["speed"] = "fast"
    elif parts.service_tier is not None:
        members["service_tier"] = parts.service_tier
    return members


class _WrittenByLifetime(Struct, gc=False):
    ephemeral_5m_input_tokens: token_counts.Tokens | None = None
    ephemeral_1h_input_tokens: token_counts.Tokens | None = None


class _Thought(Struct, gc=False):
    thinking_tokens: token_counts.Tokens | None = None
    reasoning_tokens: token_counts.Tokens | None = None  # by OpenAI's name

    def tokens(self) -> int:
        return self.thinking_tokens or self.reasoning_tokens or 0


class _Counts(Struct, gc=False):
    """The counts of a usage, or of one of its iterations."""

    input_tokens: token_counts.Tokens | None = None
    cache_read_input_tokens: token_counts.Tokens | None = None
    cache_creation_input_tokens: token_counts.Tokens | None = None
    cache_creation: _WrittenByLifetime | None = None
    output_tokens: token_counts.Tokens | None = None
    output_tokens_details: _Thought | None = None

    def written_tokens(self) -> int | None:
        """Return the tokens written to a cache: as a sum, or by lifetime, whichever is more."""
        kept, stated = self.cache_creation, self.cache_creation_input_tokens
        if kept is None:
            return stated
        found = (kept.ephemeral_5m_input_tokens or 0) + (kept.ephemeral_1h_input_tokens or 0)
        return found if stated is None else max(stated, found)


class _Iteration(_Counts, gc=False):
    type: str = ""


class _RequestsOfTools(Struct, gc=False):
    web_search_requests: token_counts.Tokens | None = None
    web_fetch_requests: token_counts.Tokens | None = None


class _MessagesUsage(_Counts, gc=False):
    """A usage with its tools, service tier, region, and iterations."""

    server_tool_use: _RequestsOfTools | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    iterations: list[_Iteration] | None = None
    # By the names of chat-completions; the input is the whole one.
    prompt_tokens: token_counts.Tokens | None = None
    completion_tokens: token_counts.Tokens | None = None
    prompt_tokens_details: InputDetails | None = None
    input_tokens_details: InputDetails | None = None  # of responses, where the input is the whole
    completion_tokens_details: _Thought | None = None


_USAGE = UsageType(_MessagesUsage)
# The iteration that summarises the conversation, which the counts of the usage exclude. They also
# exclude those of an adviser: it is another model without a price here, reported as unpriced.
_SUMMARY, _ADVISER = "compaction", "advisor_message"


def _beside(stated: _MessagesUsage) -> _Counts | None:
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
        cache_creation=_WrittenByLifetime(
            ephemeral_1h_input_tokens=sum(one.ephemeral_1h_input_tokens or 0 for one in hours)
        ),
        output_tokens=_sum_of("output_tokens", apart),
    )


def _advised_tokens(stated: _MessagesUsage) -> int:
    """Sum the tokens of the adviser's iterations."""
    every = [one for one in stated.iterations or () if one.type == _ADVISER]
    names = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    written = sum(one.written_tokens() or 0 for one in every)
    return min(written + sum(_sum_of(name, every) for name in names), token_counts.TOKENS_MAX)


def _sum_of(name: str, iterations: Iterable[_Iteration]) -> int:
    counts: Iterable[int | None] = (getattr(one, name) for one in iterations)
    return min(sum(count or 0 for count in counts), token_counts.TOKENS_MAX)


class MessagesUsageReader(RunningUsage):
    """The usage of one response so far.

    `_fresh` is the input apart from what was read from a cache and written to one; None: not stated
    yet. The three may be stated one by one, and may be divided anew: their sum does not fall.
    `_whole` is an input that includes the cache, by the name of chat-completions; `_is_detailed`:
    so is what was read from the cache, which is then within all input.
    """

    __slots__ = (
        "_fetches",
        "_fresh",
        "_is_detailed",
        "_parts",
        "_read",
        "_searches",
        "_whole",
        "_written",
    )

    def __init__(self) -> None:
        super().__init__()
        self._fresh: int | None = None
        self._whole: int | None = None
        self._is_detailed = False
        self._read = 0
        self._written = 0
        self._parts: token_counts.UsageParts | None = None  # the tools, tier and region stated
        self._fetches = 0
        self._searches = 0  # seen to run

    @property
    def usage(self) -> token_counts.Usage | None:
        """The whole usage, once input and output are known."""
        return self.usage_with(self._known())

    @property
    def displayed(self) -> token_counts.Usage | None:
        """The usage shown to a client: as stated, also without the input."""
        usage, counts = self.usage_with(self._parts), self.counts
        if usage is not None or counts is None or counts.output_tokens is None:
            return usage
        return usage_of(replace(counts, input_tokens=self._read + self._written))

    @property
    def partial(self) -> token_counts.PartialUsage | None:
        """The counts stated while the usage is incomplete; None without any."""
        counts = self.counts
        if counts is not None and counts.input_tokens is None and not counts.output_tokens:
            # An output of 0 alone states nothing.
            parts = self._known()
            return None if parts is None else token_counts.PartialUsage(None, None, parts=parts)
        return None if self.usage is not None else self.partial_with(self._known())

    def take_usage(
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
        details = read.prompt_tokens_details or read.input_tokens_details
        if read.prompt_tokens is not None:
            self._whole = read.prompt_tokens
        elif details is not None and read.input_tokens is not None:
            self._whole = read.input_tokens
        if read.cache_read_input_tokens is not None:
            self._read, self._is_detailed = read.cache_read_input_tokens, False
        elif details is not None and details.cached_tokens is not None:
            self._read, self._is_detailed = details.cached_tokens, True
        if (written := read.written_tokens()) is not None:
            self._written = written
        self.add(self._counts(read, is_start=is_start), characters)
        self._take_more(read, container)
        return is_whole

    def saw_search(self, failed: bool = False) -> None:
        """Count a search that has begun, or take back one that failed."""
        self._searches += -1 if failed else 1

    def _counts(self, read: _MessagesUsage, *, is_start: bool) -> Counts:
        """Return the counts so far, with those of iterations that they exclude."""
        fresh, cached, written = self._fresh, self._read, self._written
        if self._whole is not None and (not fresh or self._is_detailed):
            # A cache that is larger lies beside it.
            beside = cached + written
            fresh = self._whole - beside if self._whole >= beside else self._whole
        output = read.output_tokens or read.completion_tokens
        if output is None:
            output = read.output_tokens
        details = read.output_tokens_details or read.completion_tokens_details
        thought = 0 if details is None else details.tokens()
        hour = _hour_of(read)
        if read.iterations is not None and (more := _beside(read)) is not None:
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
            parts=token_counts.UsageParts(cache_write_1h_tokens=hour) if hour else None,
        )

    def _known(self) -> token_counts.UsageParts | None:
        """Return tools, tier and region: those stated, and the searches seen if none is stated."""
        parts = self._parts
        if self._searches > 0 and (parts is None or not parts.web_searches):
            return replace(parts or token_counts.UsageParts(), web_searches=self._searches)
        return parts

    def _take_more(self, stated: _MessagesUsage, container: msgspec.Raw) -> None:
        """Take the tier, the region, the tools and the adviser, if stated."""
        tools = stated.server_tool_use
        tier = "fast" if stated.speed == "fast" else token_counts.served_tier(stated.service_tier)
        region = token_counts.served_region(stated.inference_geo)
        if stated.iterations is not None and (advised := _advised_tokens(stated)):
            self._parts = replace(self._parts or token_counts.UsageParts(), advisor_tokens=advised)
        known = self._parts
        has_code = is_stated(container) or (known is not None and known.code_sessions > 0)
        if tools is None and not has_code:
            if tier is not None or region is not None:
                self._note(tier, region)
            return
        searches = 0 if known is None else known.web_searches
        if tools is not None:
            searches = max(searches, token_counts.tool_calls(tools.web_search_requests))
            self._fetches = max(self._fetches, token_counts.tool_calls(tools.web_fetch_requests))
        # Code run by searches and fetches of the same response is free of charge.
        is_billed = has_code and not searches and not self._fetches
        self._note(tier, region, web_searches=searches, code_sessions=int(is_billed))

    def _note(self, tier: str | None, region: str | None, **tools: int) -> None:
        known = self._parts or token_counts.UsageParts()
        self._parts = replace(
            known,
            service_tier=tier or known.service_tier,
            region=region or known.region,
            **tools,
        )


def _hour_of(counts: _Counts) -> int:
    kept = counts.cache_creation
    return 0 if kept is None else kept.ephemeral_1h_input_tokens or 0
