"""The members of a chat-completions answer that are read, as types, and its usage as numbers.

One shape serves a stream's chunk and a whole answer. How an answer is followed is `meter.py`'s
part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from channels.json.lenient import NOTHING, characters_of, raw_of
from channels.usage import Tokens, Usage, whole_output


class Function(Struct, gc=False):
    """A function's name and arguments, or a piece of either."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(Struct, gc=False):
    """One tool call, or a piece of it."""

    function: Function | None = None


class Message(Struct, gc=False):
    """What a choice says, or adds to it."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Function | None = None

    def characters(self) -> int:
        """Characters of text, thinking and tool calls (contract §7: Cost of a cut call)."""
        count = 0
        if self.content is not None:
            count += len(self.content)
        # Some upstreams send one thought under both names.
        if self.reasoning_content is not None:
            count += len(self.reasoning_content)
        elif self.reasoning is not None:
            count += len(self.reasoning)
        if self.tool_calls is not None:
            count += sum(_length(call.function) for call in self.tool_calls)
        if self.refusal is not None:
            count += len(self.refusal)
        if self.function_call is not None:
            count += _length(self.function_call)
        return count


class Choice(Struct, gc=False):
    """One of the answers asked for."""

    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None
    usage: msgspec.Raw = NOTHING  # of Moonshot, in the chunk with the reason


class GroqMember(Struct, gc=False):
    """What Groq says of its own in the last chunk."""

    usage: msgspec.Raw = NOTHING


class Chunk(Struct, gc=False):
    """A stream's event, or a whole answer."""

    choices: list[Choice] | None = None
    usage: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    id: str | None = None
    model: str | None = None
    x_groq: GroqMember | None = None


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


def spare_usage(groq: GroqMember | None, of_choices: Iterable[msgspec.Raw]) -> Usage | None:
    """The usage that some upstreams state elsewhere than in `usage`: in a choice, or as Groq does.

    It is actual usage, and counts where the member that the protocol has for it says nothing.
    """
    stated = () if groq is None else (groq.usage,)
    usages = (read_usage(usage) for usage in (*stated, *of_choices) if usage is not NOTHING)
    return next((usage for usage in usages if usage is not None), None)


def groq_member(value: Mapping[str, Any]) -> GroqMember | None:
    """The same of an answer that is read loosely."""
    own = value.get("x_groq")
    return GroqMember(raw_of(own.get("usage"))) if isinstance(own, dict) else None


def count_loosely(choice: dict[str, Any]) -> int:
    """Characters of a choice whose members are not of the documented types.

    Text may come as an array of parts; every string under the members that count is counted.
    """
    count = 0
    for name in ("delta", "message"):
        said = choice.get(name)
        if isinstance(said, dict):
            thought = said.get("reasoning_content") or said.get("reasoning")
            count += characters_of([said.get("content"), said.get("refusal"), thought])
            calls = said.get("tool_calls")
            calls = [
                *(calls if isinstance(calls, list) else ()),
                {"function": said.get("function_call")},
            ]
            for call in calls:
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict):
                    count += characters_of([function.get("name"), function.get("arguments")])
    return count


def _length(function: Function | None) -> int:
    if function is None:
        return 0
    return len(function.name or "") + len(function.arguments or "")
