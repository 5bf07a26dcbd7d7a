"""Everything that depends on Tornado's internals.

Handlers are `tornado.web.RequestHandler`s by interface. This file implements the part of Tornado
that an API needs: heads without forms and files, responses without templates, cookies, ETags and
transforms; the rest was a third of the cost of a request. The parts of Tornado that it replaces or
relies on are listed in `tests/unit/http/test_tornado_adapter.py`, which fails when a new version of
Tornado changes one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from tornado.httputil import (
    HTTPHeaders,
    HTTPInputError,
    HTTPServerRequest,
    RequestStartLine,
    format_timestamp,
)
from tornado.routing import PathMatches, Rule
from tornado.web import Application, RequestHandler

from gw.errors import GatewayError

# Bound of the cached header names, because clients and upstreams may send any.
_NAMES_KEPT = 512
# The version that may omit `Host`, and its default.
_OLD_VERSION, _OLD_HOST = "HTTP/1.0", "127.0.0.1"
# Bound of the cached hosts.
_HOSTS_KEPT = 256
_BODYLESS = (204, 304)

# Headers that may have an API key, as `Authorization` may.
KEY_HEADERS = ("X-Api-Key", "X-Alt-Api-Key", "X-Goog-Api-Key")

CHUNKED = -1  # the size of a body that comes in chunks

METHODS = RequestHandler.SUPPORTED_METHODS
_ENDPOINTS = {name: f"on_{name.lower()}" for name in METHODS}

Endpoint = Callable[..., Awaitable[None]]


# --- The head of a request ---


@lru_cache(_NAMES_KEPT)
def spelled(name: str) -> str:
    """Return a header name in Tornado's form: `Content-Type`."""
    return "-".join(word.capitalize() for word in name.split("-"))


class _Spellings(dict[str | bytes, str]):
    """Header names in Tornado's form, by another form: faster than a cached function."""

    def __missing__(self, name: str | bytes) -> str:
        field = spelled(name if isinstance(name, str) else name.decode("latin-1"))
        if len(self) < _NAMES_KEPT:
            self[name] = field
        return field


# Two, because only our own code adds to the first, and any client to the second.
_asked_for, _received = _Spellings(), _Spellings()


