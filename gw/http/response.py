"""An answer on its way to the client: its status, its headers, its body.

The half of Tornado's RequestHandler that an API needs. What serves web pages (templates, cookies,
ETags, transforms) is left out, because it was a third of what a request cost. Written against
`__init__`, `clear`, `set_header`, `flush` and `finish` of Tornado 6.6.1's RequestHandler, to be
reread before moving to another.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from gw.api.services import Services
from gw.http.interfaces import ServerConnection
from gw.http.names import spelled

if TYPE_CHECKING:
    from gw.http.application import GatewayApplication

_BODYLESS = (204, 304)


class AnswerHandler(RequestHandler):
    """Writes one answer. Every header has one value."""

    # What Tornado sets on each handler that it makes; here until something else is true.
    _headers_written = False
    _finished = False
    _status_code = 200
    _reason = "OK"

    application: GatewayApplication
    _headers: dict[str, str]  # type: ignore[assignment]  # by names as `spelled` spells them

    def __init__(
        self, application: GatewayApplication, request: HTTPServerRequest, **options: Any
    ) -> None:
        # Not Tornado's own, which prepares each handler for templates.
        self.application = application
        self.request = request
        self.services: Services = application.services
        self._connection = cast(ServerConnection, request.connection)
        self.call_id = self.services.new_id()
        self.clear()
        self._connection.set_close_callback(self.on_connection_close)
        if options:
            self.initialize(**options)

    def account(self, status: int) -> None:
        """Count the answer, which is complete."""

    # --- Its head ---

    def clear(self) -> None:
        """Forget what there is of the answer."""
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

    # --- Its body ---

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
        return self._connection.write(b"" if self.request.method == "HEAD" else chunk)

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> asyncio.Future[None]:
        """Complete the answer; the future is done when it is out."""
        if self._finished:
            raise RuntimeError("finish() called twice")
        if chunk is not None:
            self.write(chunk)
        connection = self._connection
        connection.set_close_callback(None)
        last = self._written()
        if self._headers_written:
            sent = connection.finish_with(b"" if self.request.method == "HEAD" else last)
        else:
            if self._status_code in _BODYLESS:
                assert not last
                self._headers.pop("Content-Type", None)
            elif "Content-Length" not in self._headers:
                self._headers["Content-Length"] = str(len(last))
            sent = self._begin(last)
            connection.finish()
        self._finished = True
        self.account(self._status_code)
        self.on_finish()
        return sent

    def _begin(self, chunk: bytes) -> asyncio.Future[None]:
        headers = self._headers
        headers["Date"] = self.application.date.at(self.services.clock.now())
        if self.services.in_flight.is_draining:
            headers["Connection"] = "close"
        sent = self._connection.begin_answer(self._status_code, self._reason, headers, chunk)
        self._headers_written = True
        return sent

    def _written(self) -> bytes:
        buffer = self._write_buffer
        if not buffer:
            return b""
        chunk = buffer[0] if len(buffer) == 1 else b"".join(buffer)
        buffer.clear()
        return chunk
