"""The head of a request, its bounds, and the faults that it may have. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserInvalidURLError

from gw.http.tornado_adapter import RequestHeaders

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
