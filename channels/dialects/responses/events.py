"""The members of a response of the responses protocol that are read, as types.

`ResponsesEvent` is one event of a stream, `StatedResponse` a whole response, which some events
include. One type is decoded once for the meter and a translation. A documented event is decoded
into the types, which is fast; any other is decoded loosely. `response_decoder.py` makes canonical
events of it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects.loose_members import loosely
from channels.json import lenient
from channels.json.weight import is_heavy_event


class ResponsesEvent(Struct, gc=False):
    """One event of a stream. `code` and `message` are those of an `error` event."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    annotation: msgspec.Raw = lenient.NULL
    part: msgspec.Raw = lenient.NULL
    item: msgspec.Raw = lenient.NULL
    response: msgspec.Raw = lenient.NULL
    error: msgspec.Raw = lenient.NULL
    code: str | None = None
    message: str | None = None


class IncompleteDetails(Struct, gc=False):
    """Why a response is incomplete."""

    reason: str | None = None


class StatedResponse(Struct, gc=False):
    """A whole response, or its members known so far."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    incomplete_details: IncompleteDetails | None = None
    output: msgspec.Raw = lenient.NULL
    usage: msgspec.Raw = lenient.NULL
    error: msgspec.Raw = lenient.NULL
    service_tier: str | None = None
    tools: msgspec.Raw = lenient.NULL


class _CountedItem(Struct, gc=False):
    """Members of an output item that count as output, without an image's `result`."""

    type: msgspec.Raw = lenient.NULL
    content: msgspec.Raw = lenient.NULL
    summary: msgspec.Raw = lenient.NULL
    name: msgspec.Raw = lenient.NULL
    arguments: msgspec.Raw = lenient.NULL
    input: msgspec.Raw = lenient.NULL
    code: msgspec.Raw = lenient.NULL


# Decodes a documented event; raises the errors in UNREADABLE.
decode_event = msgspec.json.Decoder(ResponsesEvent).decode
_RESPONSE = msgspec.json.Decoder(StatedResponse)
ITEM = msgspec.json.Decoder(_CountedItem)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
# Events that end a stream; each has the whole response.
ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
# Some upstreams end this protocol's streams as in chat-completions.
_FOREIGN_TERMINATOR = b"[DONE]"


def read_event(data: bytes) -> ResponsesEvent | None:
    """Decode an event as far as possible; None if it is not a JSON object. Never raises.

    A terminator of another dialect is an event without type, which states nothing.
    """
    try:
        return decode_event(data)
    except lenient.UNREADABLE:
        value = None if is_heavy_event(data) else lenient.read_loosely(data)
    return (
        ResponsesEvent() if data.strip() == _FOREIGN_TERMINATOR else loosely(ResponsesEvent, value)
    )


def read_response(data: bytes | msgspec.Raw, *, mends: bool = True) -> StatedResponse | None:
    """Decode a response, also an undocumented one if `mends`; None on failure."""
    try:
        return _RESPONSE.decode(data)
    except lenient.UNREADABLE:
        return loosely(StatedResponse, lenient.read_loosely(bytes(data))) if mends else None


def object_of(raw: msgspec.Raw) -> dict[str, Any]:
    """Return the object in a member; empty without one."""
    value = None if raw is lenient.NULL else lenient.read_json(bytes(raw))
    return value if isinstance(value, dict) else {}


def items_in(output: msgspec.Raw) -> list[msgspec.Raw]:
    """Return the items of an output; what is no object is none."""
    try:
        items = _ITEMS.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [item for item in items if bytes(memoryview(item)[:1]) == b"{"]
