"""Parses HTTP/1.1 requests with httptools: heads, bodies, faults. No I/O.

Strict where lenience would let this server and a proxy disagree on the end of a request (request
smuggling): all leniencies of httptools are off, and `request.py` checks what httptools accepts. The
bytes behind a request are not parsed before that request has ended.
"""

from __future__ import annotations

import re
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

from channels.resources import end_of_lines
from gw.http.head import (
    HEAD_BYTES_MAX,
    HEAD_LINES_MAX,
    LENGTH_DIGITS_MAX,
    REQUEST_LINE,
    TOO_LARGE,
    TOO_MANY,
    Fault,
    Head,
    HeadFault,
    head_of_chunks,
    in_words,
    may_begin,
    method_of,
)
from gw.http.tornado_adapter import CHUNKED, KEY_HEADERS, METHODS, headers_of, spelled

# Received bytes that are not parsed yet.
#
# They are taken in parts that never cross the end of a request, so that the parser stops there and
# the meaning of a request does not depend on its packets. A head and a chunked body end with an
# empty line; the size of any other body is known.

_LINE_ENDS = b"\r\n"
_EMPTY_LINE = b"\r\n\r\n"


class ReadBuffer:
    """A queue of bytes."""

    __slots__ = ("_tail", "at", "data", "left_bytes")

    def __init__(self) -> None:
        self.data = b""  # received, the bytes already taken included
        self.at = 0  # offset of the first byte that is not taken
        self._tail = b""  # the last bytes taken, in which an empty line may begin
        self.left_bytes = 0

    def __repr__(self) -> str:
        return f"<ReadBuffer {self.left_bytes} bytes>"

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        if self.left_bytes:
            data = self.data[self.at :] + data
        self.data = data
        self.at = 0
        self.left_bytes = len(data)

    def clear(self) -> None:
        """Drop all bytes."""
        self.data = b""
        self.at = self.left_bytes = 0

    def skip_line_ends(self) -> None:
        """Drop the empty lines that may stand before a request."""
        if self.data[self.at] in _LINE_ENDS:
            data = self.data[self.at :].lstrip(_LINE_ENDS)
            self.left_bytes = 0
            self.add(data)

    def take(self, size: int) -> bytes:
        """Take the next `size` bytes, or all if there are fewer."""
        if size >= self.left_bytes:
            part = self.data[self.at :] if self.at else self.data
            self.clear()
        else:
            at = self.at
            self.at = end = at + size
            part = self.data[at:end]
            self.left_bytes -= size
        return part

    def take_lines(self, size: int, lines: int) -> bytes:
        """Take at most `size` bytes and at most `lines` lines, up to the next empty line."""
        at, data = self.at, self.data
        if self._tail:
            found = (self._tail + data[at : at + 3]).find(_EMPTY_LINE)
            if found >= 0:
                size = min(size, found + 4 - len(self._tail))
        found = data.find(_EMPTY_LINE, at, at + size)
        if found >= 0:
            size = found + 4 - at
        if size > lines:
            size = end_of_lines(data, at, min(at + size, len(data)), lines) - at
        part = self.take(size)
        tail = part[-4:] if len(part) > 3 else self._tail + part
        self._tail = b"" if tail.endswith(_EMPTY_LINE) else tail[-3:]
        return part


# A larger head is not remembered.
REMEMBERED_BYTES_MAX = 4 * 1024
# After so many heads in a row that repeat none, no more are remembered: a proxy in between writes
# an id of its own into each.
UNLIKE_MAX = 8

_LENGTH_LINE = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
# Another key is recognised if it has these characters only, none of which ends a word or a line.
_KEY = re.compile(rb"[A-Za-z0-9._~-]{1,128}")
_KEY_HEADER = rb"\r\n(" + "|".join((*KEY_HEADERS, "Authorization")).encode() + rb"):"
_KEY_NAMES = re.compile(_KEY_HEADER, re.IGNORECASE)
_KEY_LINE = re.compile(
    _KEY_HEADER + rb" *((?:(?<=authorization: )bearer +)?)(" + _KEY.pattern + rb")\r\n",
    re.IGNORECASE,
)


