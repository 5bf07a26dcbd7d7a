"""A native-content answer or a chunk of one as types, for what a translation reads of it.

The ordinary chunk is read through the types, which is fast; one that is not as documented is read
loosely, part by part. What the meters read is `channels/dialects/gemini/chunk.py`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from channels.json.lenient import NOTHING, raw_of, read_loosely, text_of
from channels.json.text import UNREADABLE


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
    """One part of what is said."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: Call | None = None
    inline_data: dict[str, Any] | None = None
    file_data: dict[str, Any] | None = None
    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None


class Content(Struct, gc=False):
    """What a candidate says, or adds to it."""

    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the answers asked for."""

    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None


class Feedback(Struct, rename="camel", gc=False):
    """What is said of the prompt."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class Chunk(Struct, rename="camel", gc=False):
    """A stream's event, or a whole answer."""

    candidates: list[Candidate] | None = None
    prompt_feedback: Feedback | None = None
    usage_metadata: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    response_id: str | None = None
    model_version: str | None = None


_T = TypeVar("_T")

_CHUNK = msgspec.json.Decoder(Chunk)
_CANDIDATE = msgspec.json.Decoder(Candidate)
_FEEDBACK = msgspec.json.Decoder(Feedback)
_PART = msgspec.json.Decoder(Part)


def read_chunks(data: bytes) -> list[Chunk]:
    """The chunk that some JSON text is, or those of an array; none when it is neither."""
    try:
        return [_CHUNK.decode(data)]
    except UNREADABLE:
        value = read_loosely(data)
    values = value if isinstance(value, list) else [value]
    return [_chunk_of(one) for one in values if isinstance(one, dict)]


def _chunk_of(value: dict[str, Any]) -> Chunk:
    try:
        return _CHUNK.decode(raw_of(value))
    except UNREADABLE:
        pass
    candidates = value.get("candidates")
    return Chunk(
        candidates=[_candidate_of(one) for one in candidates if isinstance(one, dict)]
        if isinstance(candidates, list)
        else None,
        prompt_feedback=_read(_FEEDBACK, value.get("promptFeedback")),
        usage_metadata=raw_of(value.get("usageMetadata")),
        error=raw_of(value.get("error")),
        response_id=text_of(value.get("responseId")),
        model_version=text_of(value.get("modelVersion")),
    )


def _candidate_of(value: dict[str, Any]) -> Candidate:
    read = _read(_CANDIDATE, value)
    if read is not None:
        return read
    content, index = value.get("content"), value.get("index")
    parts = content.get("parts") if isinstance(content, dict) else None
    return Candidate(
        content=Content([_part_of(one) for one in parts if isinstance(one, dict)])
        if isinstance(parts, list)
        else None,
        finish_reason=text_of(value.get("finishReason")),
        finish_message=text_of(value.get("finishMessage")),
        index=index if type(index) is int else None,
    )


def _part_of(value: dict[str, Any]) -> Part:
    read = _read(_PART, value)
    if read is not None:
        return read
    call, inline = value.get("functionCall"), value.get("inlineData")
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
        inline_data=inline if isinstance(inline, dict) else None,
    )


def _read(decoder: msgspec.json.Decoder[_T], value: Any) -> _T | None:
    if value is None:
        return None
    try:
        return decoder.decode(raw_of(value))
    except UNREADABLE:
        return None
