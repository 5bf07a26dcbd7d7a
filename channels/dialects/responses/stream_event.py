"""The members of a responses event that a translation reads, as types.

The ordinary event is read through the types, which is fast; one that is not as documented is read
loosely. What an event means is `stream_decoder.py`'s part.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.json.lenient import NOTHING, raw_of, read_loosely, text_of
from channels.json.text import UNREADABLE, read_json


class WireEvent(Struct, gc=False):
    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    annotation: msgspec.Raw = NOTHING
    part: msgspec.Raw = NOTHING
    item: msgspec.Raw = NOTHING
    response: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    code: str | None = None
    message: str | None = None


_DECODER = msgspec.json.Decoder(WireEvent)
_TEXTS = ("delta", "item_id", "text", "refusal", "arguments", "code", "message")
_INDICES = ("output_index", "content_index", "summary_index")
_VALUES = ("annotation", "part", "item", "response", "error")


def read_event(data: bytes) -> WireEvent | None:
    """An event, as far as it can be read; None when it is no JSON object. Never raises."""
    try:
        return _DECODER.decode(data)
    except UNREADABLE:
        value = read_loosely(data)
        return _loose_event(value) if isinstance(value, dict) else None


def object_of(raw: msgspec.Raw) -> dict[str, Any]:
    """The object in a member; empty when there is none."""
    value = None if raw is NOTHING else read_json(bytes(raw))
    return value if isinstance(value, dict) else {}


def _loose_event(value: dict[str, Any]) -> WireEvent:
    members: dict[str, Any] = {name: text_of(value.get(name)) for name in _TEXTS}
    members.update((name, raw_of(value.get(name))) for name in _VALUES)
    for name in _INDICES:
        index = value.get(name)
        members[name] = index if type(index) is int else None
    return WireEvent(type=text_of(value.get("type")) or "", **members)
