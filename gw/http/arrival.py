"""One request from its head to its handler.

Requests whose framing cannot be trusted are answered here, in our shape and with a trace id. What
does not even parse as HTTP (a broken request line or header line) never gets this far:
`connection.py` answers it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)

from gw.api.shed import ShedRequest, is_shed
from gw.http.framing import framing_fault, in_origin_form, settle_expectation
from gw.http.tornado_request import Request

if TYPE_CHECKING:
    from gw.http.application import GatewayApplication
    from gw.http.exchange import Exchange


class Arrival(HTTPMessageDelegate):
    """Passes what the server reads of a request on to the handler that it is for."""

    __slots__ = ("_application", "_connection", "_handler")

    def __init__(self, application: GatewayApplication, connection: HTTPConnection) -> None:
        self._application = application
        self._connection = connection
        # None for a request that is refused for its head.
        self._handler: Exchange | ShedRequest | None = None

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        """Find the handler; what is returned is to be waited for before the body may come."""
        assert isinstance(start_line, RequestStartLine)
        application = self._application
        fault = framing_fault(start_line.version, headers)
        if fault is None:
            settle_expectation(start_line.version, headers)
            try:
                request = Request(self._connection, in_origin_form(start_line), headers)
            except HTTPInputError as error:  # the Host header, the query string
                fault = f"{str(error)[:200]}."
            else:
                target = application.routes.find(request)
                if application.services.overload.is_full and is_shed(request, target.handler):
                    shed = ShedRequest(application, self._connection, target.handler)
                    self._handler = shed
                    shed.begin(headers)
                    return None
                handler = target.handler(application, request, **target.options)
                self._handler = handler
                waiting: Awaitable[None] | None = handler.begin(target.path_args)
                return waiting
        # The answer ends the connection. Without these the connection looks for no body, about
        # which it would complain a second time, on the wire.
        for name in ("Content-Length", "Transfer-Encoding"):
            headers.pop(name, None)
        application.refuse_framing(
            self._connection, f"The request is malformed: {fault}", in_origin_form(start_line).path
        )
        return None

    def data_received(self, chunk: bytes) -> None:
        if self._handler is not None:
            self._handler.data_received(chunk)

    def finish(self) -> None:
        if self._handler is not None:
            self._handler.body_received()

    def on_connection_close(self) -> None:
        if self._handler is not None:
            self._handler.on_connection_close()
