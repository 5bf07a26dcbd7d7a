"""The public listener's application: Tornado's, with a short way from a head to its handler."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, cast

from tornado.httputil import HTTPConnection
from tornado.web import Application

from channels.families import ErrorShape
from gw.api.base import NotFoundHandler
from gw.api.services import Services
from gw.errors.render import render
from gw.errors.table import INVALID_REQUEST, GatewayError
from gw.http.arrival import Arrival
from gw.http.dates import HttpDate
from gw.http.interfaces import ServerConnection
from gw.http.routing import Routes, Target
from metrics.masks import redact


class GatewayApplication(Application):
    """The routes with what their handlers may use; every handler is an `Exchange`.

    `settings` are Tornado's, for what only some rooms need.
    """

    def __init__(self, handlers: list[Any], *, services: Services, **settings: Any) -> None:
        super().__init__(handlers, **settings)
        self.services = services
        self.date = HttpDate()
        self.routes = Routes(self.wildcard_router.rules, Target(NotFoundHandler, {}))

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> Arrival:
        return Arrival(self, request_conn)

    def refuse(self, connection: HTTPConnection, error: GatewayError, target: str) -> None:
        """Answer a request that never reaches its handler, and end its connection.

        `target` is what it asked for, as far as its head was read: whose errors have which shape.
        """
        services = self.services
        status = error.kind.http_status
        # What is quoted of the request may be its key.
        shape: ErrorShape = self.routes.handler_at(target).shape
        body = render(shape, GatewayError(error.kind, redact(error.message)))
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            "X-Gateway-Trace": services.new_id().hex,
            **error.headers,
        }
        cast(ServerConnection, connection).begin_answer(
            status, HTTPStatus(status).phrase, headers, body
        )
        connection.finish()
        services.metrics.http_response(route="malformed", status=status)

    def refuse_framing(self, connection: HTTPConnection, message: str, target: str) -> None:
        """Answer a request whose head will not do, and end its connection."""
        self.refuse(connection, GatewayError(INVALID_REQUEST, message), target)