class LastHead:
    """The last head of a connection that announced a body.

    Libraries send the same head with every request, but for the digits of its Content-Length, and
    for the key where a program has several. What was found in it once is true of all of them.
    """

    __slots__ = ("_after", "_around_key", "_before", "_length", "_unlike", "head")

    def __init__(self) -> None:
        self.head: Head | None = None
        self._before = self._length = self._after = b""  # the digits, and what stands around them
        # What stands around the key in its piece of these two; its field, and the scheme there.
        self._around_key: tuple[bytes, bytes, str, str] | None = None
        self._unlike = 0  # heads since the last one that was repeated

    def take_again(self, buffer: ReadBuffer) -> int:
        """Take a whole head from the buffer if it is the last one again; else return 0.

        Returns the size of the body that it announces.
        """
        data, at, before = buffer.data, buffer.at, self._before
        if self.head is None:
            return 0
        if not data.startswith(before, at):
            if not self._takes_key(data, at, before):
                return 0
            before = self._before
        start = at + len(before)
        end = data.find(b"\r", start, start + LENGTH_DIGITS_MAX + 1)
        length = data[start:end]
        if end < 0 or not length.isdigit():
            return 0
        if not (data.startswith(self._after, end) or self._takes_key(data, end, self._after)):
            return 0
        body_bytes = int(length)
        if not body_bytes:
            return 0
        if length != self._length:
            self._length = length
            self.head.headers.set_length(length)
        self._unlike = 0
        buffer.at = end + len(self._after)
        buffer.left_bytes = len(data) - buffer.at
        if not buffer.left_bytes:
            buffer.clear()
        return body_bytes

    def _takes_key(self, data: bytes, at: int, piece: bytes) -> bool:
        """Whether the data has this piece with another key, which is then that of the last head.

        It is so even if the rest differs. Earlier requests keep the headers with their own keys.
        """
        if self.head is None or self._around_key is None:
            return False
        left, right, field, scheme = self._around_key
        found = _KEY.match(data, at + len(left))
        if found is None or not piece.startswith(left):  # the key is in the other piece
            return False
        key = found[0]
        changed = left + key + right
        if not data.startswith(changed, at):
            return False
        if piece is self._before:
            self._before = changed
        else:
            self._after = changed
        method, target, version, headers, keeps_alive = self.head
        headers = headers.with_key(field, scheme, key.decode())
        self.head = Head(method, target, version, headers, keeps_alive)
        return True

    def remember(self, part: bytes, head: Head) -> None:
        """Remember a head and the bytes that it was parsed from."""
        self._unlike += 1
        if self._unlike > UNLIKE_MAX or len(part) > REMEMBERED_BYTES_MAX:
            return
        found = _LENGTH_LINE.search(part)
        if found is None:
            return
        start, end = found.span(1)
        self._before, self._length, self._after = part[:start], found[1], part[end:]
        self.head = head
        self._around_key = None
        if len(_KEY_NAMES.findall(part)) == 1:  # no other line may have one
            line = _KEY_LINE.search(self._before) or _KEY_LINE.search(self._after)
            if line is not None:
                left, right = line.string[: line.start(3)], line.string[line.end(3) :]
                self._around_key = left, right, spelled(line[1].decode()), line[2].decode()


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
        self._events: list[Head | bytes | Fault] = []
        self._target = b""
        self._lines: list[tuple[bytes, bytes]] = []  # fields of the current head or trailer
        self._kept_bytes = 0  # parsed since the last head or piece of a body
        self._body_bytes = 0  # rest of the current body, or CHUNKED
        self._start = b""  # first bytes of the current head, at least its method
        self._method = ""  # of the current request, where httptools does not know it

    def __repr__(self) -> str:
        return f"<RequestParser {self.stage.name} {self.buffer}>"

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
        return self.buffer.take(size)

    def advance(self) -> Sequence[Head | bytes | Fault]:
        """Parse one part of the buffer, which must not be empty, and return its events.

        A request is complete when its head was returned and the stage is START. Bytes behind a
        Fault cannot be parsed.
        """
        buffer = self.buffer
        if self._body_bytes > 0:
            part = buffer.take(self._body_bytes)
            self._body_bytes -= len(part)
            if not self._body_bytes:
                self.stage = START
            return (part,)
        is_beginning = self.stage is START
        events = self._events = []
        if is_beginning:
            self._body_bytes = self._last_head.take_again(buffer)
            if self._body_bytes:
                self.stage = BODY
                return (cast(Head, self._last_head.head),)
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
            self._fail(in_words(error.with_traceback(None)))
        if self.stage is HEAD:
            self._start += part[: METHOD_BYTES_MAX - len(self._start)]

    def _fail(self, message: str) -> None:
        self._events.append(Fault(message, self._target.decode("latin-1")))

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
                self._fail(in_words(error.with_traceback(None)))

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


def _join_pieces(events: list[Head | bytes | Fault]) -> None:
    """Join the pieces of a body to one event."""
    pieces = [one for one in events if isinstance(one, bytes)]
    events[: len(pieces)] = [b"".join(pieces)]
