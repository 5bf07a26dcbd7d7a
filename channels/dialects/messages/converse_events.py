"""The events of Converse's streams, and its whole responses, as they are read.

What is read has types: a value of another type is the upstream's fault. Only the usage is read
member by member, because a response whose counts are odd is still one.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from channels.errors import UpstreamMalformed
from channels.json.lenient import UNREADABLE

_Kind = TypeVar("_Kind")


class StartedToolUse(Struct, rename="camel", gc=False):
    """A call, without its arguments."""

    tool_use_id: str
    name: str


class _ToolUse(StartedToolUse, rename="camel", gc=False):
    input: object


class _ReasoningText(Struct, gc=False):
    text: str
    signature: str | None = None


class Reasoning(Struct, rename="camel", gc=False):
    """A thought: its text, or opaque data."""

    reasoning_text: _ReasoningText | None = None
    redacted_content: str | None = None


class ContentBlock(Struct, rename="camel", gc=False):
    """A block of a whole response, of one of these kinds or another."""

    text: str | None = None
    tool_use: _ToolUse | None = None
    reasoning_content: Reasoning | None = None


class _OutputMessage(Struct, gc=False):
    content: list[ContentBlock]


class _ConverseOutput(Struct, gc=False):
    message: _OutputMessage


class StatedUsage(Struct, rename="camel", gc=False):
    """The counts, as an event of a stream or within a whole response."""

    usage: object = None
    service_tier: object = None


class Whole(StatedUsage, rename="camel", kw_only=True, gc=False):
    """A whole response."""

    output: _ConverseOutput
    stop_reason: str | None = None


class MessageStart(Struct, gc=False):
    """No member of it is read."""


class _Start(Struct, rename="camel", gc=False):
    tool_use: StartedToolUse | None = None


class BlockStart(Struct, rename="camel", gc=False):
    """The start of a block; only calls have one."""

    content_block_index: int
    start: _Start


class _ToolUseDelta(Struct, gc=False):
    input: str


class _ReasoningDelta(Struct, rename="camel", gc=False):
    """A part of a thought, of one of these kinds."""

    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class _Delta(Struct, rename="camel", gc=False):
    text: str | None = None
    tool_use: _ToolUseDelta | None = None
    reasoning_content: _ReasoningDelta | None = None


class BlockDelta(Struct, rename="camel", gc=False):
    """A part of a block, which begins it if it is the first."""

    content_block_index: int
    delta: _Delta


class BlockStop(Struct, gc=False):
    """No member of it is read: one block is open at a time."""


class MessageStop(Struct, rename="camel", gc=False):
    """The end of the last block."""

    stop_reason: str


_WHOLE = msgspec.json.Decoder(Whole)


def read_whole(body: bytes) -> Whole:
    """Return a whole response. Raises UpstreamMalformed."""
    return decoded(_WHOLE, body, "no message in the response")


def decoded(decoder: msgspec.json.Decoder[_Kind], data: bytes, fault: str) -> _Kind:
    """Return what an upstream has sent, as its type. Raises UpstreamMalformed for anything else."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise UpstreamMalformed(fault) from error
