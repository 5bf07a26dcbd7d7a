"""All that depends on Tornado's inside, whose handlers the API's are: one file, and a test of it.

Handlers are `tornado.web.RequestHandler` by interface. What lies below is the half of Tornado that
an API needs: a head without forms and files, a response without templates, cookies, ETags and
transforms, because the other half was a third of what a request cost. It replaces or relies on the
parts of Tornado that `tests/unit/http/test_tornado_adapter.py` names; that test fails when another
Tornado has changed one of them.
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

# Our own names of headers are few; those that clients and upstreams choose could be any number.
_NAMES_KEPT = 512
# The version that may come without `Host`, and what is taken instead.
_OLD_VERSION, _OLD_HOST = "HTTP/1.0", "127.0.0.1"
# Clients name the same few hosts; of others the oldest is forgotten.
_HOSTS_KEPT = 256
_BODYLESS = (204, 304)

CHUNKED = -1  # the size of a body that comes in chunks

METHODS = RequestHandler.SUPPORTED_METHODS
_ENDPOINTS = {name: f"on_{name.lower()}" for name in METHODS}

Endpoint = Callable[..., Awaitable[None]]


# --- The head of a request ---


@lru_cache(_NAMES_KEPT)
def spelled(name: str) -> str:
    """Spell `content-TYPE` as Tornado does: `Content-Type`."""
    return "-".join(word.capitalize() for word in name.split("-"))


class _AskedFor(dict[str, str]):
    """Names that a request is asked for, by how we write them: as they are spelled."""

    def __missing__(self, name: str) -> str:
        field = spelled(name)
        if len(self) < _NAMES_KEPT:
            self[name] = field
        return field


# No function: a request is asked for some fifteen, and only our own code asks.
_asked_for = _AskedFor()


class RequestHeaders(HTTPHeaders):
    """The fields of one request, by their names as Tornado spells them.

    They are put straight into Tornado's dictionaries, because the parser has checked every
    character.
    """

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._as_list = fields
        self._combined_cache = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and spelled(name) in self._as_list

    def get(self, name: str, default: Any = None) -> Any:
        # Most of what a request is asked for it does not have; Tornado's raises for each of them.
        values = self._as_list.get(_asked_for[name])
        if values is None:
            return default
        return values[0] if len(values) == 1 else ",".join(values)

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether one of these is there, as they are `spelled`."""
        return not names.isdisjoint(self._as_list)

    def may_begin(self, prefix: str) -> bool:
        """Whether some name may begin so, as it is `spelled`."""
        return prefix in "\n".join(self._as_list)

    def body_bytes(self) -> int:
        """Return the size of the body behind this head, or CHUNKED; the parser has checked it."""
        fields = self._as_list
        if "Transfer-Encoding" in fields:
            return CHUNKED
        length = fields.get("Content-Length")
        return 0 if length is None else int(length[0])


class FieldNames:
    """Header names as Tornado spells them, remembered. One per listener."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}

    def spelled(self, name: bytes) -> str:
        """`content-TYPE` as `Content-Type`, which is known from then on."""
        field = self.known.get(name)
        if field is None:
            field = spelled(name.decode("latin-1"))
            if len(self.known) < _NAMES_KEPT:
                self.known[name] = field
        return field


def headers_of(lines: Sequence[tuple[bytes, bytes]], names: FieldNames) -> RequestHeaders:
    """The fields, name and value, as they came."""
    fields: dict[str, list[str]] = {}
    known = names.known
    for name, value in lines:
        field = known.get(name) or names.spelled(name)
        text = value.rstrip(b" \t").decode("latin-1")
        if field in fields:
            fields[field].append(text)
        else:
            fields[field] = [text]
    return RequestHeaders(fields)


class HeldBody(Protocol):
    """The bytes of a body, as they are counted."""

    def forget(self) -> None:
        """They are no longer held. A second call does nothing."""


class TornadoRequest(HTTPServerRequest):
    """One request as its handler knows it: the head, and how the response is sent."""

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
        """Judge `Host`, and take path and query from the target. Raises HTTPInputError."""
        host = self.headers.get("Host")
        if host is None:
            if self.version != _OLD_VERSION:
                raise HTTPInputError("Missing Host header")
            host = _OLD_HOST
        self.host = _checked_host(host)
        assert self.uri is not None
        self.path, _, query = self.uri.partition("?")
        self.query = query
        self.query_arguments = self.arguments = _arguments(query) if query else {}

    def forget_body(self) -> None:
        """Let go of the body: it is not needed any more."""
        raise NotImplementedError

    def take_body(self) -> HeldBody | None:
        """Hand over the right to hold the body's bytes, to work that may outlive the request."""
        raise NotImplementedError

    def respond(
        self, status: int, reason: str, headers: dict[str, str], chunk: bytes
    ) -> asyncio.Future[None]:
        """Send the head of the response and some of its body; names must be well spelled."""
        raise NotImplementedError

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        """Send a piece of the body; the future is done when the client keeps up."""
        raise NotImplementedError

    def abort(self) -> None:
        """Break the connection: what was sent of the body is not all of it."""
        raise NotImplementedError

    def finish(self, chunk: bytes, status: int, sent: asyncio.Future[None] | None) -> Any:
        """Send the last of the response, whose status is counted."""
        raise NotImplementedError


@lru_cache(_HOSTS_KEPT)
def _checked_host(host: str) -> str:
    """Have Tornado judge a `Host`. Raises HTTPInputError."""
    start_line = RequestStartLine("GET", "/", "HTTP/1.1")
    HTTPServerRequest(start_line=start_line, headers=HTTPHeaders({"Host": host}))
    return host


