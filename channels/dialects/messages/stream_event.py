"""The members of a messages event that a translation reads, as types.

The ordinary event is read through the types, which is fast; one that is not as documented is read
loosely. What an event means is `stream_decoder.py`'s part.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.json.lenient import NOTHING, raw_of, read_loosely, text_of
from channels.json.text import UNREADABLE


class Delta(Struct, gc=False):
    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: msgspec.Raw = NOTHING


class WireEvent(Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: Delta | None = None
    usage: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING
    content_block: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class Start(Struct, gc=False):
    """The message that a stream begins with, as far as it is said again."""

    id: str | None = None
    model: str | None = None
    usage: msgspec.Raw = NOTHING


_DECODER = msgspec.json.Decoder(WireEvent)
_START = msgspec.json.Decoder(Start)


def read_event(data: bytes) -> WireEvent | None:
    """An event, as far as it can be read; None when it is no JSON object. Never raises."""
    try:
        return _DECODER.decode(data)
    except UNREADABLE:
        value = read_loosely(data)
        return _loose_event(value) if isinstance(value, dict) else None


def read_start(raw: msgspec.Raw) -> Start:
    """What a `message_start` says, as far as it can be read. Never raises."""
    try:
        return _START.decode(raw)
    except UNREADABLE:
        value = read_loosely(bytes(raw))
        if not isinstance(value, dict):
            return Start()
        return Start(
            text_of(value.get("id")),
            text_of(value.get("model")),
            raw_of(value.get("usage")),
        )


def _loose_event(value: dict[str, Any]) -> WireEvent:
    """An event that is not as documented, as far as it can be read."""
    index = value.get("index")
    stated = value.get("delta")
    delta = None
    if isinstance(stated, dict):
        names = ("text", "partial_json", "thinking", "signature", "stop_reason", "stop_sequence")
        delta = Delta(
            type=text_of(stated.get("type")) or "",
            stop_details=raw_of(stated.get("stop_details")),
            **{name: text_of(stated.get(name)) for name in names},
        )
    return WireEvent(
        type=text_of(value.get("type")) or "",
        index=index if isinstance(index, int) else 0,
        delta=delta,
        usage=raw_of(value.get("usage")),
        message=raw_of(value.get("message")),
        content_block=raw_of(value.get("content_block")),
        error=raw_of(value.get("error")),
    )
