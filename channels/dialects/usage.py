"""The usage of one response: how it is read and added up, in the same way for every protocol.

A dialect has the types of its members and turns them into `Counts`; what may be odd about them is
decided here, once:

    a member that is no count       it alone is not stated; `20.0` and `"20"` are counts
    statements that follow another  no count falls (reference 5.8)
    a part beyond its whole         lies beside it, unless the total says that it does not
    characters after the statement  are not stated (`RunningUsage.covered`)

`actors/wallet/bounds.py` bounds what is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from channels.dialects import token_counts
from channels.dialects.loose_members import loosely
from channels.json.lenient import UNREADABLE, read_loosely

_Kind = TypeVar("_Kind", bound=Struct)


class UsageType(Generic[_Kind]):
    """The type of a usage, decoded member by member where one of them is odd."""

    def __init__(self, kind: type[_Kind]) -> None:
        self._kind = kind
        # Not strict: integral floats and numeric strings are counts.
        self._decode = msgspec.json.Decoder(kind, strict=False).decode

    def read(self, stated: msgspec.Raw | bytes) -> tuple[_Kind | None, bool]:
        """Return the members that can be read, and whether these are all; None for no object."""
        try:
            return self._decode(stated), True
        except UNREADABLE:
            return loosely(self._kind, read_loosely(bytes(stated))), False


class Counts(Struct, frozen=True, kw_only=True, gc=False):
    """What one statement of a usage counts; None where it does not state the input or the output.

    `input_tokens` may exclude parts of it, and `output_tokens` the reasoning: `usage_of` finds out.
    `is_reasoning_placed`: the dialect knows whether the output includes it, which is as stated.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    parts: token_counts.UsageParts | None = None
    is_reasoning_placed: bool = False

    @property
    def states_nothing(self) -> bool:
        """Whether neither input nor output nor a total is stated."""
        return self.input_tokens is None and self.output_tokens is None and not self.total_tokens


class RunningUsage:
    """The usage of one response so far. Some upstreams state a running total in every event.

    `covered` is the number of characters that had been sent at the last statement of an output:
    what follows is not stated. A statement that falls below an earlier one states no output.
    """

    __slots__ = ("_usage", "_usage_of", "counts", "covered")

    def __init__(self) -> None:
        self.counts: Counts | None = None
        self.covered = 0
        self._usage: token_counts.Usage | None = None  # that of these counts, once it is asked for
        self._usage_of: Counts | None = None

    def add(self, counts: Counts, characters: int) -> None:
        """Add a statement, made after so many characters."""
        known = self.counts
        if known is not None:
            stated, counts = counts, never_less(known, counts)
            is_fall = counts.output_tokens != stated.output_tokens
        else:
            is_fall = False
        self.counts = counts
        output = counts.output_tokens
        if output is None and counts.total_tokens is not None:
            output = counts.total_tokens - (counts.input_tokens or 0)
        if not is_fall and output is not None and output > 0:
            self.covered = characters

    def usage_with(self, parts: token_counts.UsageParts | None) -> token_counts.Usage | None:
        """Return the usage with these parts added; None while input or output is unknown."""
        counts = self.counts
        if counts is None:
            return None
        if parts is not None:
            return usage_of(_joined(counts, parts))
        if self._usage_of is not counts:
            self._usage, self._usage_of = usage_of(counts), counts
        return self._usage

    def partial_with(
        self, parts: token_counts.UsageParts | None
    ) -> token_counts.PartialUsage | None:
        """Return what is known of an incomplete usage, with these parts; None without any."""
        counts = self.counts
        if counts is None or counts.states_nothing:
            return None if parts is None else token_counts.PartialUsage(None, None, parts=parts)
        if parts is not None:
            counts = _joined(counts, parts)
        known = None
        if counts.input_tokens is not None:
            known = usage_of(
                replace(counts, output_tokens=0, reasoning_tokens=0, total_tokens=None)
            )
        total = counts.total_tokens if known is None and counts.output_tokens is None else None
        return token_counts.PartialUsage(
            known, counts.output_tokens, total or None, parts=counts.parts
        )


def _joined(counts: Counts, parts: token_counts.UsageParts) -> Counts:
    return replace(counts, parts=parts if counts.parts is None else more_parts(counts.parts, parts))


_COUNTED = tuple(
    one.name for one in fields(Counts) if one.name not in ("parts", "is_reasoning_placed")
)
_PARTS = tuple((one.name, one.type is int) for one in fields(token_counts.UsageParts))


