"""The members of a responses answer that are read, as types.

`Event` is one event of a stream, `Response` a whole response, which some events carry. One shape
and one reading serve both the meter and a translation. The ordinary event is read through the
types, which is fast; one that is not as documented is read loosely. `stream.py` makes
canonical events of it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from channels.dialects.meter import ResponseMeter, Tokens, Usage, fit_name, usage_of
from channels.errors import UpstreamMalformed
from channels.json import (
    NULL,
    UNREADABLE,
    characters_of,
    is_heavy_event,
    is_stated,
    length_of,
    raw_of,
    read_json,
    read_loosely,
    text_of,
)


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
    annotation: msgspec.Raw = NULL
    part: msgspec.Raw = NULL
    item: msgspec.Raw = NULL
    response: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
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
    output: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL
    error: msgspec.Raw = NULL


class _Item(Struct, gc=False):
    """Members of an output item that count as output; an image's `result` is not among them."""

    content: msgspec.Raw = NULL
    summary: msgspec.Raw = NULL
    name: msgspec.Raw = NULL
    arguments: msgspec.Raw = NULL
    input: msgspec.Raw = NULL
    code: msgspec.Raw = NULL


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

    A terminator of another dialect is an event of no type, which states nothing.
    """
    try:
        return decode_event(data)
    except UNREADABLE:
        value = read_loosely(data)
    if isinstance(value, dict):
        return _loose_event(value)
    return Event() if data.strip() == _FOREIGN_TERMINATOR else None


def read_response(data: bytes | msgspec.Raw, *, loosely: bool = True) -> Response | None:
    """A response's members, where need be `loosely`; None when it cannot be read so."""
    try:
        return _RESPONSE.decode(data)
    except UNREADABLE:
        value = read_loosely(bytes(data)) if loosely else None
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
    value = None if raw is NULL else read_json(bytes(raw))
    return value if isinstance(value, dict) else {}


def item_characters(item: msgspec.Raw) -> int:
    """Characters of an output item: text, refusal, thinking, a call's name and arguments."""
    try:
        fields = _ITEM.decode(item)
    except (msgspec.DecodeError, RecursionError):
        return 0
    count = sum(map(length_of, (fields.name, fields.arguments, fields.input, fields.code)))
    for parts in (fields.content, fields.summary):
        if parts is not NULL:
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


# Token counts of the responses protocol: read once, for money and display.
#
# `input_tokens` is the whole input, cached parts included; `output_tokens` includes reasoning.


class _InputDetails(Struct, gc=False):
    cached_tokens: Tokens | None = None
    cache_write_tokens: Tokens | None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: Tokens | None = None


class _Usage(Struct, gc=False):
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


_USAGE = msgspec.json.Decoder(_Usage)


class UsageReader:
    """The usage of one response so far: what is stated last counts."""

    __slots__ = ("usage",)

    def __init__(self) -> None:
        self.usage: Usage | None = None

    def __repr__(self) -> str:
        return f"<UsageReader {self.usage}>"

    def take(self, response: Response) -> bool:
        """Take what a response states. False where its counts cannot be read."""
        if not is_stated(response.usage):
            return True
        usage = read_usage(response.usage)
        self.usage = usage or self.usage
        return usage is not None


def read_usage(usage: msgspec.Raw) -> Usage | None:
    """Numbers of a `usage` member; None when they are not whole, not there, or below zero."""
    try:
        stated = _USAGE.decode(usage)
    except (msgspec.DecodeError, RecursionError):
        return None
    details, output_details = stated.input_tokens_details, stated.output_tokens_details
    return usage_of(
        input_tokens=stated.input_tokens,
        output_tokens=stated.output_tokens,
        total_tokens=stated.total_tokens,
        cached_tokens=(details.cached_tokens if details else None) or 0,
        cache_write_tokens=(details.cache_write_tokens if details else None) or 0,
        reasoning_tokens=(output_details.reasoning_tokens if output_details else None) or 0,
    )


# Read a responses answer as it passes: usage, characters, how it ended.
#
# The bytes themselves are the caller's; nothing here changes or delays them. An event that cannot
# be read is passed on and counted in `malformed_events`: it must not end a stream.
#
# The content of an item comes several times: in deltas, in the `done` events of its parts, in the
# item when it is done, and once more in the whole response at the end. Deltas are counted as they
# pass; the item and the response only add what no delta has carried, as some upstreams send whole
# items.

# Deltas are text, but for these.
_SOUND = frozenset(("response.audio.delta", "response.output_audio.delta"))


class ResponsesMeter(ResponseMeter[Event, Event]):
    """Follows one response. `finished`: its last event was seen, or it came whole.

    `finish_reason` is the status of the response, or why it is not complete.
    """

    __slots__ = ("_counted", "_stated")

    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")
    # The last event repeats the response with its tools and the probabilities of its tokens: what
    # is charged is read of it, its texts are passed over where they are in too many values.
    reads_any_size: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        # Characters counted of each item that is not done, by its index in the output.
        self._counted: dict[int | None, int] = {}
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    _decode = staticmethod(decode_event)
    read = staticmethod(read_event)

    def body(self, body: bytes) -> None:
        """Read a whole response. Raises UpstreamMalformed when it is not a JSON object."""
        response = read_response(body)
        if response is None:
            raise UpstreamMalformed("not a JSON object")
        self._take_response(response)
        self._end(response)

    def _take(self, event: Event) -> bool:
        if event.delta is not None and event.type not in _SOUND:
            counted, index = self._counted, event.output_index
            characters = len(event.delta)
            self.characters += characters
            counted[index] = counted.get(index, 0) + characters
            return True
        if event.item is not NULL:
            self._take_item(event)
        if event.error is not NULL:
            self._note_error(event.error)
        elif event.type == "error":
            self._note_error(raw_of({"code": event.code, "message": event.message}))
        is_end = event.type in ENDS
        if event.response is not NULL and (is_end or self.response_id is None):
            is_heavy = is_heavy_event(bytes(event.response))
            response = read_response(event.response, loosely=not is_heavy)
            if response is None:
                self.malformed_events += 1
            else:
                if is_heavy:
                    response.output = NULL
                self._take_response(response)
                if is_end:
                    self._end(response)
        if is_end:
            self.finished = True
            if event.type == "response.failed" and self.error_seen is None:
                self._note_error(raw_of({"code": "failed"}))
        return True

    def _take_item(self, event: Event) -> None:
        count = 0 if is_heavy_event(bytes(event.item)) else item_characters(event.item)
        if event.type == "response.output_item.done":
            count -= self._counted.pop(event.output_index, 0)
            self.characters += max(0, count)
        else:
            self.characters += count
            self._counted[event.output_index] = self._counted.get(event.output_index, 0) + count

    def _take_response(self, response: Response) -> None:
        self._note_names(response.id, response.model)
        self._note_error(response.error)
        if not self._stated.take(response):
            self.malformed_events += 1

    def _end(self, response: Response) -> None:
        self.finished = True
        self.characters = max(self.characters, output_characters(response.output))
        details = response.incomplete_details
        reason = (details.reason if details else None) or response.status
        if reason is not None:
            self.finish_reason = fit_name(reason)
        if response.status == "failed" and self.error_seen is None:
            self._note_error(raw_of({"code": "failed"}))


def ends(data: bytes) -> bool:
    """Whether an event that lacks its blank line ends the stream all the same."""
    value = read_loosely(data, mends=False)
    return isinstance(value, dict) and text_of(value.get("type")) in ENDS