def _arguments(query: str) -> dict[str, list[bytes]]:
    """Have Tornado read a query, within its bound on fields. Raises HTTPInputError."""
    start_line = RequestStartLine("GET", f"/?{query}", "HTTP/1.0")
    return HTTPServerRequest(start_line=start_line).query_arguments


# --- A handler, and its response ---


class TornadoHandler(RequestHandler):
    """Tornado's handler: what an endpoint calls works as ever, driven by `request.py`.

    A response's headers have one value each. The methods below that raise NotImplementedError are
    what the driver asks of a handler.
    """

    route = "other"  # the metrics' label
    request: TornadoRequest
    _headers: dict[str, str]  # type: ignore[assignment]  # by names as `spelled` spells them

    # What Tornado sets on each handler that it makes; here until something else is true.
    _headers_written = False
    _finished = False
    _status_code = 200
    _reason = "OK"

    def __init__(self, application: Application, request: TornadoRequest, **options: Any) -> None:
        # Not Tornado's own, which prepares each handler for templates.
        self.application = application
        self.request = request
        self.clear()
        if options:
            self.initialize(**options)

    # What the driver asks

    @classmethod
    def allowed_methods(cls) -> list[str]:
        """Return the methods that have an `on_<method>`."""
        return [method for method, name in _ENDPOINTS.items() if hasattr(cls, name)]

    def endpoint(self) -> Endpoint | None:
        """Return the `on_<method>` of the request; None where there is none."""
        name = _ENDPOINTS.get(self.request.method or "")
        return getattr(self, name, None) if name is not None else None

    def check(self) -> Coroutine[Any, Any, None] | None:
        """Refuse what can be refused without the body, by raising; return what must be awaited."""
        raise NotImplementedError

    def refused_method(self) -> GatewayError:
        """Return the error for a method that the endpoint does not have."""
        raise NotImplementedError

    def body_received(self) -> None:
        """Note that the body is complete and the endpoint begins."""

    def tell(self, error: BaseException) -> None:
        """Set status, headers and body, Content-Length included, for `error`."""
        raise NotImplementedError

    def release(self) -> None:
        """Give back what the request holds, the moment it is answered or its client has left.

        Called at least once, possibly more often.
        """
        raise NotImplementedError

    # The response's head

    @property
    def has_stated_length(self) -> bool:
        """Whether the head of the response states how long its body is."""
        return "Content-Length" in self._headers

    def clear(self) -> None:
        """Forget what there is of the response."""
        self._headers = {}
        self._write_buffer = []
        self._status_code = 200
        self._reason = "OK"
        self.set_default_headers()

    def set_header(self, name: str, value: Any) -> None:
        """Raises ValueError for a value that no header may have."""
        if type(value) is not str or not (value.isascii() and value.isprintable()):
            value = self._convert_header_value(value)  # the rare ones, which Tornado judges
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
        """Send what was written; the future is done when the client keeps up."""
        chunk = self._written()
        if not self._headers_written:
            return self._begin(chunk)
        return self.request.write(b"" if self.request.method == "HEAD" else chunk)

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> asyncio.Future[None]:
        """Complete the response; the future is done when it is out."""
        if self._finished:
            raise RuntimeError("finish() called twice")
        if chunk is not None:
            self.write(chunk)
        last = self._written()
        sent: asyncio.Future[None] | None = None
        if self._headers_written:
            last = b"" if self.request.method == "HEAD" else last
        else:
            if self._status_code in _BODYLESS:
                assert not last
                self._headers.pop("Content-Type", None)
            elif "Content-Length" not in self._headers:
                self._headers["Content-Length"] = str(len(last))
            sent = self._begin(last)
        self._finished = True
        done: asyncio.Future[None] = self.request.finish(last, self._status_code, sent)
        return done

    def _begin(self, chunk: bytes) -> asyncio.Future[None]:
        sent = self.request.respond(self._status_code, self._reason, self._headers, chunk)
        self._headers_written = True
        return sent

    def _written(self) -> bytes:
        buffer = self._write_buffer
        if not buffer:
            return b""
        chunk = buffer[0] if len(buffer) == 1 else b"".join(buffer)
        buffer.clear()
        return chunk


class HttpDate:
    """Writes the time as HTTP does, once a second."""

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def at(self, unix_seconds: float) -> str:
        """Return the second that this is in."""
        second = int(unix_seconds)
        if second != self._second:
            self._second = second
            self._text = format_timestamp(second)
        return self._text


# --- The rules of an application ---


def rules_of(application: Application) -> Sequence[Rule]:
    """Return the rules that an application was made with, in their order."""
    return application.wildcard_router.rules


def matches(rule: Rule, path: str) -> bool:
    """Whether the rule takes this path."""
    return _regex(rule).match(path) is not None


def only_path(rule: Rule) -> str | None:
    """Return the path of a rule that has no groups and is met by its own text; None for others."""
    regex = _regex(rule)
    path: str = regex.pattern.removesuffix("$")
    return path if not regex.groups and regex.match(path) else None


def path_args_of(rule: Rule, request: HTTPServerRequest) -> Sequence[bytes] | None:
    """Return the parts of the path that a handler is called with; None for another path."""
    found: Mapping[str, Any] | None = rule.matcher.match(request)
    return None if found is None else found.get("path_args", ())


def _regex(rule: Rule) -> Any:
    assert isinstance(rule.matcher, PathMatches), rule
    return rule.matcher.regex
