"""The application of a server: its routes, and the services that the server uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from tornado.web import Application

from actors.clock import Clock
from channels.answers import AnswerBudget
from channels.body_budget import BodyBudget
from gw.http.drain import RequestsInFlight
from gw.http.endpoint import HttpEndpoint
from gw.http.response import WholeResponse
from gw.http.tornado import routes
from gw.http.tornado.headers import RequestHeaders
from gw.http.tornado.request import TornadoRequest


class ServerConfig(Protocol):
    """The part of the configuration that the server reads."""

    @property
    def max_body_bytes(self) -> int:
        """The largest request body that is accepted."""


class ResponseMetrics(Protocol):
    """The metrics that the server writes."""

    def http_response(self, *, route: str, status: int) -> None: ...


class CrossOrigin(Protocol):
    """Adds the headers of CORS to responses (`cors.py`)."""

    def headers(self, received: RequestHeaders, headers: Mapping[str, str]) -> dict[str, str]: ...


class ServerServices(Protocol):
    """The services that the server uses."""

    @property
    def clock(self) -> Clock: ...

    @property
    def new_id(self) -> Callable[[], UUID]: ...

    @property
    def config(self) -> ServerConfig: ...

    @property
    def metrics(self) -> ResponseMetrics: ...

    @property
    def in_flight(self) -> RequestsInFlight: ...

    @property
    def bodies(self) -> BodyBudget: ...

    @property
    def answers(self) -> AnswerBudget: ...


class HttpApplication(Application):
    """The routes and the services of the server; every handler is a `TornadoHandler`.

    `otherwise` is the endpoint of unknown paths; `cors` is None where no other origin is allowed;
    `settings` are Tornado's.
    """

    def __init__(
        self,
        endpoints: Sequence[HttpEndpoint],
        *,
        services: ServerServices,
        otherwise: HttpEndpoint,
        **settings: Any,
    ) -> None:
        super().__init__([routes.rule_of(one) for one in endpoints], **settings)
        self.cors: CrossOrigin | None = None
        self.services = services
        self.routes = routes.Routes(routes.rules_of(self), routes.RouteTarget(otherwise))

    def early_response(
        self, request: TornadoRequest, endpoint: HttpEndpoint
    ) -> WholeResponse | None:
        """Return the response of a request that is refused without a handler, else None."""
        return None
