"""Token counts of the messages protocol: running totals, with the cache beside the input.

`input_tokens` there is what was neither read from a cache nor written to one; a count that an event
leaves out is as it was stated before (contract §3).
"""

from __future__ import annotations

from typing import Any

import msgspec

from channels.dialects.messages.event import read_counts
from channels.json.lenient import NOTHING
from channels.usage import Usage


class UsageReader:
    """The usage of one answer so far. Each count replaces the one before."""

    __slots__ = ("_fresh", "_output", "_read", "_thought", "_written")

    def __init__(self) -> None:
        self._fresh: int | None = None
        self._read = 0
        self._written = 0
        self._output: int | None = None
        self._thought = 0

    def __repr__(self) -> str:
        return f"<UsageReader {self._fresh} in, {self._output} out>"

    def take(self, stated: msgspec.Raw, *, is_start: bool) -> Usage | None:
        """Take one usage member; the whole usage, once input and output are known.

        The output that a stream's start states is that of its first moment, and no use.
        """
        counts = None if stated is NOTHING else read_counts(stated)
        if counts is None:
            return None
        if counts.fresh is not None:
            self._fresh = counts.fresh
        if counts.read is not None:
            self._read = counts.read
        if counts.written is not None:
            self._written = counts.written
        if not is_start:
            if counts.output is not None:
                self._output = counts.output
            if counts.thought is not None:
                self._thought = counts.thought
        if self._output is None:
            return None
        return Usage(
            input_tokens=(self._fresh or 0) + self._read + self._written,
            output_tokens=self._output,
            cached_tokens=self._read,
            cache_write_tokens=self._written,
            reasoning_tokens=min(self._thought, self._output),
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
