"""The members of a messages response that are read, as types.

`MessagesEvent` is one event of a stream, `StatedMessage` a whole response, which `message_start`
begins. One type is decoded once for the meter and a translation. A documented event is decoded into
the types, which is fast; any other is decoded loosely. `response_decoder.py` makes canonical events
of it.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from channels.dialects.loose_members import loosely
from channels.json import lenient
from channels.json.weight import is_heavy_event
from channels.translation.events import TextRun


class Delta(Struct, gc=False):
    """A delta of a block, or of the message as a whole."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: msgspec.Raw = lenient.NULL
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: msgspec.Raw = lenient.NULL
    container: msgspec.Raw = lenient.NULL


class MessagesEvent(Struct, gc=False):
    """One event of a stream."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    usage: msgspec.Raw = lenient.NULL
    message: msgspec.Raw = lenient.NULL
    content_block: msgspec.Raw = lenient.NULL
    error: msgspec.Raw = lenient.NULL


class StatedMessage(Struct, gc=False):
    """A whole response, or its members known at the start."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: msgspec.Raw = lenient.NULL
    content: msgspec.Raw = lenient.NULL
    usage: msgspec.Raw = lenient.NULL
    error: msgspec.Raw = lenient.NULL
    container: msgspec.Raw = lenient.NULL


class TextBlock(Struct, forbid_unknown_fields=True, gc=False):
    """A content block of text and nothing else."""

    type: Literal["text"]
    text: str
    citations: None = None


class PlainMessage(StatedMessage, kw_only=True, gc=False):
    """A whole response of text, as most are: its content is decoded with it."""

    content: Annotated[list[TextBlock], Meta(min_length=1)]  # type: ignore[assignment]


class _CountedBlock(Struct, gc=False):
    """Members of a block that count as output; encrypted and search results have none of them."""

    text: msgspec.Raw = lenient.NULL
    thinking: msgspec.Raw = lenient.NULL
    name: msgspec.Raw = lenient.NULL
    input: msgspec.Raw = lenient.NULL


class _ToolBlock(Struct, gc=False):
    """Members of a block of a tool that the provider runs."""

    type: str | None = None
    name: str | None = None
    content: msgspec.Raw = lenient.NULL


# The block with which a stream's text begins, as upstreams write it.
EMPTY_TEXT = frozenset((b'{"type":"text","text":""}', b'{"type": "text", "text": ""}'))

# Decodes a documented event; raises the errors in UNREADABLE.
decode_event = msgspec.json.Decoder(MessagesEvent).decode
_PLAIN_MESSAGE = msgspec.json.Decoder(PlainMessage)
_MESSAGE = msgspec.json.Decoder(StatedMessage)
_BLOCK = msgspec.json.Decoder(_CountedBlock)
TOOL_BLOCK = msgspec.json.Decoder(_ToolBlock)
_BLOCKS = msgspec.json.Decoder(list[msgspec.Raw])


# The beginning of content that is not empty, within its first bytes.
_BLOCK_OR_TEXT = re.compile(rb'\s*(?:\[\s*\{|"[^"])')
_HEAD_BYTES = 64


_DELTA_EVENT = b"event: content_block_delta\n"
# An event of text as upstreams write it, some with spaces at the end. Its escapes are those that
# `lenient.dumps` writes in the same way.
_TEXT_EVENT = re.compile(
    rb'^event: content_block_delta\ndata: \{"type": ?"content_block_delta", ?"index": ?\d{1,9}, ?'
    rb'"delta": ?\{"type": ?"text_delta", ?"text": ?'
    rb'"((?:[^"\\\x00-\x1f\x7f]++|\\["\\bfnrt])++)"\} *+\}\n\n',
    re.M,
)
_TEXT_EVENT_LINES = 3


def text_run(piece: bytes) -> TextRun | None:
    """Return the deltas of a piece that begins with an event, if they are texts in a row.

    As all lines of the run belong to matches, which begin at the start of a line, nothing lies
    between them.
    """
    texts = _TEXT_EVENT.findall(piece)
    if not texts:
        return None
    lines = _TEXT_EVENT_LINES * len(texts)
    if piece.count(b"\n") == lines and piece.endswith(b"\n\n"):
        return TextRun(0, len(piece), texts)
    start = piece.find(_DELTA_EVENT)
    last = piece.rfind(_DELTA_EVENT, 0, piece.rfind(b"\n\n"))
    end = piece.find(b"\n\n", last) + 2
    is_run = piece.count(b"\n", start, end) == lines
    if not is_run or (start > 0 and not piece.endswith(b"\n\n", 0, start)):
        return None
    return TextRun(start, end, texts)


def read_event(data: bytes) -> MessagesEvent | None:
    """Decode an event as far as possible; None if it is not a JSON object. Never raises."""
    try:
        return decode_event(data)
    except lenient.UNREADABLE:
        return None if is_heavy_event(data) else loosely(MessagesEvent, lenient.read_loosely(data))


def read_message(data: bytes | msgspec.Raw) -> StatedMessage | None:
    """Decode a whole response, or its part in a `message_start`; as `read_event`."""
    try:
        return _MESSAGE.decode(data)
    except lenient.UNREADABLE:
        return loosely(StatedMessage, lenient.read_loosely(bytes(data)))


def block_characters(block: msgspec.Raw) -> int:
    """Count the characters of a content block: text, thinking, a call's name and arguments."""
    try:
        fields = _BLOCK.decode(block)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return (
        lenient.length_of(fields.text)
        + lenient.length_of(fields.thinking)
        + lenient.length_of(fields.name)
        + lenient.length_of(fields.input)
    )


def read_body(data: bytes) -> StatedMessage | None:
    """Decode a whole response, its content too if that is plain; as `read_message`."""
    try:
        return _PLAIN_MESSAGE.decode(data)
    except lenient.UNREADABLE:
        return read_message(data)


def has_blocks(content: msgspec.Raw | list[TextBlock]) -> bool:
    """Whether a message has a content block, or a text in place of these."""
    if isinstance(content, list):
        return True
    head = bytes(memoryview(content)[:_HEAD_BYTES])
    return _BLOCK_OR_TEXT.match(head) is not None


def content_characters(content: msgspec.Raw | list[TextBlock]) -> int:
    """Count the characters of all blocks of a whole response."""
    if isinstance(content, list):
        return sum([len(block.text) for block in content])
    try:
        blocks = _BLOCKS.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return sum(map(block_characters, blocks))
