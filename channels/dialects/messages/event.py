"""The members of a messages answer that are read, as types, and its usage as counts.

`Event` is one event of a stream, `Message` a whole answer, which `message_start` begins. How an
answer is followed is `meter.py`'s part.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import Struct

from channels.json.lenient import NOTHING, length_of
from channels.usage import Tokens


class Delta(Struct, gc=False):
    """What is added to a block, or said of the message as a whole."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    stop_reason: str | None = None


class Event(Struct, gc=False):
    """One event of a stream."""

    type: str = ""
    delta: Delta | None = None
    usage: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING
    content_block: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class Message(Struct, gc=False):
    """A whole answer, or what is known of it at its start."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    content: msgspec.Raw = NOTHING
    usage: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class _Block(Struct, gc=False):
    """Members of a block that count as output; an encrypted or looked-up one has none of them."""

    text: msgspec.Raw = NOTHING
    thinking: msgspec.Raw = NOTHING
    name: msgspec.Raw = NOTHING
    input: msgspec.Raw = NOTHING


class _Written(Struct, gc=False):
    ephemeral_5m_input_tokens: Tokens | None = None
    ephemeral_1h_input_tokens: Tokens | None = None


class _Thought(Struct, gc=False):
    thinking_tokens: Tokens | None = None


class _Usage(Struct, gc=False):
    input_tokens: Tokens | None = None
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None
    cache_creation: _Written | None = None
    output_tokens: Tokens | None = None
    output_tokens_details: _Thought | None = None


_USAGE = msgspec.json.Decoder(_Usage)
_BLOCK = msgspec.json.Decoder(_Block)
_BLOCKS = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of one usage member; None is what it does not state.

    `fresh` is the input beside what was read from a cache and `written` to one.
    """

    fresh: int | None
    read: int | None
    written: int | None
    output: int | None
    thought: int | None


def read_counts(usage: msgspec.Raw) -> Counts | None:
    """Numbers of a usage member; None when one of them is no whole number, or below zero."""
    try:
        stated = _USAGE.decode(usage)
    except (msgspec.DecodeError, RecursionError):
        return None
    written = stated.cache_creation_input_tokens
    if written is None and (parts := stated.cache_creation) is not None:
        written = (parts.ephemeral_5m_input_tokens or 0) + (parts.ephemeral_1h_input_tokens or 0)
    details = stated.output_tokens_details
    counts = Counts(
        fresh=stated.input_tokens,
        read=stated.cache_read_input_tokens,
        written=written,
        output=stated.output_tokens,
        thought=details.thinking_tokens if details else None,
    )
    numbers = (counts.fresh, counts.read, counts.written, counts.output, counts.thought)
    return None if any(number is not None and number < 0 for number in numbers) else counts


def block_characters(block: msgspec.Raw) -> int:
    """Characters of a content block: text, thinking, a call's name and arguments."""
    try:
        said = _BLOCK.decode(block)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return (
        length_of(said.text)
        + length_of(said.thinking)
        + length_of(said.name)
        + length_of(said.input)
    )


def content_characters(content: msgspec.Raw) -> int:
    """Characters of all blocks of a whole answer."""
    try:
        blocks = _BLOCKS.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(map(block_characters, blocks))
