"""Token counts as the chat-completions protocol states them, for billing and for responses.

`prompt_tokens` is the whole input, cached parts included; `completion_tokens` includes reasoning.
"""

from __future__ import annotations

import msgspec

from channels.dialects import token_counts, usage_details
from channels.dialects.chat.events import GroqMember
from channels.dialects.usage import Counts, RunningUsage, UsageType
from channels.json.lenient import NULL


class _Input(usage_details.InputDetails, gc=False):
    cache_creation_input_tokens: token_counts.Tokens | None = None  # of Alibaba
    cache_creation_tokens: token_counts.Tokens | None = None  # of gateways, as the next
    cached_creation_tokens: token_counts.Tokens | None = None


class _ChatUsage(usage_details.ToolUsage, gc=False):
    """A usage with the parts that may have their own prices."""

    prompt_tokens: token_counts.Tokens | None = None
    completion_tokens: token_counts.Tokens | None = None
    total_tokens: token_counts.Tokens | None = None
    prompt_tokens_details: _Input | None = None
    completion_tokens_details: usage_details.OutputDetails | None = None
    cached_tokens: token_counts.Tokens | None = None  # of Moonshot and others, without details
    prompt_cache_hit_tokens: token_counts.Tokens | None = None  # of DeepSeek
    # Of gateways, which keep the names of messages.
    cache_read_input_tokens: token_counts.Tokens | None = None
    cache_creation_input_tokens: token_counts.Tokens | None = None
    reasoning_tokens: token_counts.Tokens | None = None  # of SGLang, without details


_USAGE = UsageType(_ChatUsage)
_NO_INPUT, _NO_OUTPUT = _Input(), usage_details.OutputDetails()

# Part of the names of OpenAI's models that search for every response without stating a count.
_SEARCHING = "-search-"


class ChatUsageReader(RunningUsage):
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
    def usage(self) -> token_counts.Usage | None:
        """The usage; None while it is incomplete."""
        return self.usage_with(self._parts())

    @property
    def partial(self) -> token_counts.PartialUsage | None:
        """What is known while the usage is incomplete."""
        return self.partial_with(self._parts())

    def take_usage(self, stated: msgspec.Raw, characters: int = 0) -> bool:
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

    def _parts(self) -> token_counts.UsageParts | None:
        """Return tier and searches, which are stated elsewhere."""
        tier = None if self.tier is None else token_counts.served_tier(self.tier)
        is_searching = self.model is not None and _SEARCHING in self.model
        if tier is None and not is_searching:
            return None
        return token_counts.UsageParts(service_tier=tier, web_searches=int(is_searching))


def read_usage(usage: msgspec.Raw) -> tuple[Counts | None, bool]:
    """Parse a `usage` member: its counts, and whether all of it was read.

    None if it counts neither input nor output nor both.
    """
    stated, is_whole = _USAGE.read(usage)
    if stated is None:
        return None, False
    details, made = stated.prompt_tokens_details or _NO_INPUT, stated.completion_tokens_details
    made = made or _NO_OUTPUT
    cached = _first(
        details.cached_tokens,
        stated.cached_tokens,
        stated.prompt_cache_hit_tokens,
        stated.cache_read_input_tokens,
    )
    written = _first(
        details.cache_write_tokens,
        details.cache_creation_input_tokens,
        details.cache_creation_tokens,
        details.cached_creation_tokens,
        stated.cache_creation_input_tokens,
    )
    reasoning = _first(made.reasoning_tokens, stated.reasoning_tokens)
    counts = Counts(
        input_tokens=stated.prompt_tokens,
        output_tokens=stated.completion_tokens,
        total_tokens=stated.total_tokens,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
        parts=stated.parts(stated.prompt_tokens_details, stated.completion_tokens_details),
    )
    return (None, False) if counts.states_nothing else (counts, is_whole)


def _first(*counts: int | None) -> int:
    """Return the first count that is stated."""
    return next((count for count in counts if count is not None), 0)


def write_usage(usage: token_counts.Usage) -> dict[str, object]:
    """Encode the `usage` member."""
    details: dict[str, object] = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    output_details: dict[str, object] = {"reasoning_tokens": usage.reasoning_tokens}
    written = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": output_details,
    }
    if usage.parts is not None:
        usage_details.add_parts(usage, details, output_details)
        written.update(usage_details.tools_member(usage.parts))
    return written
