"""One connection to an upstream: one exchange after another, each with its own response.

Parses with httptools. The client (`client.py`) assigns requests to connections of a pool.
"""

from __future__ import annotations

import asyncio
import select
from typing import Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from channels import errors
from channels.http.lines import end_of_lines
from channels.http.request_writer import BodyPieces, RequestWriter, has_unacknowledged
from channels.http.response import LINE_BYTES_MIN, TURN_LINES, Http1Response

# Reading pauses when more of a response is buffered; one read returns up to four times this.
WAITING_BYTES_MAX = 64 * 1024
# Limit of the whole head, interim responses included; common servers allow 8 to 32 KiB.
HEAD_BYTES_MAX = 32 * 1024
# Limit of consecutive bytes that are no part of the body: trailers, or chunk extensions.
BARE_BYTES_MAX = 64 * 1024
# A body up to this size is joined to its head, to be written at the end of the loop's turn.
JOINED_BODY_BYTES_MAX = 16 * 1024


class StaleConnection(Exception):
    """A reused connection was closed by the upstream before it had the whole request.

    The request was not executed, so another connection may be tried.
    """


class ConnectionOwner(Protocol):
    """The owner of a connection, which assigns requests to it."""

    def on_open(self, connection: UpstreamConnection) -> None:
        """The connection was opened."""

    def on_joined(self, connection: UpstreamConnection) -> None:
        """It is to write its request at the end of the turn."""

    def on_idle(self, connection: UpstreamConnection) -> None:
        """Its response has ended, and it may carry another request."""

    def on_closed(self, connection: UpstreamConnection) -> None:
        """The connection was closed."""


