"""The members of a chat-completions chunk that a translation reads, as types.

The ordinary chunk is read through the types, which is fast; one that is not as documented is read
loosely. What a chunk means is `stream_decoder.py`'s part.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects.chat.chunk import GroqMember, groq_member
from channels.dialects.chat.content import read_content
from channels.dialects.chat.thinking import text_in_content
from channels.json.lenient import NOTHING, raw_of, read_loosely, text_of
from channels.json.text import UNREADABLE
from channels.translation.model import Refusal, Text


class Delta(Struct, gc=False):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: msgspec.Raw = NOTHING
    tool_calls: msgspec.Raw = NOTHING
    function_call: msgspec.Raw = NOTHING
    images: msgspec.Raw = NOTHING


class Choice(Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    finish_reason: str | None = None
    usage: msgspec.Raw = NOTHING


class Chunk(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    x_groq: GroqMember | None = None


_DECODER = msgspec.json.Decoder(Chunk)


def read_chunk(data: bytes) -> Chunk | None:
    """A chunk, as far as it can be read; None when it is no JSON object. Never raises."""
    try:
        return _DECODER.decode(data)
    except UNREADABLE:
        value = read_loosely(data)
        return _loose_chunk(value) if isinstance(value, dict) else None


def _loose_chunk(value: dict[str, Any]) -> Chunk:
    """A chunk that is not as documented, as far as it can be read."""
    choices = []
    stated = value.get("choices")
    for choice in stated if isinstance(stated, list) else ():
        if isinstance(choice, dict):
            index = choice.get("index")
            delta = choice.get("delta")
            choices.append(
                Choice(
                    index=index if isinstance(index, int) else 0,
                    delta=_loose_delta(delta) if isinstance(delta, dict) else None,
                    finish_reason=text_of(choice.get("finish_reason")),
                    usage=raw_of(choice.get("usage")),
                )
            )
    return Chunk(
        id=text_of(value.get("id")),
        model=text_of(value.get("model")),
        choices=choices if isinstance(stated, list) else None,
        usage=raw_of(value.get("usage")),
        error=raw_of(value.get("error")),
        x_groq=groq_member(value),
    )


def _loose_delta(delta: dict[str, Any]) -> Delta:
    content = delta.get("content")
    thought = text_of(delta.get("reasoning_content")) or text_of(delta.get("reasoning"))
    if isinstance(content, list):
        # Some upstreams send parts where the protocol has a string.
        thought = thought or text_in_content(content)
        parts = read_content(content, {})
        content = "".join(part.text for part in parts if isinstance(part, Text | Refusal))
    return Delta(
        content=text_of(content),
        refusal=text_of(delta.get("refusal")),
        reasoning_content=thought,
        reasoning_details=raw_of(delta.get("reasoning_details")),
        tool_calls=raw_of(delta.get("tool_calls")),
        function_call=raw_of(delta.get("function_call")),
        images=raw_of(delta.get("images")),
    )
