"""Parses HTTP/1.1 requests with httptools: heads, bodies, faults. No I/O.

Strict where lenience would let this server and a proxy disagree on the end of a request (request
smuggling): all leniencies of httptools are off, and `request.py` checks what httptools accepts. The
bytes behind a request are not parsed before that request has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import cast

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from gw.http.faults import REQUEST_LINE, RequestFault, message_of_fault
from gw.http.head import (
    HEAD_BYTES_MAX,
    HEAD_LINES_MAX,
    TOO_LARGE,
    TOO_MANY,
    Head,
    HeadFault,
    head_of_chunks,
    may_begin,
    method_of,
)
from gw.http.last_head import LastHead
from gw.http.read_buffer import ReadBuffer
from gw.http.tornado.handler import METHODS
from gw.http.tornado.headers import CHUNKED, headers_of

# Longer than any method that the parser knows.
METHOD_BYTES_MAX = 32
# Bound of the heads and chunked bodies parsed in one turn of the loop, in lines, each of which may
# be a field or half a chunk; BYTES_PER_LINE bytes count as one more. A body of known size is free.
TURN_LINES = 1024
BYTES_PER_LINE = 64


class Stage(Enum):
    """The part of a request that is expected next."""

    START = auto()  # the next request, or empty lines before it
    METHOD = auto()  # the rest of a start line whose method httptools does not know
    HEAD = auto()  # the rest of a head
    UPGRADE = auto()  # chunks that httptools treats as another protocol
    BODY = auto()  # the rest of a body


START, METHOD, HEAD, UPGRADE, BODY = Stage


class RequestParser:
    """Turns the bytes received on one connection into the events of its requests, in order."""

    __slots__ = (
        "_body_bytes",
        "_events",
        "_kept_bytes",
        "_last_head",
        "_lines",
        "_method",
        "_parser",
        "_start",
        "_target",
        "buffer",
        "stage",
        "turn_lines",
    )

    def __init__(self) -> None:
        self.buffer = ReadBuffer()
        self.stage = START
        self.turn_lines = 0  # lines parsed since the caller set it to 0
        self._parser = HttpRequestParser(self)
        self._last_head = LastHead()
        self._events: list[Head | bytes | RequestFault] = []
        self._target = b""
        self._lines: list[tuple[bytes, bytes]] = []  # fields of the current head or trailer
        self._kept_bytes = 0  # parsed since the last head or piece of a body
        self._body_bytes = 0  # rest of the current body, or CHUNKED
        self._start = b""  # first bytes of the current head, at least its method
        self._method = ""  # of the current request, where httptools does not know it

    def close(self) -> None:
        """Drop the buffer, and httptools' parser, which refers back to this object."""
        self.buffer.clear()
        self._lines = []
        del self._parser

    def take_body(self) -> bytes | None:
        """Take the whole body, which may be none; return None if it has not been received yet."""
        if self.stage is START:
            return b""
        size = self._body_bytes
        if not 0 < size <= self.buffer.left_bytes:
            return None
        self._body_bytes = 0
        self.stage = START
        return self.buffer.take_bytes(size)

    def advance(self) -> Sequence[Head | bytes | RequestFault]:
        """Parse one part of the buffer, which must not be empty, and return its events.

        A request is complete when its head was returned and the stage is START. Bytes behind a
        Fault cannot be parsed.
        """
        buffer = self.buffer
        if self._body_bytes > 0:
            part = buffer.take_bytes(self._body_bytes)
            self._body_bytes -= len(part)
            if not self._body_bytes:
                self.stage = START
            return (part,)
        is_beginning = self.stage is START
        events = self._events = []
        if is_beginning:
            last = self._last_head
            self._body_bytes = last.take_again(buffer)
            if self._body_bytes:
                self.stage = BODY
                assert last.head is not None
                return (last.head,)
            buffer.skip_line_ends()
            if not buffer.left_bytes:
                return events
            self.stage = HEAD
            self._target = b""
        part = buffer.take_lines(HEAD_BYTES_MAX + 1 - self._kept_bytes, TURN_LINES)
        self._kept_bytes += len(part)
        self.turn_lines += part.count(b"\n") + len(part) // BYTES_PER_LINE
        if self.stage is METHOD:
            self._parse_unknown_method(part)
        else:
            self._parse(part)
        if self._body_bytes > 0:
            if is_beginning:
                self._last_head.remember(part, cast(Head, events[0]))
        elif events and type(events[0]) is bytes:
            self._kept_bytes = 0
            if len(events) > 1:
                _join_pieces(events)
        elif self._kept_bytes > HEAD_BYTES_MAX:
            self._fail(TOO_LARGE)
        return events

    def _parse(self, part: bytes) -> None:
        # Without its traceback an error does not keep the data alive until the next collection.
        try:
            self._parser.feed_data(part)
        except HttpParserCallbackError as error:
            fault = error.__context__
            if not isinstance(fault, HeadFault):
                raise
            self._fail(str(fault.with_traceback(None)))
        except HttpParserUpgrade:
            self._ignore_upgrade()
        except HttpParserInvalidMethodError:
            self._parse_unknown_method(part)
            return
        except HttpParserError as error:
            self._fail(message_of_fault(error.with_traceback(None)))
        if self.stage is HEAD:
            self._start += part[: METHOD_BYTES_MAX - len(self._start)]

    def _fail(self, message: str) -> None:
        self._events.append(RequestFault(message, self._target.decode("latin-1")))

    def _parse_unknown_method(self, part: bytes) -> None:
        """Parse a request whose method httptools does not know as a POST, and keep the method.

        The bytes are kept until the start line is complete: before that it may be no request.
        """
        start = self._start + part
        method = method_of(start)
        if method is not None:
            self.stage = HEAD
            self._method = method
            self._parser = HttpRequestParser(self)
            self._parse(b"POST" + start[len(method) :])
        elif may_begin(start):
            self.stage = METHOD
            self._start = start
        else:
            self._fail(REQUEST_LINE)

    def _ignore_upgrade(self) -> None:
        """Stay with HTTP/1.1: a new parser continues behind the head."""
        self._parser = HttpRequestParser(self)
        if self.stage is UPGRADE:
            head = self._events[-1]
            assert isinstance(head, Head)
            try:
                self._parser.feed_data(head_of_chunks(head.headers))
            except HttpParserError as error:  # framing that httptools does not check in a CONNECT
                self._fail(message_of_fault(error.with_traceback(None)))

    # --- From httptools ---

    def on_url(self, url: bytes) -> None:
        if self.stage is HEAD:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        lines = self._lines
        lines.append((name, value))
        if len(lines) >= HEAD_LINES_MAX:  # with the request line
            raise HeadFault(TOO_MANY)

    def on_headers_complete(self) -> None:
        if self.stage is UPGRADE:  # the second parser is where the first one stopped
            self.stage = BODY
            return
        if self._kept_bytes > HEAD_BYTES_MAX:
            raise HeadFault(TOO_LARGE)
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise HeadFault(f"its request line names HTTP/{version}, a version not supported")
        headers = headers_of(self._lines)
        self._lines = []
        method = self._method or parser.get_method().decode("latin-1")
        connection_header = headers.get("Connection", "").lower()
        if method not in METHODS:
            keeps_alive = False
        elif version == "1.1":
            keeps_alive = "close" not in connection_header
        else:
            keeps_alive = "keep-alive" in connection_header
        target = self._target.decode("latin-1")
        self._events.append(Head(method, target, f"HTTP/{version}", headers, keeps_alive))
        self._body_bytes = headers.body_bytes()
        self.stage = BODY
        if self._body_bytes > 0:  # no part of the body is parsed
            self._parser = HttpRequestParser(self)
        elif self._body_bytes == CHUNKED and parser.should_upgrade():
            self.stage = UPGRADE
        self._start = b""
        self._method = ""
        self._kept_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._events.append(body)

    def on_message_complete(self) -> None:
        if self.stage is UPGRADE or self._body_bytes > 0:  # the end of a head
            return
        self.stage = START
        self._body_bytes = 0
        self._kept_bytes = 0
        if self._lines:
            self._lines = []


def _join_pieces(events: list[Head | bytes | RequestFault]) -> None:
    """Join the pieces of a body to one event."""
    pieces = [one for one in events if isinstance(one, bytes)]
    events[: len(pieces)] = [b"".join(pieces)]