def never_less(known: Counts, stated: Counts) -> Counts:
    """Return the later statement, with each count at least what it was."""
    raised = less_of(known, stated, _COUNTED)
    if known.parts is not None:
        both = known.parts if stated.parts is None else more_parts(known.parts, stated.parts)
        raised["parts"] = both
    return replace(stated, **raised) if raised else stated


def less_of(known: Struct, stated: Struct, names: Iterable[str]) -> dict[str, object]:
    """Return the known counts, by name, that the later statement leaves out or lowers."""
    found: dict[str, object] = {}
    for name in names:
        count = getattr(known, name)
        if count is not None and ((now := getattr(stated, name)) is None or now < count):
            found[name] = count
    return found


def more_parts(
    known: token_counts.UsageParts, stated: token_counts.UsageParts
) -> token_counts.UsageParts:
    """Return the larger counts of both, and the names of the second where it has them."""
    return token_counts.UsageParts(
        **{
            name: max(getattr(known, name), getattr(stated, name))
            if is_count
            else getattr(stated, name) or getattr(known, name)
            for name, is_count in _PARTS
        }
    )


def usage_of(counts: Counts) -> token_counts.Usage | None:
    """Return the usage of these counts; None unless input and output are known.

    One of both may be missing if the total is stated.
    """
    given, made, total = counts.input_tokens, counts.output_tokens, counts.total_tokens
    if given is None or made is None:
        known = made if given is None else given
        if total is None or known is None or total < known:
            return None
        given, made = (total - known, known) if given is None else (known, total - known)
    cached, written = counts.cached_tokens, counts.cache_write_tokens
    reasoning, parts = counts.reasoning_tokens, counts.parts
    if cached or written or reasoning or parts is not None:
        given, made = _wholes(counts, given, made)
        cached = min(cached, given, token_counts.TOKENS_MAX)
        written = min(written, given - cached, token_counts.TOKENS_MAX - cached)
        reasoning = min(reasoning, made, token_counts.TOKENS_MAX)
    usage = token_counts.Usage(
        min(given, token_counts.TOKENS_MAX),
        min(made, token_counts.TOKENS_MAX),
        cached,
        written,
        reasoning,
    )
    return usage if parts is None else token_counts.with_parts(usage, parts)


def _wholes(counts: Counts, given: int, made: int) -> tuple[int, int]:
    """Return input and output with the parts that lie beside them.

    If the total is what both come to, all parts are within them. Otherwise those lie beside them
    that the total is the sum with, and else those that are larger than their whole; reasoning also
    if the total has room for it (reference 5.7).
    """
    inside, outside = _parts_of(counts)
    rest = None if counts.total_tokens is None else counts.total_tokens - given - made
    if rest == 0:
        return given, made
    if rest is not None and rest > 0:
        beside = _adding_up_to(rest, [*inside, *outside], len(inside))
        if beside is not None:
            return given + beside[0], made + beside[1]
        if not counts.is_reasoning_placed and 0 < counts.reasoning_tokens <= rest:
            made, outside = made + counts.reasoning_tokens, outside[1:]
    given += sum(count for count in inside[:2] if count > given)  # both are disjoint
    return _grown(given, inside[2:]), _grown(made, outside)


def _parts_of(counts: Counts) -> tuple[list[int], list[int]]:
    """Return the counts of the parts of the input, and of the output."""
    parts = counts.parts
    inside = [counts.cached_tokens, counts.cache_write_tokens]
    outside = [0 if counts.is_reasoning_placed else counts.reasoning_tokens]
    if parts is not None:
        inside += (parts.audio_input_tokens, parts.image_input_tokens)
        outside += (parts.audio_output_tokens, parts.image_output_tokens)
    return inside, outside


def _adding_up_to(rest: int, parts: Sequence[int], inputs: int) -> tuple[int, int] | None:
    """Return the fewest parts whose sum is the rest, as sums of input and output; else None."""
    counted = [index for index, count in enumerate(parts) if count]
    for size in range(1, len(counted) + 1):
        for chosen in combinations(counted, size):
            if sum(parts[index] for index in chosen) == rest:
                given = sum(parts[index] for index in chosen if index < inputs)
                return given, rest - given
    return None


def _grown(whole: int, parts: Iterable[int]) -> int:
    for count in parts:
        if count > whole:
            whole += count
    return whole
