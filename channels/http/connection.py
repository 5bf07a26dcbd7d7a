"""One connection to an upstream: one exchange after another, each with a response of its own.

Reads with httptools' parser. Which connection carries a request is its owner's to say (`pool.py`);
what of a response waits to be taken is `response.py`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from channels.errors import (
    UpstreamCut,
    UpstreamError,
    UpstreamLost,
    UpstreamMalformed,
)
from channels.http.response import Http1Response
from channels.http.tcp_unacked import has_unacknowledged

# Reading stops when more of a response waits to be taken; one read brings up to four times this.
WAITING_BYTES_MAX = 64 * 1024
# Of a whole head, interim responses included; common servers allow 8 to 32 KiB.
HEAD_BYTES_MAX = 32 * 1024
# Of what brings nothing of the body, in a row: trailers, or what stands behind a chunk's size.
BARE_BYTES_MAX = 64 * 1024
# A body up to this size is joined to its head: one copy is cheaper than a second buffer.
JOINED_BODY_BYTES_MAX = 16 * 1024


class StaleConnection(Exception):
    """A kept connection was closed by the upstream before it had all of the request.

    So the request was not carried out, and another connection may be tried.
    """


class ConnectionOwner(Protocol):
    """The owner of a connection, which gives it requests."""

    def on_open(self, connection: UpstreamConnection) -> None:
        """The connection exists."""

    def on_idle(self, connection: UpstreamConnection) -> None:
        """Its response has ended, and it may carry another request."""

    def on_closed(self, connection: UpstreamConnection) -> None:
        """The connection is gone."""


class UpstreamConnection(asyncio.Protocol):
    """A connection, from its opening to its loss."""

    __slots__ = (
        "_bare_bytes",
        "_exchanges",
        "_feed",
        "_head_room",
        "_is_large",
        "_is_sending",
        "_owner",
        "_parser",
        "_response",
        "_transport",
        "is_held",
    )

    _transport: asyncio.Transport

    def __init__(self, owner: ConnectionOwner) -> None:
        self._owner = owner
        self._response: Http1Response | None = None  # that is under way
        self._exchanges = 0
        self._head_room = HEAD_BYTES_MAX  # what its head may still take
        self._bare_bytes = 0  # since the last piece of a body
        self.is_held = False  # reading has stopped
        self._is_sending = False  # not all of a request has been taken by the system
        self._is_large = False  # and perhaps TLS has, but not the system: it does not tell
        self._parser = HttpResponseParser(self)
        # Where lines end and a chunk's size begins is clear in these, too.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._feed = self._parser.feed_data

    def __repr__(self) -> str:
        state = "idle" if self._response is None else repr(self._response)
        return f"<UpstreamConnection {self._exchanges} exchanges, {state}>"

    @property
    def is_usable(self) -> bool:
        """Whether the connection can carry another request, as far as is known."""
        return not self._transport.is_closing()

    def fileno(self) -> int:
        """The system's number of its socket."""
        number: int = self._transport.get_extra_info("socket").fileno()
        return number

    def exchange(self, head: bytes, body: bytes) -> Http1Response:
        """Send a request; its response comes, or is lost, as soon as it does."""
        assert self._response is None
        response = self._response = Http1Response(self)
        self._exchanges += 1
        self._head_room = HEAD_BYTES_MAX
        self._is_large = len(body) > JOINED_BODY_BYTES_MAX
        if not self._is_large:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        if self._transport.is_closing():  # nothing of it could be written
            self._is_sending = True
        return response

    def resume(self) -> None:
        """What waited has been taken, or nothing more is to come."""
        self.is_held = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close now, without what is still buffered: the upstream stops working at once."""
        self._response = None
        self._transport.abort()

    def break_off(self) -> None:
        """Close now, and fail the response under way."""
        response = self._response
        if response is not None:
            self._lose(response, "closed by the gateway", is_stale=False)
        self.abort()

    def given_up(self) -> None:
        """Close a connection whose owner left while uvloop was still making it."""
        self._owner.on_closed(self)

    # --- From the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        # Told of everything that is buffered, and of the moment when nothing is any more. TLS
        # takes nothing at all for as much as 0, and would say "pause" with each read and write.
        is_secure = transport.get_extra_info("sslcontext") is not None
        self._transport.set_write_buffer_limits(high=1 if is_secure else 0, low=0)
        self._owner.on_open(self)

    def pause_writing(self) -> None:
        """The system takes no more for now."""
        self._is_sending = True

    def resume_writing(self) -> None:
        """The system has all that was sent."""
        self._is_sending = False

    def data_received(self, data: bytes) -> None:
        """Read on in the response under way."""
        response = self._response
        if response is None:
            if data.strip(b"\r\n"):  # servers of old append a line end
                self._stop(None, "bytes that nobody has asked for")
            return
        waiting = response.waiting_bytes
        if not response.status:
            self._head_room -= len(data)
            if self._head_room < 0:
                self._read_long_head(response, data)
                return
        try:
            self._feed(data)
        except HttpParserError as error:
            ours = error.__context__  # raised in one of the parser's calls below
            self._stop(response, ours.detail if isinstance(ours, UpstreamError) else str(error))
            return
        except HttpParserUpgrade:
            self._stop(response, "another protocol, which was not asked for")
            return
        response.count()
        if response.waiting_bytes != waiting or self._response is None:
            self._bare_bytes = 0
        else:
            self._bare_bytes += len(data)
            if self._bare_bytes > BARE_BYTES_MAX:
                self._stop(response, "more and more between the pieces of its body")
                return
        response.arrived()
        if response.waiting_bytes > WAITING_BYTES_MAX and self._response is not None:
            self._hold()

    def eof_received(self) -> None:
        """The upstream sends no more: the end of a body that has no other, or a loss."""
        response = self._response
        if response is not None and response.ends_with_connection:
            response.ended()
        elif response is not None:
            # The end of its stream acknowledges what it had received by then.
            is_stale = self._is_sending or has_unacknowledged(self._transport)
            self._lose(response, "the upstream closed the connection", is_stale=is_stale)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, by a reset or by ourselves."""
        response, self._response = self._response, None
        if response is not None:
            # A reset acknowledges nothing; but what could not be written has not arrived.
            self._lose(response, f"connection lost: {exc!r}", is_stale=self._is_sending)
        self._owner.on_closed(self)
        del self._parser, self._feed  # which hold this object

    # --- From the parser ---

    def on_message_begin(self) -> None:
        """A response begins."""
        if self._response is None:
            raise UpstreamMalformed("an answer that nobody has asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of its head, or of what follows a body in chunks."""
        response = self._response
        assert response is not None
        if not response.status:
            response.fields.setdefault(name.lower(), value)

    def on_headers_complete(self) -> None:
        """Its head is here, unless it is an interim one."""
        response = self._response
        assert response is not None
        status = self._parser.get_status_code()
        if status < 200:
            if status < 100:
                raise UpstreamMalformed(f"status {status}")
            response.fields.clear()
            return
        coding = response.fields.get(b"transfer-encoding")
        if coding is not None and coding.lower() != b"chunked":
            raise UpstreamMalformed(f"transfer-encoding {coding!r}")
        response.status = status

    def on_body(self, data: bytes) -> None:
        """A piece of its body."""
        response = self._response
        assert response is not None
        response.pieces.append(data)  # as little as can be: a read may bring tens of thousands

    def on_message_complete(self) -> None:
        """The response has ended, and the connection may carry the next one."""
        response = self._response
        assert response is not None
        if not response.status:  # an interim one
            return
        self._response = None
        # The rest of an upload that was answered early may never be read, nor what stands behind.
        is_sending = self._is_sending or (self._is_large and has_unacknowledged(self._transport))
        keeps_alive = self._parser.should_keep_alive() and not is_sending
        response.ended()
        if keeps_alive:
            if self.is_held:
                self.resume()
            self._owner.on_idle(self)
        else:
            self.abort()

    # --- What goes wrong ---

    def _read_long_head(self, response: Http1Response, data: bytes) -> None:
        """Read the head only as far as it may go; wherever the data was cut, to the same byte."""
        room = self._head_room = self._head_room + len(data)
        self.data_received(data[:room])
        if not response.status and self._response is response:
            self._stop(response, f"a head of more than {HEAD_BYTES_MAX} bytes")
        elif not self._transport.is_closing():
            self.data_received(data[room:])

    def _stop(self, response: Http1Response | None, why: str) -> None:
        """What comes is not a response, and nothing behind it is read."""
        if response is not None and self._response is response:
            response.lost(UpstreamCut(why) if response.status else UpstreamMalformed(why))
        self.abort()

    def _lose(self, response: Http1Response, reason: str, *, is_stale: bool) -> None:
        if self._head_room < HEAD_BYTES_MAX:
            response.lost(UpstreamCut(reason))
        elif is_stale and self._exchanges > 1:
            response.lost(StaleConnection(reason))
        else:
            response.lost(UpstreamLost(reason))

    def _hold(self) -> None:
        if not self.is_held and not self._transport.is_closing():
            self.is_held = True
            self._transport.pause_reading()
