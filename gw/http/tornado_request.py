"""A request as handlers read it: Tornado's, made of what an API needs and checked as Tornado does.

Written against `HTTPServerRequest.__init__` of Tornado 6.6.1, to be reread before moving to
another. Left out is what only web pages want: files, form fields, the arguments twice.
"""

from __future__ import annotations

from functools import lru_cache

from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPServerRequest,
    RequestStartLine,
)

# The version that may come without `Host`, and what is taken in its place.
_OLD_VERSION, _OLD_HOST = "HTTP/1.0", "127.0.0.1"
# Clients name the same few hosts; of others the oldest is forgotten.
_HOSTS_KEPT = 256


class Request(HTTPServerRequest):
    """The head of one request. Raises HTTPInputError when it will not do."""

    body = b""  # the handler takes it in itself (`body.py`)

    def __init__(
        self, connection: HTTPConnection, start_line: RequestStartLine, headers: HTTPHeaders
    ) -> None:
        self.method, uri, self.version = start_line
        self.uri = uri
        self.headers = headers
        self.connection = connection
        self.remote_ip = connection.context.remote_ip  # type: ignore[attr-defined]
        host = headers.get("Host")
        if host is None:
            if self.version != _OLD_VERSION:
                raise HTTPInputError("Missing Host header")
            host = _OLD_HOST
        self.host = _checked_host(host)
        self.path, _, query = uri.partition("?")
        self.query = query
        self.query_arguments = _arguments(self) if query else {}
        self.arguments = self.query_arguments

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.path}>"


@lru_cache(_HOSTS_KEPT)
def _checked_host(host: str) -> str:
    """Have Tornado judge a `Host`. Raises HTTPInputError."""
    start_line = RequestStartLine("GET", "/", "HTTP/1.1")
    HTTPServerRequest(start_line=start_line, headers=HTTPHeaders({"Host": host}))
    return host


def _arguments(request: Request) -> dict[str, list[bytes]]:
    """Have Tornado read a query, within its bound on fields. Raises HTTPInputError."""
    start_line = RequestStartLine("GET", f"/?{request.query}", "HTTP/1.0")
    return HTTPServerRequest(start_line=start_line).query_arguments
