"""The members of a gemini response that the gateway parses, as types.

A stream's chunk and a whole response have the same form, and the meter and translations share one
decoding. A documented chunk is decoded by the types, which is fast; any other loosely, part by
part. `response_decoder.py` makes canonical events of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects.gemini.usage import UsageMetadata, named_otherwise
from channels.dialects.loose_members import loosely
from channels.dialects.usage import UsageType
from channels.json import lenient
from channels.json.weight import is_heavy_event

# Some upstreams end this protocol's streams like those of chat-completions.
_FOREIGN_TERMINATOR = b"[DONE]"


class PartialArgument(Struct, rename="camel", gc=False):
    """A piece of an argument: its path, and its value or the next piece of its text."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: msgspec.Raw = lenient.NULL
    bool_value: msgspec.Raw = lenient.NULL
    will_continue: bool | None = None


class ChunkCall(Struct, rename="camel", gc=False):
    """A function call, or a piece of one."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = lenient.NULL
    partial_args: list[PartialArgument] | None = None
    will_continue: bool | None = None


class ChunkPart(Struct, rename="camel", gc=False):
    """One part of the content: text or a thought, a call, media, code and its outcome."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: ChunkCall | None = None
    inline_data: msgspec.Raw = lenient.NULL
    file_data: msgspec.Raw = lenient.NULL
    executable_code: msgspec.Raw = lenient.NULL
    code_execution_result: msgspec.Raw = lenient.NULL

    def characters(self) -> int:
        """Characters of text, thinking, calls and code (reference 5.6)."""
        count = 0 if self.text is None else len(self.text)
        call = self.function_call
        if call is not None:
            count += len(call.name or "") + lenient.length_of(call.args)
            for piece in call.partial_args or ():
                count += len(piece.string_value or "")
                count += lenient.length_of(piece.number_value) + lenient.length_of(piece.bool_value)
        if self.executable_code is not lenient.NULL:
            code = object_of(self.executable_code)
            count += len((None if code is None else lenient.text_of(code.get("code"))) or "")
        return count


class ChunkContent(Struct, gc=False):
    """The content of a candidate, or an addition to it."""

    parts: list[ChunkPart] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the responses requested."""

    content: ChunkContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None
    grounding_metadata: msgspec.Raw = lenient.NULL


class Feedback(Struct, rename="camel", gc=False):
    """The feedback on the prompt."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class GeminiChunk(Struct, rename="camel", gc=False):
    """A stream's event, or a whole response."""

    candidates: list[Candidate] | None = None
    usage_metadata: UsageMetadata | None = None
    usage: msgspec.Raw = lenient.NULL  # of gateways, by the names of OpenAI
    prompt_feedback: Feedback | None = None
    error: msgspec.Raw = lenient.NULL
    response_id: str | None = None
    model_version: str | None = None

    def stated_usage(self) -> UsageMetadata | None:
        """Return the usage, as the protocol or else as OpenAI's protocols state it."""
        own = self.usage_metadata
        if self.usage is lenient.NULL or (own is not None and own.counts_anything()):
            return own
        return named_otherwise(self.usage) or own


class LooseGeminiChunk(GeminiChunk, gc=False):
    """An undocumented chunk, as far as its members can be decoded.

    `is_usage_unreadable`: a part of the usage is.
    """

    is_usage_unreadable: bool = False


# Decodes a documented chunk; raises the errors in UNREADABLE.
decode_chunk = msgspec.json.Decoder(GeminiChunk).decode
_USAGE = UsageType(UsageMetadata)


def read_chunks(data: bytes, *, mends: bool = True) -> Sequence[GeminiChunk] | None:
    """Return the chunk, or those of an array, as far as they can be decoded.

    Empty for a terminator; None for anything else. Never raises.
    """
    try:
        return (decode_chunk(data),)
    except lenient.UNREADABLE:
        value = lenient.read_loosely(data, mends=mends)
    values = value if isinstance(value, list) else [value]
    chunks = [_loose_chunk(one) for one in values if isinstance(one, dict)]
    return chunks if chunks or data.strip() == _FOREIGN_TERMINATOR else None


def read_event(data: bytes) -> Sequence[GeminiChunk] | None:
    """Decode one event's data, as `read_chunks`; None also if it is undocumented and heavy."""
    try:
        return (decode_chunk(data),)
    except lenient.UNREADABLE:
        return None if is_heavy_event(data) else read_chunks(data)


def object_of(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Return the object in a member; None if there is none."""
    value = None if raw is lenient.NULL else lenient.read_json(bytes(raw))
    return value if isinstance(value, dict) else None


def _loose_chunk(value: dict[str, Any]) -> GeminiChunk:
    try:
        return decode_chunk(lenient.raw_of(value))
    except lenient.UNREADABLE:
        pass
    stated = value.get("usageMetadata")
    chunk = loosely(LooseGeminiChunk, {**value, "usageMetadata": None})
    assert chunk is not None
    if stated is not None:
        chunk.usage_metadata, is_whole = _USAGE.read(lenient.raw_of(stated))
        chunk.is_usage_unreadable = not is_whole
    return chunk
