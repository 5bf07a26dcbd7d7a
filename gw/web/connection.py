"""Answers bytes that are not HTTP, or not chunked, in our shape and exactly once.

Tornado writes a bare status line when it cannot read on, a second answer even where the first is
out already. What is well-formed but not to be trusted is `framing.py`'s part. Written against the
private parts of Tornado 6.6.1's HTTP1Connection, to be reread before moving to another.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
    parse_request_start_line,
)
from tornado.iostream import StreamClosedError

from gw.web.framing import Refuse

# A head longer than this is refused in words; far beyond it the connection just ends (`Listener`).
HEAD_BYTES_MAX = 64 * 1024
# Each line costs a few microseconds before anyone has shown a key. Browsers send some twenty.
HEAD_LINES_MAX = 256


class ServerConnection(Protocol):
    """What a handler needs of its connection beyond Tornado's interface, on either server."""

    # Answers where the body cannot be read on, unless there was an answer already.
    refuse_body: Callable[[str], None] | None

    @property
    def is_closed(self) -> bool: ...

    def set_max_body_size(self, max_body_size: int) -> None: ...

    def set_close_callback(self, callback: Callable[[], None] | None) -> None: ...

    def begin_answer(
        self, status: int, reason: str, headers: Mapping[str, str], chunk: bytes
    ) -> Future[None]:
        """Send the head of an answer, whose header names are well spelled, and some of its body."""

    def write(self, chunk: bytes) -> Future[None]: ...

    def finish(self) -> None: ...

    def finish_with(self, chunk: bytes) -> Future[None]:
        """Send the last of an answer that has begun."""

    def close(self) -> None: ...


class Connection(HTTP1Connection):
    """One request on a connection, from its first byte."""

    # Answers a request whose head cannot be read, and ends the connection.
    refuse_head: Refuse
    # Whether the process is about to end.
    is_draining: Callable[[], bool]
    # Does the same where the body cannot be read on, unless there was an answer already.
    refuse_body: Callable[[str], None] | None = None

    @classmethod
    def adopt(
        cls, connection: HTTPConnection, refuse_head: Refuse, is_draining: Callable[[], bool]
    ) -> None:
        """Make a connection, of which nothing was read yet, one of these.

        Tornado cannot be told which class to make.
        """
        assert type(connection) is HTTP1Connection
        adopted = cast(Connection, connection)
        adopted.__class__ = cls
        adopted.refuse_head = refuse_head
        adopted.is_draining = is_draining

    @property
    def is_closed(self) -> bool:
        """Has the client left?"""
        return self.stream is None or self.stream.closed()

    def _parse_headers(self, data: bytes) -> tuple[str, HTTPHeaders]:
        try:
            fault = head_fault(data)
            if fault is not None:
                raise HTTPInputError(fault)
            start_line, headers = super()._parse_headers(data)
            parse_request_start_line(start_line)  # the caller's next step, which must not fail
        except HTTPInputError as error:
            # What an answer is written by; there is nothing better known of the request.
            self._request_start_line = RequestStartLine("GET", "/", "HTTP/1.1")
            self._request_headers = HTTPHeaders()
            _, _, rest = data.partition(b" ")
            target = rest.partition(b" ")[0].decode("latin-1")
            self.refuse_head(self, f"The request is malformed: {str(error)[:200]}.", target)
            raise StreamClosedError(error) from None
        return start_line, headers

    def _read_body(
        self, code: int, headers: HTTPHeaders, delegate: HTTPMessageDelegate
    ) -> Awaitable[None] | None:
        reading = super()._read_body(code, headers, delegate)
        if reading is None or "Transfer-Encoding" not in headers:
            return reading  # what has a length can be cut short, but not be malformed
        return self._chunks(reading)

    def write_headers(
        self,
        start_line: RequestStartLine | ResponseStartLine,
        headers: HTTPHeaders,
        chunk: bytes | None = None,
    ) -> Future[None]:
        """Keep the word given in `Connection: close`, which Tornado sends on without hearing it."""
        if "Connection" in headers and headers["Connection"].lower() == "close":
            self._disconnect_on_finish = True
        if self._request_start_line is not None and self._request_start_line.method == "HEAD":
            chunk = None  # it is announced, and not sent; Tornado takes that for a mistake
        return super().write_headers(start_line, headers, chunk)

    def begin_answer(
        self, status: int, reason: str, headers: Mapping[str, str], chunk: bytes
    ) -> Future[None]:
        return self.write_headers(
            ResponseStartLine("", status, reason), HTTPHeaders(headers), chunk
        )

    def finish_with(self, chunk: bytes) -> Future[None]:
        sent = self.write(chunk)
        self.finish()
        return sent

    def finish(self) -> None:
        if self.is_draining():
            self._disconnect_on_finish = True  # its head may have promised otherwise
        super().finish()

    def _clear_callbacks(self) -> None:
        super()._clear_callbacks()
        self.refuse_body = None  # or handler and connection keep each other alive

    async def _chunks(self, reading: Awaitable[None]) -> None:
        try:
            await reading
        except HTTPInputError as error:
            if self.refuse_body is not None:
                self.refuse_body(str(error))
            else:  # answered already, or nobody there to answer
                self.close()
            raise StreamClosedError(error) from None


def head_fault(data: bytes) -> str | None:
    """Say what is wrong with a request's head as a whole, or None.

    A line that ends in a line feed alone is refused: what one server takes for the end of a line,
    and so for a header, another may take for a part of the value (request smuggling).
    """
    if len(data) > HEAD_BYTES_MAX:
        return f"its header is larger than {HEAD_BYTES_MAX // 1024} KB"
    lines = data.count(b"\n")
    if lines > HEAD_LINES_MAX:
        return f"it has more than {HEAD_LINES_MAX} header lines"
    if data.count(b"\r\n") != lines:
        return "a line of its header ends without CR"
    return None
