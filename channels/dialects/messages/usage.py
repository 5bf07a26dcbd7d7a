"""Token counts of the messages protocol: read once, for money and display.

They are running totals, with the cache beside the input: `input_tokens` there is what was neither
read from a cache nor written to one. A count that an event leaves out is as it was stated before
(contract §3).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.usage import PartialUsage, Tokens, Usage


class _Written(Struct, gc=False):
    ephemeral_5m_input_tokens: Tokens | None = None
    ephemeral_1h_input_tokens: Tokens | None = None


class _Thought(Struct, gc=False):
    thinking_tokens: Tokens | None = None


class _Usage(Struct, gc=False):
    input_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    cache_creation: _Written | None = None
    output_tokens: Tokens | None = None
    output_tokens_details: _Thought | None = None


_USAGE = msgspec.json.Decoder(_Usage)


class UsageReader:
    """The usage of one response so far. Each count replaces the one before.

    `_fresh` is the input beside what was read from a cache and written to one; None is what was
    not stated yet.
    """

    __slots__ = ("_fresh", "_output", "_read", "_thought", "_written")

    def __init__(self) -> None:
        self._fresh: int | None = None
        self._read = 0
        self._written = 0
        self._output: int | None = None
        self._thought = 0

    def __repr__(self) -> str:
        return f"<UsageReader {self._fresh} in, {self._output} out>"

    @property
    def usage(self) -> Usage | None:
        """The whole usage, once input and output are known."""
        return None if self._fresh is None else self.displayed

    @property
    def displayed(self) -> Usage | None:
        """What a client is shown: also the output of a response that never states its input."""
        return None if self._output is None else self._made(self._output)

    @property
    def partial(self) -> PartialUsage | None:
        """What was stated while the usage is not whole; None when nothing was."""
        if self.usage is not None or (self._fresh is None and not self._output):
            return None  # an output of zero alone states nothing
        stated = None if self._fresh is None else self._made(output=0)
        return PartialUsage(input=stated, output_tokens=self._output)

    def take(self, stated: msgspec.Raw, *, is_start: bool) -> bool:
        """Take one usage member. False where a count is no whole number, or below zero.

        The output that a stream's start states is that of its first moment, and no use.
        """
        try:
            counts = _USAGE.decode(stated)
        except (msgspec.DecodeError, RecursionError):
            return False
        written = counts.cache_creation_input_tokens
        if written is None and (parts := counts.cache_creation) is not None:
            written = (parts.ephemeral_5m_input_tokens or 0) + (
                parts.ephemeral_1h_input_tokens or 0
            )
        fresh, read, output = (
            counts.input_tokens,
            counts.cache_read_input_tokens,
            counts.output_tokens,
        )
        details = counts.output_tokens_details
        thought = None if details is None else details.thinking_tokens
        numbers = (fresh, read, written, output, thought)
        if any(number is not None and number < 0 for number in numbers):
            return False
        if fresh is not None:
            self._fresh = fresh
        if read is not None:
            self._read = read
        if written is not None:
            self._written = written
        if not is_start:
            if output is not None:
                self._output = output
            if thought is not None:
                self._thought = thought
        return True

    def _made(self, output: int) -> Usage:
        return Usage(
            input_tokens=(self._fresh or 0) + self._read + self._written,
            output_tokens=output,
            cached_tokens=self._read,
            cache_write_tokens=self._written,
            reasoning_tokens=min(self._thought, output),
        )


def write_usage(usage: Usage | None) -> dict[str, Any]:
    """The `usage` member, which the protocol always has; zeros where nothing is known yet."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    members: dict[str, Any] = {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        members["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return members
