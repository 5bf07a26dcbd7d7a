"""Answers requests whose framing cannot be trusted, in our shape and with a trace id.

Tornado refuses them too, but with a bare status line, after the endpoint's handler has begun. Here
they are refused before routing. What does not even parse as HTTP (a broken request line or header
line) never gets this far: `connection.py` answers it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)

# Beyond this a length is not a number of bytes that anyone means to send.
LENGTH_DIGITS_MAX = 18

_ABSOLUTE_FORM = re.compile(r"https?://[^/?#@]+", re.IGNORECASE)

Refuse = Callable[[HTTPConnection, str], None]


def framing_fault(version: str, headers: Mapping[str, str]) -> str | None:
    """Say what is wrong with how the body's length is declared, or None.

    Stricter than the RFC where lenience lets two servers disagree on where a request ends
    (request smuggling): a length that came twice is refused even when both are equal.
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


def _settle_expectation(version: str, headers: HTTPHeaders) -> None:
    """Spell `Expect` as Tornado looks for it, or a client in other letters waits in vain."""
    if headers.get("Expect", "").lower() == "100-continue":
        if version == "HTTP/1.0":
            del headers["Expect"]  # it would take the 100 for its answer (RFC 9110, 10.1.1)
        else:
            headers["Expect"] = "100-continue"


def _in_origin_form(
    start_line: RequestStartLine | ResponseStartLine,
) -> RequestStartLine | ResponseStartLine:
    """A target that names scheme and host means its path, here as anywhere (RFC 9112, 3.2.2)."""
    if isinstance(start_line, RequestStartLine) and not start_line.path.startswith("/"):
        found = _ABSOLUTE_FORM.match(start_line.path)
        if found is not None:
            rest = start_line.path[found.end() :]
            return start_line._replace(path=rest if rest.startswith("/") else "/" + rest)
    return start_line


class FramingGuard(HTTPMessageDelegate):
    """Stands before the routing of one request; sees the headers first."""

    def __init__(
        self, inner: HTTPMessageDelegate, connection: HTTPConnection, refuse: Refuse
    ) -> None:
        self._inner = inner
        self._connection = connection
        self._refuse = refuse
        self._is_refused = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        fault = framing_fault(start_line.version, headers)
        if fault is None:
            _settle_expectation(start_line.version, headers)
            try:
                return self._inner.headers_received(_in_origin_form(start_line), headers)
            except HTTPInputError as error:  # the Host header, the query string
                fault = f"{str(error)[:200]}."
        self._is_refused = True
        # The answer ends the connection. Without these the connection looks for no body, about
        # which it would complain a second time, on the wire.
        for name in ("Content-Length", "Transfer-Encoding"):
            headers.pop(name, None)
        self._refuse(self._connection, f"The request is malformed: {fault}")
        return None

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return None if self._is_refused else self._inner.data_received(chunk)

    def finish(self) -> None:
        if not self._is_refused:
            self._inner.finish()

    def on_connection_close(self) -> None:
        if not self._is_refused:
            self._inner.on_connection_close()
