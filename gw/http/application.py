"""What the public server serves: routes to handlers, and what the server itself asks of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from tornado.web import Application

from actors.clock import Clock
from gw.http.body import BodyBudget
from gw.http.drain import RequestsInFlight
from gw.http.response import WholeResponse
from gw.http.routing import Routes, Target
from gw.http.tornado_adapter import HttpDate, TornadoRequest, rules_of


class ServerConfig(Protocol):
    """The part of the configuration that the server reads."""

    @property
    def max_body_bytes(self) -> int:
        """The largest request body that is accepted."""


class ResponseMetrics(Protocol):
    """What the server counts."""

    def http_response(self, *, route: str, status: int) -> None: ...


class ServerServices(Protocol):
    """What the server uses of the services that handlers have."""

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


class HttpApplication(Application):
    """The routes with what the server uses; every handler is a `TornadoHandler`.

    `otherwise` handles every other path; `settings` are Tornado's, for what only some rooms need.
    """

    def __init__(
        self,
        handlers: list[Any],
        *,
        services: ServerServices,
        otherwise: type[Any],
        **settings: Any,
    ) -> None:
        super().__init__(handlers, **settings)
        self.services = services
        self.date = HttpDate()
        self.routes = Routes(rules_of(self), Target(otherwise, {}))

    def early_response(self, request: TornadoRequest, handler: type[Any]) -> WholeResponse | None:
        """Return the response of a request that is to have no handler at all."""
        return None
