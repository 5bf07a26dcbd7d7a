"""Token counts as the chat-completions protocol states them: read once, for money and display.

`prompt_tokens` is the whole input, cached parts included; `completion_tokens` includes reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects.chat.chunk import GroqMember
from channels.json.lenient import NOTHING
from channels.usage import Tokens, Usage, whole_output


class _Cached(Struct, gc=False):
    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None


class _Reasoning(Struct, gc=False):
    reasoning_tokens: Tokens | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    prompt_tokens_details: _Cached | None = None
    completion_tokens_details: _Reasoning | None = None
    cached_tokens: Tokens | None = None  # of Moonshot and others, where there are no details
    prompt_cache_hit_tokens: Tokens | None = None  # of DeepSeek


_USAGE = msgspec.json.Decoder(_Usage)


class UsageReader:
    """The usage of one response so far: some upstreams state a running count in every chunk."""

    __slots__ = ("_is_own", "total_tokens", "usage")

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.total_tokens: int | None = None  # stated alone
        self._is_own = False  # stated in the member that the protocol has for it

    def __repr__(self) -> str:
        return f"<UsageReader {self.usage}>"

    def take(self, stated: msgspec.Raw) -> bool:
        """Take a `usage` member. False where its counts cannot be read."""
        usage = read_usage(stated)
        if usage is not None:
            self.usage, self._is_own = usage, True
            return True
        total = total_alone(stated)
        if total is not None:
            self.total_tokens = total
        return total is not None

    def take_spare(self, groq: GroqMember | None, *of_choices: msgspec.Raw) -> bool:
        """Take usage stated elsewhere. False where it says nothing, or the protocol's own does."""
        usage = None if self._is_own else spare_usage(groq, of_choices)
        if usage is None:
            return False
        self.usage = usage
        return True


def read_usage(usage: msgspec.Raw) -> Usage | None:
    """Numbers of a `usage` member; None when they are not whole, not there, or below zero.

    One count may be missing when the total tells it. The parts that were read from a cache and
    written to one never exceed the input.
    """
    try:
        stated = _USAGE.decode(usage)
    except (msgspec.DecodeError, RecursionError):
        return None
    prompt, completion, total = stated.prompt_tokens, stated.completion_tokens, stated.total_tokens
    if prompt is None and completion is not None and total is not None:
        prompt = total - completion
    elif completion is None and prompt is not None and total is not None:
        completion = total - prompt
    if prompt is None or completion is None or prompt < 0 or completion < 0:
        return None
    input_details = stated.prompt_tokens_details
    cached = input_details.cached_tokens if input_details else None
    written = (input_details.cache_write_tokens if input_details else None) or 0
    if cached is None:
        cached = stated.cached_tokens
    if cached is None:
        cached = stated.prompt_cache_hit_tokens or 0
    details = stated.completion_tokens_details
    reasoning = (details.reasoning_tokens if details else None) or 0
    if cached < 0 or written < 0 or reasoning < 0:
        return None
    completion, reasoning = whole_output(
        input_tokens=prompt,
        output_tokens=completion,
        reasoning_tokens=reasoning,
        total_tokens=total,
    )
    return Usage(
        input_tokens=prompt,
        output_tokens=completion,
        cached_tokens=min(cached, prompt),
        cache_write_tokens=min(written, prompt - min(cached, prompt)),
        reasoning_tokens=reasoning,
    )


def total_alone(usage: msgspec.Raw) -> int | None:
    """The total of a `usage` member that says no more, as MiniMax's may; None for any other."""
    try:
        stated = _USAGE.decode(usage)
    except (msgspec.DecodeError, RecursionError):
        return None
    if stated.prompt_tokens is not None or stated.completion_tokens is not None:
        return None
    return max(stated.total_tokens or 0, 0) or None


def spare_usage(groq: GroqMember | None, of_choices: Iterable[msgspec.Raw]) -> Usage | None:
    """The usage that some upstreams state elsewhere than in `usage`: in a choice, or as Groq does.

    It is actual usage, and counts where the member that the protocol has for it says nothing.
    """
    stated = () if groq is None else (groq.usage,)
    usages = (read_usage(usage) for usage in (*stated, *of_choices) if usage is not NOTHING)
    return next((usage for usage in usages if usage is not None), None)


def write_usage(usage: Usage) -> dict[str, Any]:
    """The `usage` member."""
    details = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
