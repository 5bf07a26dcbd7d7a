"""The members of a messages answer that are read, as types.

`Event` is one event of a stream, `Message` a whole response, which `message_start` begins. One
shape and one reading serve both the meter and a translation. The ordinary event is read through the
types, which is fast; one that is not as documented is read loosely. What an event means is the part
of `meter.py` and `stream_decoder.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.json.lenient import NOTHING, length_of, raw_of, read_loosely, text_of
from channels.json.text import UNREADABLE


class Delta(Struct, gc=False):
    """What is added to a block, or said of the message as a whole."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: msgspec.Raw = NOTHING


class Event(Struct, gc=False):
    """One event of a stream."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    usage: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING
    content_block: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class Message(Struct, gc=False):
    """A whole response, or what is known of it at its start."""

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


# Reads an event that is as documented; raises what is UNREADABLE.
decode_event = msgspec.json.Decoder(Event).decode
_MESSAGE = msgspec.json.Decoder(Message)
_BLOCK = msgspec.json.Decoder(_Block)
_BLOCKS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXTS = ("text", "partial_json", "thinking", "signature", "stop_reason", "stop_sequence")


def read_event(data: bytes) -> Event | None:
    """An event, as far as it can be read; None when it is no JSON object. Never raises."""
    try:
        return decode_event(data)
    except UNREADABLE:
        value = read_loosely(data)
        return _loose_event(value) if isinstance(value, dict) else None


def read_message(data: bytes | msgspec.Raw) -> Message | None:
    """A whole response, or what a `message_start` holds of it; as `read_event`."""
    try:
        return _MESSAGE.decode(data)
    except UNREADABLE:
        value = read_loosely(bytes(data))
    if not isinstance(value, dict):
        return None
    return Message(
        id=text_of(value.get("id")),
        model=text_of(value.get("model")),
        stop_reason=text_of(value.get("stop_reason")),
        content=raw_of(value.get("content")),
        usage=raw_of(value.get("usage")),
        error=raw_of(value.get("error")),
    )


def block_characters(block: msgspec.Raw) -> int:
    """Characters of a content block: text, thinking, a call's name and arguments."""
    try:
        fields = _BLOCK.decode(block)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return (
        length_of(fields.text)
        + length_of(fields.thinking)
        + length_of(fields.name)
        + length_of(fields.input)
    )


def content_characters(content: msgspec.Raw) -> int:
    """Characters of all blocks of a whole response."""
    try:
        blocks = _BLOCKS.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(map(block_characters, blocks))


def _loose_event(value: dict[str, Any]) -> Event:
    """An event that is not as documented, as far as it can be read."""
    index, delta = value.get("index"), value.get("delta")
    return Event(
        type=text_of(value.get("type")) or "",
        index=index if isinstance(index, int) else None,
        delta=_loose_delta(delta) if isinstance(delta, dict) else None,
        usage=raw_of(value.get("usage")),
        message=raw_of(value.get("message")),
        content_block=raw_of(value.get("content_block")),
        error=raw_of(value.get("error")),
    )


def _loose_delta(delta: dict[str, Any]) -> Delta:
    texts = {name: text_of(delta.get(name)) for name in _TEXTS}
    return Delta(**texts, stop_details=raw_of(delta.get("stop_details")))
