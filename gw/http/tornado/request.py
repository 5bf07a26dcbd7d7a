"""A request with Tornado's interface: its head, and the methods by which a handler responds."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any, Protocol

from tornado.httputil import HTTPHeaders, HTTPInputError, HTTPServerRequest, RequestStartLine

from gw.http.tornado.headers import RequestHeaders

# The version that may omit `Host`, and its default.
_OLD_VERSION, _OLD_HOST = "HTTP/1.0", "127.0.0.1"
# Bound of the cached hosts.
_HOSTS_KEPT = 256


class BudgetedBody(Protocol):
    """The bytes of a body in the budget of the process."""

    def forget(self) -> None:
        """Return the bytes to the budget. A second call does nothing."""


class TornadoRequest(HTTPServerRequest):
    """One request as seen by its handler: the head, and methods that send the response."""

    method: str
    uri: str
    headers: RequestHeaders
    body = b""  # complete when `on_<method>` begins
    connection = None  # handlers respond through the request itself
    submitted_at = 0.0  # Unix seconds
    client_gone = False
    has_head_out = False  # of the response
    is_finished = False  # the response is complete

    def __init__(
        self, method: str, target: str, version: str, headers: RequestHeaders, remote_ip: str
    ) -> None:
        self.method = method
        self.uri = target
        self.version = version
        self.headers = headers
        self.remote_ip = remote_ip

    def read_target(self) -> None:
        """Validate `Host`, and split the target into path and query. Raises HTTPInputError."""
        parts = self.headers.parts
        if parts is None:
            parts = self.headers.parts = self._parts()
        self.uri, self.host, self.path, self.query, self.query_arguments = parts

    def _parts(self) -> tuple[str, str, str, str, dict[str, list[bytes]]]:
        host = self.headers.get("Host")
        if host is None:
            if self.version != _OLD_VERSION:
                raise HTTPInputError("Missing Host header")
            host = _OLD_HOST
        path, _, query = self.uri.partition("?")
        return self.uri, _checked_host(host), path, query, _arguments(query) if query else {}

    def forget_body(self) -> None:
        """Release the body, which is not needed any more."""
        raise NotImplementedError

    def take_body(self) -> BudgetedBody | None:
        """Hand the body's bytes over to work that may outlive the request."""
        raise NotImplementedError

    def respond(
        self, status: int, reason: str, headers: dict[str, str], chunk: bytes, *, is_whole: bool
    ) -> asyncio.Future[None]:
        """Send the head of the response and a part of its body; names are in Tornado's form.

        Where the part is the whole body, the response is complete, and its status is counted.
        """
        raise NotImplementedError

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        """Send a piece of the body; the future is done when more may be written."""
        raise NotImplementedError

    def abort(self) -> None:
        """Abort the connection, because the body is incomplete."""
        raise NotImplementedError

    def finish(self, chunk: bytes, status: int) -> Any:
        """Send the end of a response whose head is sent, and count its status."""
        raise NotImplementedError

    def break_off(self, chunk: bytes, status: int) -> None:
        """End an incomplete response, whose head is sent, so that its client notices."""
        raise NotImplementedError


@lru_cache(_HOSTS_KEPT)
def _checked_host(host: str) -> str:
    """Let Tornado validate a `Host`. Raises HTTPInputError."""
    start_line = RequestStartLine("GET", "/", "HTTP/1.1")
    HTTPServerRequest(start_line=start_line, headers=HTTPHeaders({"Host": host}))
    return host


def _arguments(query: str) -> dict[str, list[bytes]]:
    """Let Tornado parse a query, within its bound on fields. Raises HTTPInputError."""
    start_line = RequestStartLine("GET", f"/?{query}", "HTTP/1.0")
    return HTTPServerRequest(start_line=start_line).query_arguments
