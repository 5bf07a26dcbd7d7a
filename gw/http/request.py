"""One request and its answer on a connection: what Tornado's application takes for a connection.

Between the request's head and the end of its answer a `FrontRequest` stands between parser and
handler: it says when the handler takes the body, and the answer is framed here. Reading and writing
is the connection's.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tornado.httputil import HTTPConnection, HTTPMessageDelegate, RequestStartLine

from gw.http.head import RequestHeaders

if TYPE_CHECKING:
    from gw.http.connection import Connection

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class PeerContext:
    """Who is at the other end, as `HTTPServerRequest` reads it."""

    __slots__ = ("protocol", "remote_ip")

    def __init__(self, remote_ip: str, scheme: str) -> None:
        self.remote_ip = remote_ip
        self.protocol = scheme


class FrontRequest(HTTPConnection):
    """One request from the end of its head to the end of its answer."""

    __slots__ = (
        "_close_callback",
        "_connection",
        "_delegate",
        "_has_head_out",
        "_is_chunked",
        "context",
        "headers",
        "is_complete",
        "is_finished",
        "is_ready",
        "keeps_alive",
        "refuse_body",
        "start_line",
    )

    def __init__(
        self, connection: Connection, start_line: RequestStartLine, headers: RequestHeaders
    ) -> None:
        self.start_line = start_line
        self.headers = headers
        self.context = connection.context  # who asks; `HTTPServerRequest` looks here
        self.keeps_alive = True
        self.is_complete = False  # all of it has been read
        self.is_finished = False  # all of its answer has been written
        self.refuse_body: Callable[[str], None] | None = None
        self._connection = connection
        self._delegate: HTTPMessageDelegate | None = None
        self._close_callback: Callable[[], None] | None = None
        self.is_ready = False  # the handler takes the body
        self._is_chunked = False
        self._has_head_out = False

    def __repr__(self) -> str:
        state = "finished" if self.is_finished else "complete" if self.is_complete else "open"
        return f"<FrontRequest {state}>"

    # --- From the parser ---

    def begin(self, delegate: HTTPMessageDelegate) -> None:
        """Its turn: hand it to the application."""
        self._delegate = delegate
        prepared: Any = delegate.headers_received(self.start_line, self.headers)
        if prepared is None:
            self._ready()
        else:
            prepared.add_done_callback(self._ready)

    def take(self, data: bytes) -> None:
        """A piece of its body."""
        if self._delegate is not None:
            self._delegate.data_received(data)

    def completed(self) -> None:
        """Its body has ended."""
        self.is_complete = True
        if self.is_ready:
            self._hand_over()

    def body_fault(self, fault: str) -> None:
        """The body cannot be read on, and the handler says so."""
        refuse, self.refuse_body = self.refuse_body, None
        if refuse is not None:
            refuse(fault)

    def lost(self) -> None:
        """The connection is gone."""
        callback, self._close_callback = self._close_callback, None
        delegate, self._delegate = self._delegate, None
        self.refuse_body = None
        if callback is not None:
            callback()
        elif delegate is not None and not self.is_finished:
            delegate.on_connection_close()

    def _ready(self, _: object = None) -> None:
        """The handler has seen the head and takes the body."""
        if self.is_ready or self._connection.is_closed:
            return
        self.is_ready = True
        if self.is_complete:
            self._hand_over()
            return
        if not self._has_head_out and self._waits_for_word() and not self._connection.has_unread:
            self._connection.send(_CONTINUE)
        self._connection.read_on()

    def _waits_for_word(self) -> bool:
        said: str | None = self.headers.get("Expect")
        return said == "100-continue"

    def _hand_over(self) -> None:
        if self._delegate is not None and not self.is_finished:
            self._delegate.finish()

    # --- From the application ---

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        """Called once if the connection is lost before the answer's end."""
        self._close_callback = callback

    def set_max_body_size(self, max_body_size: int) -> None:
        """Nothing: the handler bounds its body itself (`body.py`)."""

    @property
    def is_closed(self) -> bool:
        """Has the client left?"""
        return self._connection.is_closed

    def close(self) -> None:
        """End the connection now, in the middle of whatever it is."""
        self._connection.abort()

    def begin_answer(
        self, status: int, reason: str, headers: Mapping[str, str], chunk: bytes
    ) -> Future[None]:
        """Begin the answer."""
        has_body = self.start_line.method != "HEAD" and status not in (204, 304)
        is_sized = "Content-Length" in headers
        is_current = self.start_line.version == "HTTP/1.1"
        self._is_chunked = is_current and has_body and not is_sized
        said = headers.get("Connection")
        if said is not None and said.lower() == "close":
            self.keeps_alive = False
        elif has_body and not is_sized and not is_current:
            self.keeps_alive = False  # its body ends with the connection
        lines = [f"HTTP/1.1 {status} {reason}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self._is_chunked:
            lines.append("Transfer-Encoding: chunked")
        if said is None:
            if not self.keeps_alive:
                lines.append("Connection: close")
            elif not is_current:
                lines.append("Connection: keep-alive")
        count = len(lines)
        lines.append("\r\n")
        text = "\r\n".join(lines)
        if text.count("\n") != count + 1 or text.count("\r") != count + 1:
            raise ValueError("a header's value has a line break")
        self._has_head_out = True
        data = text.encode("latin-1")
        if chunk and has_body:
            data += self._framed(chunk)
        return self._connection.write(data)

    def write(self, chunk: bytes) -> Future[None]:
        """Send a piece of the answer's body."""
        return self._connection.write(self._framed(chunk) if chunk else b"")

    def finish(self) -> None:
        """The answer is complete."""
        self._end(b"0\r\n\r\n" if self._is_chunked else b"")

    def finish_with(self, chunk: bytes) -> Future[None]:
        """Send the last piece of the answer's body."""
        if self._is_chunked:
            chunk = self._framed(chunk) + b"0\r\n\r\n" if chunk else b"0\r\n\r\n"
        sent = self._connection.write(chunk)
        self._end(b"")
        return sent

    def _end(self, last: bytes) -> None:
        self.is_finished = True
        self._close_callback = None
        self.refuse_body = None
        self._delegate = None
        self._connection.answered(self, last)

    def _framed(self, chunk: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._is_chunked else chunk