class UpstreamConnection(asyncio.Protocol):
    """A connection, from its opening to its loss."""

    __slots__ = (
        "_bare_bytes",
        "_exchanges",
        "_head_room",
        "_joined",
        "_owner",
        "_parser",
        "_poll",
        "_response",
        "_transport",
        "_unread",
        "_writer",
        "is_reading_paused",
    )

    _transport: asyncio.Transport
    _writer: RequestWriter

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._response: Http1Response | None = None  # under way
        self._exchanges = 0
        self._head_room = HEAD_BYTES_MAX  # left of the head's limit
        self._bare_bytes = 0  # since the last piece of a body
        self.is_reading_paused = False  # reading is paused
        self._joined = b""  # a whole request that is not written yet
        self._poll: select.poll | None = None  # of its socket, once it was idle
        self._unread = b""  # read, and parsed in the next turns of the loop
        self._parser = HttpResponseParser(self)
        # These deviations leave the ends of lines and of chunk sizes unambiguous.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def __repr__(self) -> str:
        state = "idle" if self._response is None else repr(self._response)
        return f"<UpstreamConnection {self._exchanges} exchanges, {state}>"

    @property
    def is_usable(self) -> bool:
        """Whether the connection can carry a request, as far as is known."""
        return not self._transport.is_closing()

    def may_be_reused(self) -> bool:
        """Whether an idle connection can carry another request; closes it if it has unread bytes.

        They are the end of the stream, or would be taken for the response to that request.
        """
        if self._transport.is_closing():
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._transport.get_extra_info("socket"), select.POLLIN)
        if self._poll.poll(0):
            self.abort()
            return False
        return True

    def exchange(self, head: bytes, body: bytes | BodyPieces) -> Http1Response:
        """Send a request; return its response, which fails if the connection is already lost."""
        assert self._response is None
        response = self._response = Http1Response(self)
        self._exchanges += 1
        self._head_room = HEAD_BYTES_MAX
        self._bare_bytes = 0
        writer = self._writer
        writer.is_large = len(body) > JOINED_BODY_BYTES_MAX
        if writer.is_large:
            writer.write(head, body)
        else:
            self._joined = head + bytes(body)
            self._owner.on_joined(self)
        return response

    def write_joined(self) -> None:
        """Write the joined request, unless the connection was closed."""
        joined, self._joined = self._joined, b""
        if joined:
            self._transport.write(joined)
            if self._transport.is_closing():  # nothing was written
                self._writer.pause()

    def resume(self) -> None:
        """Resume reading: the buffer was taken, or the response has ended."""
        self.is_reading_paused = False
        if self._unread:
            asyncio.get_running_loop().call_soon(self._read_on)
        elif not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once and drop what is buffered, so that the upstream stops working."""
        self._response, self._joined = None, b""
        self._writer.end()
        self._transport.abort()

    def break_off(self, reason: str = "closed by the gateway") -> None:
        """Close at once, and fail the response under way."""
        response = self._response
        if response is not None:
            self._lose(response, reason, is_stale=False)
        self.abort()

    def given_up(self) -> None:
        """Close a connection whose owner was cancelled while uvloop was still opening it."""
        self._owner.on_closed(self)

    # --- From the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        self._writer = RequestWriter(self._transport)
        # `pause_writing` is called whenever something is buffered, `resume_writing` when the buffer
        # is empty. TLS writes nothing with a limit of 0, and would pause with each read and write.
        is_secure = transport.get_extra_info("sslcontext") is not None
        self._transport.set_write_buffer_limits(high=1 if is_secure else 0, low=0)
        self._owner.on_open(self)

    def pause_writing(self) -> None:
        """Note that written data is buffered."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Note that all written data was passed to the system."""
        self._writer.resume()

    def data_received(self, data: bytes) -> None:  # noqa: C901 (every read of an upstream)
        """Parse data of the response under way."""
        response = self._response
        if response is None:
            if data.strip(b"\r\n"):  # old servers append a line end
                self._stop(None, "bytes that nobody has asked for")
            return
        rest = b""
        if len(data) > LINE_BYTES_MIN * TURN_LINES and response.is_in_lines:
            end = end_of_lines(data, 0, len(data), TURN_LINES)
            data, rest = data[:end], data[end:]
        waiting = response.waiting_bytes
        if not response.status:
            if self._joined:
                self.break_off("bytes that nobody has asked for yet")
                return
            self._head_room -= len(data)
            if self._head_room < 0:
                self._read_long_head(response, data)
                if rest:
                    self._keep(rest)
                return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            ours = error.__context__  # raised in one of the parser's callbacks below
            self._stop(
                response, ours.detail if isinstance(ours, errors.UpstreamError) else str(error)
            )
            return
        except HttpParserUpgrade:
            self._stop(response, "another protocol, which was not asked for")
            return
        if self._response is not None:  # it goes on
            response.count()
            if response.waiting_bytes != waiting:
                self._bare_bytes = 0
            else:
                self._bare_bytes += len(data)
                if self._bare_bytes > BARE_BYTES_MAX:
                    self._stop(response, "more and more between the pieces of its body")
                    return
            if response.status:
                response.arrived()
            if response.waiting_bytes > WAITING_BYTES_MAX and not (
                self.is_reading_paused or self._transport.is_closing()
            ):
                self.is_reading_paused = True
                self._transport.pause_reading()
        if rest:
            self._keep(rest)

    def eof_received(self) -> None:
        """The upstream closed its side: this ends a body without a length, or is a loss."""
        response = self._response
        if response is not None and response.ends_with_connection:
            response.ended()
        elif response is not None:
            # The end of its stream acknowledges all that it had received by then.
            is_stale = self._writer.has_unsent or has_unacknowledged(self._transport)
            self._lose(response, "the upstream closed the connection", is_stale=is_stale)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by a reset or by this side."""
        response, self._response = self._response, None
        if response is not None:
            # A reset acknowledges nothing, but unwritten data was certainly not received.
            self._lose(response, f"connection lost: {exc!r}", is_stale=self._writer.has_unsent)
        self._owner.on_closed(self)
        self._unread = self._joined = b""
        self._writer.end()
        del self._parser  # it refers to this object

    # --- From the parser ---

    def on_message_begin(self) -> None:
        """Refuse a response without a request."""
        if self._response is None:
            raise errors.UpstreamMalformed("an answer that nobody has asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a field of the head; ignore trailers."""
        response = self._response
        if response is not None and not response.status:
            response.fields.setdefault(name.lower(), value)

    def on_headers_complete(self) -> None:
        """Complete the head, unless it is an interim one."""
        response = self._response
        assert response is not None
        status = self._parser.get_status_code()
        if status < 200:
            if status < 100:
                raise errors.UpstreamMalformed(f"status {status}")
            response.fields.clear()
            return
        coding = response.fields.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            raise errors.UpstreamMalformed(f"transfer-encoding {coding!r}")
        encoding = response.fields.get(b"content-encoding")
        if encoding is not None and encoding.lower() != b"identity" and status < 400:
            raise errors.UpstreamMalformed(f"content-encoding {encoding.lower()!r}")
        response.status = status

    def on_body(self, data: bytes) -> None:
        """Add a piece of the body."""
        if self._response is not None:  # kept minimal: a read may have tens of thousands
            self._response.pieces.append(data)

    def on_message_complete(self) -> None:
        """End the response; the connection may carry the next one."""
        response = self._response
        if response is None or not response.status:  # an interim one
            return
        self._response = None
        # The rest of an upload that was answered early may never be read, nor the next request.
        writer = self._writer
        may_be_unread = (writer.is_large or writer.is_paused) and writer.may_be_unread
        keeps_alive = self._parser.should_keep_alive() and not may_be_unread
        response.ended()
        if keeps_alive:
            if self.is_reading_paused:
                self.resume()
            self._owner.on_idle(self)
        else:
            self.abort()

    # --- From one turn of the loop to the next ---

    def _keep(self, rest: bytes) -> None:
        """Keep unparsed data of the response under way for the next turn."""
        if self._response is None:
            self.data_received(rest)
        elif not self._transport.is_closing():
            self._unread = rest
            self._transport.pause_reading()
            if not self.is_reading_paused:
                asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        data, self._unread = self._unread, b""
        if data:
            self.data_received(data)
            if not (self._unread or self.is_reading_paused or self._transport.is_closing()):
                self._transport.resume_reading()

    # --- What goes wrong ---

    def _read_long_head(self, response: Http1Response, data: bytes) -> None:
        """Parse the head up to its limit, at the same byte wherever the data was split."""
        room = self._head_room = self._head_room + len(data)
        self.data_received(data[:room])
        if not response.status and self._response is response:
            self._stop(response, f"a head of more than {HEAD_BYTES_MAX} bytes")
        elif not self._transport.is_closing():
            self.data_received(data[room:])

    def _stop(self, response: Http1Response | None, why: str) -> None:
        """Fail a malformed response and close the connection without reading more."""
        if response is not None and self._response is response:
            response.lost(
                errors.UpstreamCut(why) if response.status else errors.UpstreamMalformed(why)
            )
        self.abort()

    def _lose(self, response: Http1Response, reason: str, *, is_stale: bool) -> None:
        if self._head_room < HEAD_BYTES_MAX:
            response.lost(errors.UpstreamCut(reason))
        elif (is_stale or self._joined) and self._exchanges > 1:
            response.lost(StaleConnection(reason))
        else:
            response.lost(errors.UpstreamLost(reason))
