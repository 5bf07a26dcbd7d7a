"""The members of a gemini response that are read, as types.

One shape serves a stream's chunk and a whole response, and one reading both the meter and a
translation. The ordinary chunk is read through the types, which is fast; one that is not as
documented is read loosely, part by part. What a chunk means is the part of `meter.py` and
`stream_decoder.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from channels.json.lenient import NOTHING, length_of, raw_of, read_loosely, text_of
from channels.json.text import UNREADABLE, read_json
from channels.usage import TOKENS_MAX, Usage

_Count = Annotated[int, Meta(ge=0, le=TOKENS_MAX)]
# Some upstreams close this protocol as they would chat-completions.
_FOREIGN_TERMINATOR = b"[DONE]"


class PartialArgument(Struct, rename="camel", gc=False):
    """A piece of an argument: where it stands, and its value or the next piece of its text."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: msgspec.Raw = NOTHING
    bool_value: msgspec.Raw = NOTHING
    will_continue: bool | None = None


class Call(Struct, rename="camel", gc=False):
    """A function call, or a piece of one."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NOTHING
    partial_args: list[PartialArgument] | None = None
    will_continue: bool | None = None


class Part(Struct, rename="camel", gc=False):
    """One part of what is said: text or a thought, a call, media, code and what came of it."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: Call | None = None
    inline_data: msgspec.Raw = NOTHING
    file_data: msgspec.Raw = NOTHING
    executable_code: msgspec.Raw = NOTHING
    code_execution_result: msgspec.Raw = NOTHING

    def characters(self) -> int:
        """Characters of text, thinking, calls and code (contract §7: Cost of a cut call)."""
        count = 0 if self.text is None else len(self.text)
        call = self.function_call
        if call is not None:
            count += len(call.name or "") + length_of(call.args)
            for piece in call.partial_args or ():
                count += len(piece.string_value or "")
                count += length_of(piece.number_value) + length_of(piece.bool_value)
        if self.executable_code is not NOTHING:
            code = object_of(self.executable_code)
            count += len((None if code is None else text_of(code.get("code"))) or "")
        return count


class Content(Struct, gc=False):
    """What a candidate says, or adds to it."""

    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the responses asked for."""

    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None


class Feedback(Struct, rename="camel", gc=False):
    """What is said of the prompt."""

    block_reason: str | None = None
    block_reason_message: str | None = None


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
    """A stream's event, or a whole response."""

    candidates: list[Candidate] | None = None
    usage_metadata: UsageMetadata | None = None
    prompt_feedback: Feedback | None = None
    error: msgspec.Raw = NOTHING
    response_id: str | None = None
    model_version: str | None = None


class LooseChunk(Chunk, gc=False):
    """A chunk whose members are not of the documented types, as far as they are."""

    is_usage_unreadable: bool = False


_T = TypeVar("_T")

# Reads a chunk that is as documented; raises what is UNREADABLE.
decode_chunk = msgspec.json.Decoder(Chunk).decode
_CANDIDATE = msgspec.json.Decoder(Candidate)
_FEEDBACK = msgspec.json.Decoder(Feedback)
_PART = msgspec.json.Decoder(Part)
_USAGE = msgspec.json.Decoder(UsageMetadata)


def read_chunks(data: bytes, *, mends: bool = True) -> Sequence[Chunk] | None:
    """The chunk that some JSON text is, or those of an array, as far as they can be read.

    None when it is neither, nor a terminator, which holds none. Never raises.
    """
    try:
        return (decode_chunk(data),)
    except UNREADABLE:
        value = read_loosely(data, mends=mends)
    values = value if isinstance(value, list) else [value]
    chunks = [_loose_chunk(one) for one in values if isinstance(one, dict)]
    return chunks if chunks or data.strip() == _FOREIGN_TERMINATOR else None


def object_of(raw: msgspec.Raw) -> dict[str, Any] | None:
    """The object in a member; None when there is none."""
    value = None if raw is NOTHING else read_json(bytes(raw))
    return value if isinstance(value, dict) else None


def _loose_chunk(value: dict[str, Any]) -> Chunk:
    try:
        return decode_chunk(raw_of(value))
    except UNREADABLE:
        pass
    candidates, stated = value.get("candidates"), value.get("usageMetadata")
    usage = _read(_USAGE, stated)
    return LooseChunk(
        candidates=[_loose_candidate(one) for one in candidates if isinstance(one, dict)]
        if isinstance(candidates, list)
        else None,
        prompt_feedback=_loose_feedback(value.get("promptFeedback")),
        usage_metadata=usage,
        error=raw_of(value.get("error")),
        response_id=text_of(value.get("responseId")),
        model_version=text_of(value.get("modelVersion")),
        is_usage_unreadable=usage is None and stated is not None,
    )


def _loose_feedback(value: Any) -> Feedback | None:
    read = _read(_FEEDBACK, value)
    if read is not None or not isinstance(value, dict):
        return read
    return Feedback(text_of(value.get("blockReason")), text_of(value.get("blockReasonMessage")))


def _loose_candidate(value: dict[str, Any]) -> Candidate:
    read = _read(_CANDIDATE, value)
    if read is not None:
        return read
    content, index = value.get("content"), value.get("index")
    parts = content.get("parts") if isinstance(content, dict) else None
    return Candidate(
        content=Content([_loose_part(one) for one in parts if isinstance(one, dict)])
        if isinstance(parts, list)
        else None,
        finish_reason=text_of(value.get("finishReason")),
        finish_message=text_of(value.get("finishMessage")),
        index=index if type(index) is int else None,
    )


def _loose_part(value: dict[str, Any]) -> Part:
    read = _read(_PART, value)
    if read is not None:
        return read
    call = value.get("functionCall")
    return Part(
        text=text_of(value.get("text")),
        thought=value.get("thought") is True,
        thought_signature=text_of(value.get("thoughtSignature")),
        function_call=Call(
            id=text_of(call.get("id")),
            name=text_of(call.get("name")),
            args=raw_of(call.get("args")),
        )
        if isinstance(call, dict)
        else None,
        inline_data=raw_of(value.get("inlineData")),
        executable_code=raw_of(value.get("executableCode")),
    )


def _read(decoder: msgspec.json.Decoder[_T], value: Any) -> _T | None:
    if value is None:
        return None
    try:
        return decoder.decode(raw_of(value))
    except UNREADABLE:
        return None
