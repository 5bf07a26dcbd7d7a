"""Token counts of one call, the same for every dialect.

How each dialect states them is in `channels/dialects`, what they cost in
`actors/wallet/pricing.py`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

# Far above any context; a count beyond it is a slip or a trick, and its price would not fit a row.
TOKENS_MAX = 2**31 - 1
Tokens = Annotated[int, Meta(le=TOKENS_MAX)]


class Usage(Struct, frozen=True):
    """Tokens an upstream says a call took.

    `input_tokens` is the whole input: fresh, read from a cache, and written to one; the two cache
    counts are parts of it. `output_tokens` is the whole output, `reasoning_tokens` a part of it.
    A count of 0 is a statement; where an upstream states nothing there is no Usage at all.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

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


class PartialUsage(Struct, frozen=True, omit_defaults=True):
    """What an upstream stated of a usage that it never stated whole; None is what it left out.

    `input` has the input's three counts and no output. `output_tokens` is the whole output,
    `total_tokens` both together where neither was stated by itself.
    """

    input: Usage | None
    output_tokens: int | None
    total_tokens: int | None = None
