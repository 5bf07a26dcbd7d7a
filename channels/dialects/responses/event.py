"""The members of a responses answer that are read, as types.

`Event` is one event of a stream, `Response` a whole response, which some events carry. One shape
and one reading serve both the meter and a translation. The ordinary event is read through the
types, which is fast; one that is not as documented is read loosely. What an event means is the part
of `meter.py` and `stream_decoder.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.json.lenient import NOTHING, characters_of, length_of, raw_of, read_loosely, text_of
from channels.json.text import UNREADABLE, read_json


class Event(Struct, gc=False):
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
    annotation: msgspec.Raw = NOTHING
    part: msgspec.Raw = NOTHING
    item: msgspec.Raw = NOTHING
    response: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    code: str | None = None
    message: str | None = None


class Details(Struct, gc=False):
    """Why a response is not complete."""

    reason: str | None = None


class Response(Struct, gc=False):
    """A whole response, or what is known of it so far."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    incomplete_details: Details | None = None
    output: msgspec.Raw = NOTHING
    usage: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class _Item(Struct, gc=False):
    """Members of an output item that count as output; an image's `result` is not among them."""

    content: msgspec.Raw = NOTHING
    summary: msgspec.Raw = NOTHING
    name: msgspec.Raw = NOTHING
    arguments: msgspec.Raw = NOTHING
    input: msgspec.Raw = NOTHING
    code: msgspec.Raw = NOTHING


# Reads an event that is as documented; raises what is UNREADABLE.
decode_event = msgspec.json.Decoder(Event).decode
_RESPONSE = msgspec.json.Decoder(Response)
_ITEM = msgspec.json.Decoder(_Item)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXTS = ("delta", "item_id", "text", "refusal", "arguments", "code", "message")
_INDICES = ("output_index", "content_index", "summary_index")
_VALUES = ("annotation", "part", "item", "response", "error")
# Events that end a stream; each carries the whole response.
ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
# Some upstreams close this protocol as they would chat-completions.
_FOREIGN_TERMINATOR = b"[DONE]"


def read_event(data: bytes) -> Event | None:
    """An event, as far as it can be read; None when it is no JSON object. Never raises.

    A terminator of another dialect is an event of no type, which says nothing.
    """
    try:
        return decode_event(data)
    except UNREADABLE:
        value = read_loosely(data)
    if isinstance(value, dict):
        return _loose_event(value)
    return Event() if data.strip() == _FOREIGN_TERMINATOR else None


def read_response(data: bytes | msgspec.Raw) -> Response | None:
    """A response's members, loosely where need be; None when it is no JSON object."""
    try:
        return _RESPONSE.decode(data)
    except UNREADABLE:
        value = read_loosely(bytes(data))
    if not isinstance(value, dict):
        return None
    details = value.get("incomplete_details")
    reason = text_of(details.get("reason")) if isinstance(details, dict) else None
    return Response(
        id=text_of(value.get("id")),
        model=text_of(value.get("model")),
        status=text_of(value.get("status")),
        incomplete_details=Details(reason),
        output=raw_of(value.get("output")),
        usage=raw_of(value.get("usage")),
        error=raw_of(value.get("error")),
    )


def object_of(raw: msgspec.Raw) -> dict[str, Any]:
    """The object in a member; empty when there is none."""
    value = None if raw is NOTHING else read_json(bytes(raw))
    return value if isinstance(value, dict) else {}


def item_characters(item: msgspec.Raw) -> int:
    """Characters of an output item: text, refusal, thinking, a call's name and arguments."""
    try:
        fields = _ITEM.decode(item)
    except (msgspec.DecodeError, RecursionError):
        return 0
    count = sum(map(length_of, (fields.name, fields.arguments, fields.input, fields.code)))
    for parts in (fields.content, fields.summary):
        if parts is not NOTHING:
            count += characters_of(read_loosely(bytes(parts)))
    return count


def output_characters(output: msgspec.Raw) -> int:
    """Characters of all items of a whole response."""
    try:
        items = _ITEMS.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(map(item_characters, items))


def _loose_event(value: dict[str, Any]) -> Event:
    """An event whose members are not of the documented types, as far as they are."""
    members: dict[str, Any] = {name: text_of(value.get(name)) for name in _TEXTS}
    members.update((name, raw_of(value.get(name))) for name in _VALUES)
    for name in _INDICES:
        index = value.get(name)
        members[name] = index if type(index) is int else None
    return Event(type=text_of(value.get("type")) or "", **members)