class RequestHeaders(HTTPHeaders):
    """The header fields of a request, by their names in Tornado's form.

    They are stored in Tornado's dictionaries without its validation: the parser has checked every
    character. Requests of a connection that repeat a head share them, and what was found in it.
    """

    key_hash: bytes | None = None
    key_text: str | None = None
    key_field: str | None = None  # in which the key was found
    # Of the request: `uri`, `host`, `path`, `query`, `query_arguments`.
    parts: tuple[str, str, str, str, dict[str, list[bytes]]] | None = None
    target: Any = None  # of its route, once the head is known to be in order
    unread_by: Any = None  # a dialect whose calls read none of its fields

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._as_list = fields
        self._combined_cache = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and spelled(name) in self._as_list

    def get(self, name: str, default: Any = None) -> Any:
        # Most names looked up are absent; Tornado's `get` raises and catches for each of them.
        values = self._as_list.get(_asked_for[name])
        if values is None:
            return default
        return values[0] if len(values) == 1 else ",".join(values)

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether one of these names, as returned by `spelled`, is present."""
        return not names.isdisjoint(self._as_list)

    def may_begin(self, prefix: str) -> bool:
        """Whether a name may begin with this prefix, as returned by `spelled`."""
        return prefix in "\n".join(self._as_list)

    def with_key(self, field: str, scheme: str, key: str) -> RequestHeaders:
        """Return the same with another key in a field, and what was found but for the key."""
        other = RequestHeaders({**self._as_list, field: [scheme + key]})
        other.parts, other.target, other.unread_by = self.parts, self.target, self.unread_by
        if self.key_field == field:
            other.key_field, other.key_text = field, key
        return other

    def set_length(self, digits: bytes) -> None:
        """Replace the Content-Length."""
        self._as_list["Content-Length"] = [digits.decode("latin-1")]
        self._combined_cache.pop("Content-Length", None)

    def body_bytes(self) -> int:
        """Return the size of the body, or CHUNKED; the parser has validated it."""
        fields = self._as_list
        if "Transfer-Encoding" in fields:
            return CHUNKED
        length = fields.get("Content-Length")
        return 0 if length is None else int(length[0])


def headers_of(lines: Sequence[tuple[bytes, bytes]]) -> RequestHeaders:
    """Return the headers of the fields, name and value, in their order."""
    fields: dict[str, list[str]] = {}
    for name, value in lines:
        field = _received[name]
        text = value.rstrip(b" \t").decode("latin-1")
        if field in fields:
            fields[field].append(text)
        else:
            fields[field] = [text]
    return RequestHeaders(fields)


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
    # Of a whole response that may be written in the loop's next turn: is called right before.
    before_write: Callable[[], None] | None = None

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


# --- A handler, and its response ---


class TornadoHandler(RequestHandler):
    """Tornado's handler, driven by `request.py`; its methods for endpoints work as usual.

    Each header of a response has one value. Subclasses implement the methods that raise
    NotImplementedError, which the driver calls, and `__init__`, for Tornado's prepares each handler
    for templates: it sets `application` and `request`, and calls `clear`.
    """

    route = "other"  # the metrics' label
    request: TornadoRequest
    # Names in Tornado's form; every response has the default headers, errors too.
    default_headers: dict[str, str] = {}  # noqa: RUF012  replaced by instances, never changed
    path_args: list[str] = []  # noqa: RUF012  the same
    _headers: dict[str, str]  # type: ignore[assignment]

    # Tornado sets these on each handler; here they are defaults of the class.
    _headers_written = False
    _finished = False
    _status_code = 200
    _reason = "OK"

    # Called by the driver

    @property
    def owner(self) -> str:
        """The account, link or session that the request takes shares of (`channels/shares.py`)."""
        return ""

    @classmethod
    def allowed_methods(cls) -> list[str]:
        """Return the methods that have an `on_<method>`."""
        return [method for method, name in _ENDPOINTS.items() if hasattr(cls, name)]

    def endpoint(self) -> Endpoint | None:
        """Return the `on_<method>` of the request; None where there is none."""
        return getattr(self, _ENDPOINTS.get(self.request.method, ""), None)

    def check(self) -> Coroutine[Any, Any, None] | None:
        """Run the checks that need no body, raising on refusal; return a coroutine if one waits."""
        raise NotImplementedError

    def refused_method(self) -> GatewayError:
        """Return the error for a method that the endpoint does not have."""
        raise NotImplementedError

    def body_received(self) -> None:
        """The body is complete, and the endpoint begins."""

    def tell(self, error: BaseException) -> None:
        """Set status, headers and body, Content-Length included, for `error`."""
        raise NotImplementedError

    def release(self) -> None:
        """Release the resources of the request, once it is answered or its client has left.

        Called at least once.
        """
        raise NotImplementedError

    # The response's head

    @property
    def has_stated_length(self) -> bool:
        """Whether the response has a Content-Length."""
        return "Content-Length" in self._headers

    def clear(self) -> None:
        """Reset the response."""
        self._headers = self.default_headers.copy()
        self._write_buffer = []
        self._status_code = 200
        self._reason = "OK"

    def set_header(self, name: str, value: Any) -> None:
        """Raises ValueError for an invalid value."""
        if type(value) is not str or not (value.isascii() and value.isprintable()):
            value = self._convert_header_value(value)  # rare values, which Tornado validates
        self._headers[spelled(name)] = value

    def clear_header(self, name: str) -> None:
        self._headers.pop(spelled(name), None)

    # Its body

    def write(self, chunk: str | bytes | dict[str, Any]) -> None:
        if type(chunk) is bytes and not self._finished:
            self._write_buffer.append(chunk)
        else:
            super().write(chunk)

    def flush(self, include_footers: bool = False) -> asyncio.Future[None]:
        """Send the bytes written so far; the future is done when more may be written."""
        chunk = self._written()
        if not self._headers_written:
            sent = self.request.respond(
                self._status_code, self._reason, self._headers, chunk, is_whole=False
            )
            self._headers_written = True
            return sent
        return self.request.write(b"" if self.request.method == "HEAD" else chunk)

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> asyncio.Future[None]:
        """Complete the response; the future is done when it is sent."""
        if self._finished:
            raise RuntimeError("finish() called twice")
        if self._write_buffer or type(chunk) is not bytes:
            if chunk is not None:
                self.write(chunk)
            chunk = self._written()
        if self._headers_written:
            self._finished = True
            last = b"" if self.request.method == "HEAD" else chunk
            done: asyncio.Future[None] = self.request.finish(last, self._status_code)
            return done
        if self._status_code in _BODYLESS:
            assert not chunk
            self._headers.pop("Content-Type", None)
        elif "Content-Length" not in self._headers:
            self._headers["Content-Length"] = str(len(chunk))
        sent = self.request.respond(
            self._status_code, self._reason, self._headers, chunk, is_whole=True
        )
        self._headers_written = self._finished = True
        return sent

    def break_off(self, chunk: bytes = b"") -> None:
        """End a response whose body is incomplete, and may not look whole."""
        self.write(chunk)
        if not self._headers_written:
            self.flush()
        self._finished = True
        self.request.break_off(self._written(), self._status_code)

    def _written(self) -> bytes:
        buffer = self._write_buffer
        if not buffer:
            return b""
        chunk = buffer[0] if len(buffer) == 1 else b"".join(buffer)
        buffer.clear()
        return chunk


@lru_cache(1)
def http_date(unix_second: int) -> str:
    """Return the text of HTTP's `Date` for a time."""
    return format_timestamp(unix_second)


# --- The rules of an application ---


def rules_of(application: Application) -> Sequence[Rule]:
    """Return the rules of an application, in their order."""
    return application.wildcard_router.rules


def matches(rule: Rule, path: str) -> bool:
    """Whether the rule matches this path."""
    return _regex(rule).match(path) is not None


def only_path(rule: Rule) -> str | None:
    """Return the path of a rule that matches exactly one path, else None."""
    regex = _regex(rule)
    path: str = regex.pattern.removesuffix("$")
    return path if not regex.groups and regex.match(path) else None


def path_args_of(rule: Rule, request: HTTPServerRequest) -> Sequence[bytes] | None:
    """Return the groups of the path if the rule matches it, else None."""
    found: Mapping[str, Any] | None = rule.matcher.match(request)
    return None if found is None else found.get("path_args", ())


def _regex(rule: Rule) -> Any:
    assert isinstance(rule.matcher, PathMatches), rule
    return rule.matcher.regex
