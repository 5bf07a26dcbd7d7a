"""Token counts of the responses protocol: read once, for money and display.

`input_tokens` is the whole input, cached parts included; `output_tokens` includes reasoning.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from channels.dialects.responses.event import Response
from channels.json.lenient import is_stated
from channels.usage import Tokens, Usage, whole_output


class _InputDetails(Struct, gc=False):
    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: Tokens | None = None


class _Usage(Struct, gc=False):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


_USAGE = msgspec.json.Decoder(_Usage)


class UsageReader:
    """The usage of one response so far: what is stated last counts."""

    __slots__ = ("usage",)

    def __init__(self) -> None:
        self.usage: Usage | None = None

    def __repr__(self) -> str:
        return f"<UsageReader {self.usage}>"

    def take(self, response: Response) -> bool:
        """Take what a response states. False where its counts cannot be read."""
        if not is_stated(response.usage):
            return True
        usage = read_usage(response.usage)
        self.usage = usage or self.usage
        return usage is not None


def read_usage(usage: msgspec.Raw) -> Usage | None:
    """Numbers of a `usage` member; None when they are not whole, not there, or below zero.

    One count may be missing when the total tells it. The parts never exceed the input.
    """
    try:
        stated = _USAGE.decode(usage)
    except (msgspec.DecodeError, RecursionError):
        return None
    taken, given, total = stated.input_tokens, stated.output_tokens, stated.total_tokens
    if taken is None and given is not None and total is not None:
        taken = total - given
    elif given is None and taken is not None and total is not None:
        given = total - taken
    if taken is None or given is None:
        return None
    inner, outer = stated.input_tokens_details, stated.output_tokens_details
    cached = (inner.cached_tokens if inner else None) or 0
    written = (inner.cache_write_tokens if inner else None) or 0
    reasoning = (outer.reasoning_tokens if outer else None) or 0
    if min(taken, given, cached, written, reasoning) < 0:
        return None
    cached = min(cached, taken)
    given, reasoning = whole_output(
        input_tokens=taken, output_tokens=given, reasoning_tokens=reasoning, total_tokens=total
    )
    return Usage(
        input_tokens=taken,
        output_tokens=given,
        cached_tokens=cached,
        cache_write_tokens=min(written, taken - cached),
        reasoning_tokens=reasoning,
    )
