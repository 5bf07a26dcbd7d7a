"""The application of the public server, and its responses without a handler.

A call that is refused in an overload costs a fraction of a call: it has no handler, is not
authenticated, counts for no limit, has no row, and appears in a metric only. Its body is dropped.
A short one is read to its end to keep the connection, because a new one would cost more than the
refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from channels.family import ErrorShape
from gw.api.endpoint import Endpoint
from gw.api.failures import shape_at
from gw.api.handler import ApiHandler
from gw.api.services import Services
from gw.error_bodies import render
from gw.errors import NO_CHANNEL_AVAILABLE, NOT_FOUND, GatewayError
from gw.http.application import HttpApplication
from gw.http.cors import Cors
from gw.http.endpoint import HttpEndpoint
from gw.http.response import WholeResponse
from gw.http.rows import checked_table
from gw.http.tornado.request import TornadoRequest
from gw.http.websocket import SocketBook


class NotFoundHandler(ApiHandler):
    """Every path without an endpoint (reference 1.9)."""

    def refused_method(self) -> GatewayError:
        return GatewayError(NOT_FOUND, "There is no such endpoint.")

    def shape_of(self, error: GatewayError) -> ErrorShape:
        return shape_at(self.request)


_NOT_FOUND = Endpoint("not_found", r".*", (), NotFoundHandler, auth="none")

OVERLOADED = "The gateway has more requests than it can serve. Nothing was charged; try again."


def shed_response(services: Services, endpoint: HttpEndpoint) -> WholeResponse:
    """Count a refused call of this endpoint, and return its response."""
    services.overload.refused()
    services.metrics.call_shed(endpoint.route)
    return _response(endpoint.shape)


@cache
def _response(shape: ErrorShape) -> WholeResponse:
    error = GatewayError(NO_CHANNEL_AVAILABLE, OVERLOADED)
    body = render(shape, error)
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **error.headers,
    }
    return WholeResponse(error.http_status, headers, body)


class GatewayApplication(HttpApplication):
    """The application of the public server; every handler is an `ApiHandler`.

    Raises MisstatedRow.
    """

    services: Services

    def __init__(
        self, endpoints: Sequence[Endpoint], *, services: Services, **settings: Any
    ) -> None:
        rows = checked_table(endpoints, Endpoint, lambda one: (one.route, one.path))
        super().__init__(rows, services=services, otherwise=_NOT_FOUND, **settings)
        origins = services.config.cors_origins
        self.cors = self._cors = Cors(origins) if origins else None
        self.sockets = SocketBook(services.bodies)

    def early_response(
        self, request: TornadoRequest, endpoint: HttpEndpoint
    ) -> WholeResponse | None:
        """Return the response of a CORS preflight, or of a billed call shed in an overload."""
        services = self.services
        if self._cors is not None and (early := self._cors.preflight(request, endpoint)):
            return early
        if services.overload.is_full and endpoint.billed and request.method == "POST":
            return shed_response(services, endpoint)
        return None
