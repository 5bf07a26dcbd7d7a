"""A call that is refused because the process is overloaded, at a small part of a call's cost.

It has no handler: nobody is asked who it is, so it counts for no limit and has no row, and is known
by its metric alone. Its body is dropped. A short one is read to its end, so that the connection can
be kept, because making a new one would cost more than the refusal.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPServerRequest

from channels.families import ErrorShape
from gw.errors.render import render
from gw.errors.table import NO_CHANNEL_AVAILABLE, GatewayError
from gw.http.body import Leftover
from gw.http.interfaces import ServerConnection

if TYPE_CHECKING:
    from gw.http.application import GatewayApplication

OVERLOADED = "The gateway has more requests than it can serve. Nothing was charged; try again."


def is_shed(request: HTTPServerRequest, handler: Any) -> bool:
    """Whether a request is refused in an overload: what is free of charge is always served."""
    return handler.billed and request.method == "POST"


class ShedRequest:
    """One refused call on its connection, driven as a handler is (`gw/http/arrival.py`)."""

    __slots__ = ("_connection", "_is_answered", "_route", "_services", "_shape")

    def __init__(
        self, application: GatewayApplication, connection: HTTPConnection, handler: Any
    ) -> None:
        self._services = application.services
        self._connection = connection
        self._shape: ErrorShape = handler.shape
        self._route: str = handler.route
        self._is_answered = False

    def __repr__(self) -> str:
        return f"<ShedRequest {self._route}>"

    def begin(self, headers: HTTPHeaders) -> None:
        """The head is there; where the connection cannot be kept its body is not waited for."""
        services = self._services
        services.overload.refused()
        services.metrics.call_shed(self._route)
        if not Leftover(headers, services.config.max_body_bytes).keeps_connection:
            self._answer({"Connection": "close"})

    def data_received(self, chunk: bytes) -> None:
        """Nobody reads it."""

    def body_received(self) -> None:
        """All of the body has been dropped."""
        if not self._is_answered:
            self._answer({})

    def on_connection_close(self) -> None:
        """It has left."""

    def _answer(self, more: dict[str, str]) -> None:
        self._is_answered = True
        headers, body = _answer(self._shape)
        trace = {"X-Gateway-Trace": self._services.new_id().hex}
        connection = cast(ServerConnection, self._connection)
        connection.begin_answer(503, "Service Unavailable", {**headers, **trace, **more}, body)
        self._services.metrics.http_response(route=self._route, status=503)
        connection.finish()


@cache
def _answer(shape: ErrorShape) -> tuple[dict[str, str], bytes]:
    """What is the same in all answers of one shape."""
    error = GatewayError(NO_CHANNEL_AVAILABLE, OVERLOADED)
    body = render(shape, error)
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **error.headers,
    }
    return headers, body
