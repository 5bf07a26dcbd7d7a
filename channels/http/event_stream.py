"""Decode Amazon's event streams (`application/vnd.amazon.eventstream`) to server-sent events.

A message is its length, the length of its headers and a checksum of these two; the headers; the
payload; a checksum of all that. Lengths and checksums (CRC-32) are big-endian and take four
bytes. No I/O. A dialect's `Render` interprets the messages.
"""

from __future__ import annotations

import struct
from asyncio import Future
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Protocol
from zlib import crc32

import msgspec
from msgspec import Struct

from channels import errors
from channels.http.interfaces import Sink, UpstreamResponse
from channels.json.lenient import UNREADABLE

# The limits of Amazon's own libraries for one message.
HEADERS_BYTES_MAX = 128 * 1024
PAYLOAD_BYTES_MAX = 24 * 1024 * 1024

_PRELUDE = struct.Struct(">III")  # both lengths and their checksum
_CHECKSUM = struct.Struct(">I")
_LEAST = _PRELUDE.size + _CHECKSUM.size
_STRING = 7
# Size of a value in bytes, by its type; values of types 6 and 7 have a length prefix.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_SIZED = (6, _STRING)


class EventMessage(Struct, frozen=True, gc=False):
    """One message: its text headers, and its payload."""

    headers: Mapping[str, str]
    payload: bytes

    @property
    def kind(self) -> str:
        """The message type: `event`, `exception` or `error`."""
        return self.headers.get(":message-type", "")

    @property
    def failure(self) -> tuple[str, str]:
        """The error of a message that is no event: its type, and its text."""
        kind = self.headers.get(":exception-type") or self.headers.get(":error-code", "")
        words = self.headers.get(":error-message", "")
        with suppress(*UNREADABLE):  # a message of type `error` has no payload, only headers
            words = _FAILURE.decode(self.payload).message or words
        return kind, words or kind or "The stream failed."


class _Failure(Struct):
    message: str = ""


_FAILURE = msgspec.json.Decoder(_Failure)


class Render(Protocol):
    """Encodes the messages of one stream as server-sent events."""

    def take(self, message: EventMessage) -> bytes:
        """Return the events of a message. Raises UpstreamMalformed."""

    def end(self) -> bytes:
        """Return the remaining events after a regular end of the stream."""


class EventStreamDecoder:
    """Takes bytes in any pieces and returns server-sent events; work is linear in the bytes.

    `fault` is the first error of the stream, after which nothing more is decoded. A failure as the
    first message fails the stream; a later one is an event.
    """

    __slots__ = ("_has_begun", "_pending", "_render", "fault")

    def __init__(self, render: Render) -> None:
        self.fault: errors.UpstreamError | None = None
        self._render = render
        self._has_begun = False
        self._pending = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """Return the events of the messages that a piece completes. Never raises; see `fault`."""
        if self.fault is not None:
            return b""
        pending = self._pending
        pending += piece
        written: list[bytes] = []
        start = 0
        try:
            while (size := _size_at(pending, start)) and len(pending) - start >= size:
                message = _message(bytes(pending[start : start + size]))
                start += size
                if not self._has_begun and message.kind != "event":
                    raise errors.ErrorReported(errors.ErrorMembers(message.failure[1]))
                self._has_begun = True
                written.append(self._render.take(message))
        except errors.UpstreamError as fault:
            self.fault = fault
        del pending[:start]
        return b"".join(written)

    def end(self) -> bytes:
        """Return the remaining events. Raises UpstreamCut if the stream ends within a message."""
        if self._pending:
            raise errors.UpstreamCut(
                f"within a message of an event stream, {len(self._pending)} bytes in"
            )
        return self._render.end()


