"""The head of a request, its bounds, and the faults that it may have. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tornado.httputil import HTTPHeaders

from gw.http.tornado.headers import RequestHeaders

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


# A Content-Length with more digits is refused.
LENGTH_DIGITS_MAX = 18


_ABSOLUTE_FORM = re.compile(r"https?://[^/?#@]+", re.IGNORECASE)


def framing_fault(version: str, headers: Mapping[str, str]) -> str | None:
    """Return the fault in the framing of the body, or None.

    Stricter than the RFC where lenience lets two servers disagree on the end of a request (request
    smuggling): a repeated Content-Length is refused even when both values are equal.
    """
    length = headers.get("Content-Length")
    if "Transfer-Encoding" in headers:
        if length is not None:
            return "Content-Length and Transfer-Encoding exclude each other."
        if headers["Transfer-Encoding"].lower() != "chunked":
            return "Only the transfer encoding `chunked` is supported."
        if version == "HTTP/1.0":
            return "Transfer-Encoding needs HTTP/1.1."
    elif length is not None and not (
        length.isascii() and length.isdigit() and len(length) <= LENGTH_DIGITS_MAX
    ):
        return "Content-Length must be one whole number."
    return None


def settle_expectation(version: str, headers: HTTPHeaders) -> None:
    """Normalise the case of `Expect: 100-continue`, which Tornado compares exactly."""
    if headers.get("Expect", "").lower() == "100-continue":
        if version == "HTTP/1.0":
            del headers["Expect"]  # it would take the 100 for its response (RFC 9110, 10.1.1)
        else:
            headers["Expect"] = "100-continue"


def in_origin_form(target: str) -> str:
    """Return the path of a target in absolute form (RFC 9112, 3.2.2); other targets unchanged."""
    if not target.startswith("/"):
        found = _ABSOLUTE_FORM.match(target)
        if found is not None:
            rest = target[found.end() :]
            return rest if rest.startswith("/") else "/" + rest
    return target
