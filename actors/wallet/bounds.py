"""What is possible in one response: a count beyond it is not charged, whatever an upstream states.

A context size and a maximum are written by hand and rounded, a tokenizer of another provider counts
a little more, and a response may pass over its context twice (to summarise it, then to answer). So
each limit has the same margin, `MARGIN`, and what has no limit of its own has one here.

    count              limit                              where none is configured or requested
    input              the model's context size           a token for each byte of the request, and
                                                          LINKED_TOKENS for what it only names
    output             the request's maximum, for each    the model's; OUTPUT_TOKENS
                       of its choices; at most the
                       model's context
    reasoning, media   the model's maximum, because       OUTPUT_TOKENS
    in the output      some count them beside it
    calls of tools     TOOL_CALLS
    film               the length requested               FILM_MILLISECONDS
    sound, documents   what was held for them
    images             the number requested, without a margin

Instead of a count of tokens that is not possible the estimate is charged, as if it had not been
stated; instead of any other the limit, without the margin. An estimate is bounded by the same
limits, without the margin. The stated count stays in the row's detail, and raises an alarm
(`gw_usage_doubted_total`, of films `gw_task_lengths_doubted_total`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.token_counts import TOKENS_MAX, Usage, UsageParts
from channels.registry import ModelSpec

MARGIN = 2
# Added to the margin of small maxima: marks of messages and calls that some count as output, and an
# image, which is made in spite of the maximum.
SLACK_TOKENS = 4_096
SLACK_MILLISECONDS = 10_000
# A model whose tools the upstream runs reads its context again for each of their results.
TOOL_ROUNDS = 32
# Files, images by their links, results of searches: what fills the largest usual context.
LINKED_TOKENS = 1_000_000
# The largest output of any model.
OUTPUT_TOKENS = 131_072
# More searches, or sessions of code, than any response has.
TOOL_CALLS = 250
# Most upstreams refuse more choices.
CHOICES_MAX = 128
# A film whose length its request leaves open, or a recording decides, whatever the request says.
FILM_MILLISECONDS = 300_000


NONE_DOUBTED: Mapping[str, int] = MappingProxyType({})


class Bounds(Struct, frozen=True, gc=False):
    """The most tokens of one call, without the margin.

    `beside_tokens` are reasoning and media in its output, `rounds` how often its input may be read.
    """

    input_tokens: int
    output_tokens: int
    beside_tokens: int
    rounds: int = 1

    def estimate(self, usage: Usage) -> Usage:
        """Return an estimated usage within the limits."""
        given = min(usage.input_tokens, self.input_tokens)
        made = min(usage.output_tokens, self.output_tokens)
        if given == usage.input_tokens and made == usage.output_tokens:
            return usage
        return replace(usage, input_tokens=given, output_tokens=made)

    def doubted(self, usage: Usage) -> Mapping[str, int]:
        """Return the counts that are not possible, by their names in the row's detail."""
        if usage.parts is None and (
            usage.input_tokens <= self.input_tokens and usage.output_tokens <= self.output_tokens
        ):
            return NONE_DOUBTED  # the common case
        found: dict[str, int] = {}
        parts, rounds = usage.parts, self.rounds
        if parts is not None:
            found = {name: count for name in _CALLS if (count := getattr(parts, name)) > TOOL_CALLS}
            if parts.web_searches or parts.file_searches or parts.code_sessions:
                rounds = TOOL_ROUNDS
        if usage.input_tokens > MARGIN * self.input_tokens * rounds:
            found["input"] = usage.input_tokens
        beside = usage.reasoning_tokens
        if parts is not None:
            beside += parts.audio_output_tokens + parts.image_output_tokens
        if (
            usage.output_tokens - beside > MARGIN * self.output_tokens + SLACK_TOKENS
            or beside > MARGIN * self.beside_tokens + SLACK_TOKENS
        ):
            found["output"] = usage.output_tokens
        return found


_CALLS = ("web_searches", "file_searches", "code_sessions")
_INPUT_PARTS = (
    "cache_write_1h_tokens",
    "audio_input_tokens",
    "cached_audio_tokens",
    "image_input_tokens",
    "cached_image_tokens",
)
_OUTPUT_PARTS = ("audio_output_tokens", "image_output_tokens")


def bounded(usage: Usage, doubted: Mapping[str, int], estimate: Usage) -> Usage:
    """Return the usage with the estimate in place of the counts that are not possible."""
    parts, changes = usage.parts, dict[str, int]()
    if "input" in doubted:
        usage = replace(
            usage, input_tokens=estimate.input_tokens, cached_tokens=0, cache_write_tokens=0
        )
        changes |= dict.fromkeys(_INPUT_PARTS, 0)
    if "output" in doubted:
        usage = replace(usage, output_tokens=estimate.output_tokens, reasoning_tokens=0)
        changes |= dict.fromkeys(_OUTPUT_PARTS, 0)
    changes |= {name: TOOL_CALLS for name in _CALLS if name in doubted}
    if parts is None:
        return usage
    left = replace(parts, **changes)
    return replace(usage, parts=None if left == _NO_PARTS else left)


_NO_PARTS = UsageParts()


def bounds_of(
    model: ModelSpec,
    *,
    body_bytes: int,
    max_tokens: int | None,
    choices: int,
    runs_tools: bool,
) -> Bounds:
    """Return the bounds of a call: a body of so many bytes, and its maximum for each choice.

    `runs_tools`: it has tools that the upstream runs.
    """
    context, ceiling = model.context_size, model.max_output_tokens
    output = ceiling or OUTPUT_TOKENS if max_tokens is None else max_tokens
    if context is not None:
        output = min(output, context)
    choices = max(1, min(choices, CHOICES_MAX))
    return Bounds(
        input_tokens=body_bytes + LINKED_TOKENS if context is None else context,
        output_tokens=min(output, TOKENS_MAX) * choices,
        beside_tokens=(ceiling or OUTPUT_TOKENS) * choices,
        rounds=TOOL_ROUNDS if runs_tools else 1,
    )


def possible_film(stated_ms: int, held_ms: int, *, is_open: bool) -> int:
    """Return the length to charge for a film: the stated one, or the longest possible one.

    `is_open`: its request does not decide the length.
    """
    longest = max(held_ms, FILM_MILLISECONDS) if is_open else held_ms
    return longest if stated_ms > MARGIN * longest + SLACK_MILLISECONDS else stated_ms


def is_measure_doubted(stated: int, held: int, slack: int) -> bool:
    """Whether a recording, or a list of documents, cannot come to so much."""
    return stated > MARGIN * held + slack
