"""The faults of a request that cannot be parsed, and the messages for those of httptools."""

from __future__ import annotations

from typing import NamedTuple

from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserInvalidURLError

REQUEST_LINE = "its request line is none of HTTP/1.1"
_LENGTH = "Content-Length must be one whole number"
_CODING = "only the transfer encoding `chunked` is supported"
_BOTH = "Content-Length and Transfer-Encoding exclude each other"
_LINE_END = "a line of its header ends without CR"
_NAME = "a header name has a character that none may have"
_VALUE = "a header value has a character that none may have"

_MESSAGES = {
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


def message_of_fault(error: HttpParserError) -> str:
    """Return the message for a fault of httptools."""
    if isinstance(error, HttpParserInvalidMethodError | HttpParserInvalidURLError):
        return REQUEST_LINE
    detail = str(error)
    return _MESSAGES.get(detail) or detail[:1].lower() + detail[1:]


class RequestFault(NamedTuple):
    """A fault of a request, and the target of its head as far as that was read."""

    message: str
    target: str
