"""The members of a native-content answer that are read, as types, and its usage as numbers.

One shape serves a stream's chunk and a whole answer. How an answer is followed is `meter.py`'s
part.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from channels.json.lenient import NOTHING, length_of, raw_of, text_of
from channels.usage import TOKENS_MAX, Usage

_Count = Annotated[int, Meta(ge=0, le=TOKENS_MAX)]


class PartialArgument(Struct, rename="camel", gc=False):
    """A piece of a function's argument."""

    string_value: str | None = None
    number_value: msgspec.Raw = NOTHING
    bool_value: msgspec.Raw = NOTHING


class Call(Struct, rename="camel", gc=False):
    """A function call, or a piece of one."""

    name: str | None = None
    args: msgspec.Raw = NOTHING
    partial_args: list[PartialArgument] | None = None


class Code(Struct, gc=False):
    """Code the model wrote for a tool of the provider's."""

    code: str | None = None


class Part(Struct, rename="camel", gc=False):
    """What is said: text or a thought, a call, code; media does not count as characters."""

    text: str | None = None
    function_call: Call | None = None
    executable_code: Code | None = None

    def characters(self) -> int:
        """Characters of text, thinking and calls (contract §7: Cost of a cut call)."""
        count = 0 if self.text is None else len(self.text)
        call = self.function_call
        if call is not None:
            count += len(call.name or "") + length_of(call.args)
            for piece in call.partial_args or ():
                count += len(piece.string_value or "")
                count += length_of(piece.number_value) + length_of(piece.bool_value)
        if self.executable_code is not None:
            count += len(self.executable_code.code or "")
        return count


class Content(Struct, gc=False):
    """What a candidate says, or adds to it."""

    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the answers asked for."""

    content: Content | None = None
    finish_reason: str | None = None
    index: int | None = None


class Feedback(Struct, rename="camel", gc=False):
    """What is said of the prompt."""

    block_reason: str | None = None


class UsageMetadata(Struct, rename="camel", gc=False):
    """Token counts so far; zeros may be left out on the wire."""

    prompt_token_count: _Count | None = None
    candidates_token_count: _Count | None = None
    total_token_count: _Count | None = None
    thoughts_token_count: _Count | None = None
    tool_use_prompt_token_count: _Count | None = None
    cached_content_token_count: _Count | None = None

    def states_output(self) -> bool:
        """Whether it says what was put out, in its own count or within the total."""
        if self.candidates_token_count is not None:
            return True
        return bool(self.thoughts_token_count) or (self.total_token_count or 0) > self.taken()

    def taken(self) -> int:
        """Tokens of the input: the prompt, and what tools of the provider's fed back."""
        return (self.prompt_token_count or 0) + (self.tool_use_prompt_token_count or 0)

    def usage(self) -> Usage:
        """The counts as every dialect has them (contract §3)."""
        taken, total = self.taken(), self.total_token_count
        candidates, thoughts = self.candidates_token_count, self.thoughts_token_count or 0
        if candidates is None:
            given = max(thoughts, (total or 0) - taken)
        elif total in (taken + candidates, (self.prompt_token_count or 0) + candidates):
            given = candidates  # the thoughts are counted in already
        else:
            given = candidates + thoughts
        return Usage(
            input_tokens=taken,
            output_tokens=given,
            cached_tokens=min(self.cached_content_token_count or 0, taken),
            reasoning_tokens=min(thoughts, given),
        )


class Chunk(Struct, rename="camel", gc=False):
    """A stream's event, or a whole answer."""

    candidates: list[Candidate] | None = None
    usage_metadata: UsageMetadata | None = None
    prompt_feedback: Feedback | None = None
    error: msgspec.Raw = NOTHING
    response_id: str | None = None
    model_version: str | None = None


_USAGE = msgspec.json.Decoder(UsageMetadata)


def chunk_of(value: dict[str, Any]) -> Chunk:
    """A chunk whose members are not of the documented types, as far as they are."""
    candidates = value.get("candidates")
    feedback = value.get("promptFeedback")
    reason = text_of(feedback.get("blockReason")) if isinstance(feedback, dict) else None
    return Chunk(
        candidates=[
            _candidate_of(candidate)
            for candidate in (candidates if isinstance(candidates, list) else ())
            if isinstance(candidate, dict)
        ],
        usage_metadata=_usage_of(value.get("usageMetadata")),
        prompt_feedback=Feedback(reason),
        error=raw_of(value.get("error")),
        response_id=text_of(value.get("responseId")),
        model_version=text_of(value.get("modelVersion")),
    )


def _usage_of(value: Any) -> UsageMetadata | None:
    try:
        return None if value is None else _USAGE.decode(raw_of(value))
    except (msgspec.DecodeError, RecursionError):
        return None


def _candidate_of(value: dict[str, Any]) -> Candidate:
    content = value.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    index = value.get("index")
    return Candidate(
        content=Content([_part_of(part) for part in parts if isinstance(part, dict)])
        if isinstance(parts, list)
        else None,
        finish_reason=text_of(value.get("finishReason")),
        index=index if type(index) is int else None,
    )


def _part_of(value: dict[str, Any]) -> Part:
    call, code = value.get("functionCall"), value.get("executableCode")
    return Part(
        text=text_of(value.get("text")),
        function_call=Call(name=text_of(call.get("name")), args=raw_of(call.get("args")))
        if isinstance(call, dict)
        else None,
        executable_code=Code(text_of(code.get("code"))) if isinstance(code, dict) else None,
    )
