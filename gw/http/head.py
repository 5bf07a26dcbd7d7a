"""Received bytes, and heads of requests in them: bounds, faults, the last one again. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserInvalidURLError

from channels.resources import end_of_lines
from gw.http.tornado_adapter import KEY_HEADERS, RequestHeaders, spelled

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


# Bounds of a head, and its start line.

HEAD_BYTES_MAX = 64 * 1024
# Each line costs a few microseconds before the key is known. Browsers send some twenty.
HEAD_LINES_MAX = 256

_METHOD, _TARGET = rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)", rb"[!-~]+"
_START_LINE = re.compile(_METHOD + rb" " + _TARGET + rb" HTTP/1\.[01]\r\n")
_PART_OF_LINE = re.compile(_METHOD + rb"( (" + _TARGET + rb"( ([!-~]*\r?))?)?)?")
_VERSIONS = (b"HTTP/1.1\r\n", b"HTTP/1.0\r\n")


class HeadFault(Exception):
    """A head is refused; the text is the reason."""


def method_of(data: bytes) -> str | None:
    """Return the method if the data begins with a start line of HTTP/1, else None."""
    found = _START_LINE.match(data)
    return found[1].decode("latin-1") if found is not None else None


def may_begin(data: bytes) -> bool:
    """Whether the data is an incomplete start line of HTTP/1."""
    found = _PART_OF_LINE.fullmatch(data)
    return found is not None and any(end.startswith(found[5] or b"") for end in _VERSIONS)


TOO_LARGE = f"its header is larger than {HEAD_BYTES_MAX // 1024} KB"
TOO_MANY = f"it has more than {HEAD_LINES_MAX} header lines"


# Messages for the faults that httptools reports.

REQUEST_LINE = "its request line is none of HTTP/1.1"
_LENGTH = "Content-Length must be one whole number"
_CODING = "only the transfer encoding `chunked` is supported"
_BOTH = "Content-Length and Transfer-Encoding exclude each other"
_LINE_END = "a line of its header ends without CR"
_NAME = "a header name has a character that none may have"
_VALUE = "a header value has a character that none may have"

_WORDS = {
    "Expected HTTP/, RTSP/ or ICE/": REQUEST_LINE,
    "Expected space after method": REQUEST_LINE,
    "Expected HTTP/2 Connection Preface": "its version of HTTP is not supported",
    "Pause on PRI/Upgrade": "its version of HTTP is not supported",
    "Invalid HTTP version": "its request line has no version of HTTP that is supported",
    "Expected CRLF after version": "its request line has no end, or a line ends without CR",
    "Missing expected CR after header value": f"{_VALUE}, or {_LINE_END}",
    "Missing expected LF after header value": _VALUE,
    "Expected LF after CR": _VALUE,
    "Invalid header value char": _VALUE,
    "Invalid header field char": _NAME,
    "Invalid header token": _NAME,
    "Unexpected whitespace after header value": "folding of header lines is not supported",
    "Unexpected space after start line": _NAME,
    "Content-Length can't be present with Transfer-Encoding": _BOTH,
    "Transfer-Encoding can't be present with Content-Length": _BOTH,
    "Invalid character in Content-Length": _LENGTH,
    "Duplicate Content-Length": _LENGTH,
    "Content-Length overflow": _LENGTH,
    "Empty Content-Length": _LENGTH,
    "Empty Transfer-Encoding": _CODING,
    "Invalid `Transfer-Encoding` header value": _CODING,
    "Request has invalid `Transfer-Encoding`": _CODING,
}


def in_words(error: HttpParserError) -> str:
    """Return the message for a fault of httptools."""
    if isinstance(error, HttpParserInvalidMethodError | HttpParserInvalidURLError):
        return REQUEST_LINE
    detail = str(error)
    return _WORDS.get(detail) or detail[:1].lower() + detail[1:]


def head_of_chunks(headers: Mapping[str, str]) -> bytes:
    """Return a head with the same framing, for a second parser that has not read the first one."""
    coding = headers["Transfer-Encoding"]
    return f"POST / HTTP/1.1\r\nTransfer-Encoding: {coding}\r\n\r\n".encode("latin-1")


class Head(NamedTuple):
    """The head of a request."""

    method: str
    target: str
    version: str
    headers: RequestHeaders
    keeps_alive: bool  # the client allows another request on the connection


class Fault(NamedTuple):
    """A fault of a request, and the target of its head as far as that was read."""

    message: str
    target: str


# A Content-Length with more digits is refused.
LENGTH_DIGITS_MAX = 18
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
