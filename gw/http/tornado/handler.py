"""A handler with Tornado's interface, and the response that it builds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tornado.web import RequestHandler

from gw.errors import GatewayError
from gw.http.endpoint import HttpEndpoint
from gw.http.tornado.headers import spelled
from gw.http.tornado.request import TornadoRequest

_BODYLESS = (204, 304)

METHODS = RequestHandler.SUPPORTED_METHODS
_METHOD_NAMES = {name: f"on_{name.lower()}" for name in METHODS}

HandlerMethod = Callable[..., Awaitable[None]]


def methods_of(handler: type[RequestHandler]) -> tuple[str, ...]:
    """Return the methods that have an `on_<method>`."""
    return tuple(method for method, name in _METHOD_NAMES.items() if hasattr(handler, name))


class TornadoHandler(RequestHandler):
    """Tornado's handler, driven by `request.py`; its methods for endpoints work as usual.

    Each header of a response has one value. Subclasses implement the methods that raise
    NotImplementedError, which the driver calls, and `__init__`, for Tornado's prepares each handler
    for templates: it sets `application`, `request` and `endpoint`, and calls `clear`.
    """

    endpoint: HttpEndpoint
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

    def served_method(self) -> HandlerMethod | None:
        """Return the `on_<method>` of the request; None where there is none."""
        return getattr(self, _METHOD_NAMES.get(self.request.method, ""), None)

    def check(self) -> Coroutine[Any, Any, None] | None:
        """Run the checks that need no body, raising on refusal; return a coroutine if one waits."""
        raise NotImplementedError

    def refused_method(self) -> GatewayError:
        """Return the error for a method that the endpoint does not have."""
        raise NotImplementedError

    def body_received(self) -> None:
        """The body is complete, and the endpoint begins."""

    def respond_error(self, error: BaseException) -> None:
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
