"""The members of a responses answer that are read, as types, and its usage as numbers.

`Event` is one event of a stream, `Response` a whole answer, which some events carry. How an answer
is followed is `meter.py`'s part.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from channels.json.lenient import NOTHING, characters_of, length_of, raw_of, read_loosely, text_of
from channels.usage import Tokens, Usage, whole_output


class Event(Struct, gc=False):
    """One event of a stream. `code` and `message` are those of an `error` event."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item: msgspec.Raw = NOTHING
    response: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING
    code: str | None = None
    message: str | None = None


class Details(Struct, gc=False):
    """Why an answer is not complete."""

    reason: str | None = None


class Response(Struct, gc=False):
    """A whole answer, or what is known of it so far."""

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


_RESPONSE = msgspec.json.Decoder(Response)
_USAGE = msgspec.json.Decoder(_Usage)
_ITEM = msgspec.json.Decoder(_Item)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


def read_response(data: bytes | msgspec.Raw) -> Response | None:
    """An answer's members, loosely where need be; None when it is no JSON object."""
    try:
        return _RESPONSE.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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


def event_of(value: dict[str, Any]) -> Event:
    """An event whose members are not of the documented types, as far as they are."""
    index = value.get("output_index")
    return Event(
        type=text_of(value.get("type")) or "",
        delta=text_of(value.get("delta")),
        output_index=index if type(index) is int else None,
        item=raw_of(value.get("item")),
        response=raw_of(value.get("response")),
        error=raw_of(value.get("error")),
        code=text_of(value.get("code")),
        message=text_of(value.get("message")),
    )


def read_usage(usage: msgspec.Raw) -> Usage | None:
    """Numbers of a `usage` member; None when they are not whole, not there, or below zero.

    One count may be missing when the total tells it. The parts never exceed the input.
    """
    try:
        stated = _USAGE.decode(usage)
    except (msgspec.DecodeError, RecursionError):
        return None
    taken, given, total = stated.input_tokens, stated.output_tokens, stated.total_tokens
    if taken is None and given is not None and total is not None:
        taken = total - given
    elif given is None and taken is not None and total is not None:
        given = total - taken
    if taken is None or given is None:
        return None
    inner, outer = stated.input_tokens_details, stated.output_tokens_details
    cached = (inner.cached_tokens if inner else None) or 0
    written = (inner.cache_write_tokens if inner else None) or 0
    reasoning = (outer.reasoning_tokens if outer else None) or 0
    if min(taken, given, cached, written, reasoning) < 0:
        return None
    cached = min(cached, taken)
    given, reasoning = whole_output(
        input_tokens=taken, output_tokens=given, reasoning_tokens=reasoning, total_tokens=total
    )
    return Usage(
        input_tokens=taken,
        output_tokens=given,
        cached_tokens=cached,
        cache_write_tokens=min(written, taken - cached),
        reasoning_tokens=reasoning,
    )


def item_characters(item: msgspec.Raw) -> int:
    """Characters of an output item: text, refusal, thinking, a call's name and arguments."""
    try:
        said = _ITEM.decode(item)
    except (msgspec.DecodeError, RecursionError):
        return 0
    count = sum(map(length_of, (said.name, said.arguments, said.input, said.code)))
    for parts in (said.content, said.summary):
        if parts is not NOTHING:
            count += characters_of(read_loosely(bytes(parts)))
    return count


def output_characters(output: msgspec.Raw) -> int:
    """Characters of all items of a whole answer."""
    try:
        items = _ITEMS.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(map(item_characters, items))