class EventStreamResponse(UpstreamResponse):
    """A response with an event stream as its body, read as server-sent events."""

    def __init__(self, response: UpstreamResponse, render: Render) -> None:
        self._response = response
        self._decoder = EventStreamDecoder(render)

    @property
    def status(self) -> int:
        """See UpstreamResponse."""
        return self._response.status

    @property
    def has_ended(self) -> bool:
        """See UpstreamResponse."""
        return self._response.has_ended

    @property
    def has_proven_end(self) -> bool:
        """See UpstreamResponse."""
        return self._response.has_proven_end

    def header(self, name: str) -> str | None:
        """See UpstreamResponse."""
        return self._response.header(name)

    async def chunks(self) -> AsyncIterator[bytes]:
        """See UpstreamResponse. Also raises UpstreamMalformed and ErrorReported."""
        decoder = self._decoder
        async for piece in self._response.chunks():
            if events := decoder.feed(piece):
                yield events
            if decoder.fault is not None:
                raise decoder.fault
        if events := decoder.end():
            yield events

    async def pour(self, sink: Sink) -> None:
        """See UpstreamResponse. Also raises UpstreamMalformed and ErrorReported."""
        await self._response.pour(_DecodingSink(sink, self._decoder))
        if not sink.is_over and (events := self._decoder.end()):
            keeps_up = sink.take(events)
            if keeps_up is not None:
                await keeps_up

    async def read(self, limit: int) -> bytes:
        """Return the body unchanged, because a body that is read whole is no stream."""
        return await self._response.read(limit)

    def close(self) -> None:
        """See UpstreamResponse."""
        self._response.close()


class _DecodingSink(Sink):
    """Decodes pieces and passes the events to another sink."""

    __slots__ = ("_decoder", "_sink")

    def __init__(self, sink: Sink, decoder: EventStreamDecoder) -> None:
        self._sink = sink
        self._decoder = decoder

    @property
    def is_over(self) -> bool:
        """See Sink."""
        return self._sink.is_over

    def take(self, piece: bytes) -> Future[None] | None:
        """See Sink. Raises UpstreamMalformed and ErrorReported."""
        decoder = self._decoder
        events = decoder.feed(piece)
        keeps_up = self._sink.take(events) if events else None
        if decoder.fault is not None and not self._sink.is_over:
            raise decoder.fault
        return keeps_up


def server_sent(name: str, data: bytes) -> bytes:
    """Encode a server-sent event; line ends become spaces: in JSON they only separate values."""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def _size_at(pending: bytearray, start: int) -> int:
    """Return the length of the message at `start`; 0 before its prelude is complete.

    Raises UpstreamMalformed for an invalid prelude, before more is buffered.
    """
    if len(pending) - start < _PRELUDE.size:
        return 0
    size, headers_size, checksum = _PRELUDE.unpack_from(pending, start)
    if crc32(pending[start : start + 8]) != checksum:
        raise errors.UpstreamMalformed("the checksum of a prelude is another")
    if headers_size > HEADERS_BYTES_MAX or size < _LEAST + headers_size:
        raise errors.UpstreamMalformed(f"a message of {size} bytes, {headers_size} of them headers")
    if size - headers_size - _LEAST > PAYLOAD_BYTES_MAX:
        raise errors.UpstreamMalformed(f"a message of {size} bytes")
    found: int = size
    return found


def _message(whole: bytes) -> EventMessage:
    """Decode a whole message. Raises UpstreamMalformed."""
    end = len(whole) - _CHECKSUM.size
    if crc32(memoryview(whole)[:end]) != _CHECKSUM.unpack_from(whole, end)[0]:
        raise errors.UpstreamMalformed("the checksum of a message is another")
    headers_end = _PRELUDE.size + int(_PRELUDE.unpack_from(whole)[1])
    return EventMessage(_headers(whole[_PRELUDE.size : headers_end]), whole[headers_end:end])


def _headers(data: bytes) -> dict[str, str]:
    """Decode the text headers and skip others. Raises UpstreamMalformed."""
    found: dict[str, str] = {}
    at, end = 0, len(data)
    try:
        while at < end:
            name_end = at + 1 + data[at]
            name, kind = data[at + 1 : name_end], data[name_end]
            at = name_end + 1
            if kind in _SIZED:
                size = int.from_bytes(data[at : at + 2])
                at += 2
            else:
                size = _SIZES[kind]
            if at + size > end:
                raise IndexError(name)
            if kind == _STRING:
                found[name.decode()] = data[at : at + size].decode()
            at += size
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise errors.UpstreamMalformed("headers of a message that cannot be read") from error
    return found
