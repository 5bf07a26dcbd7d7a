"""The public application: the routes with what their handlers may use."""

from __future__ import annotations

from typing import Any

from gw.api.base import NotFoundHandler
from gw.api.services import Services
from gw.api.shed import shed_response
from gw.http.application import HttpApplication
from gw.http.response import WholeResponse
from gw.http.tornado_adapter import TornadoRequest


class GatewayApplication(HttpApplication):
    """What the public server serves; every handler is an `ApiHandler`."""

    services: Services

    def __init__(self, handlers: list[Any], *, services: Services, **settings: Any) -> None:
        super().__init__(handlers, services=services, otherwise=NotFoundHandler, **settings)

    def early_response(self, request: TornadoRequest, handler: type[Any]) -> WholeResponse | None:
        """Shed calls in an overload: what is free of charge is always served."""
        services = self.services
        if services.overload.is_full and handler.billed and request.method == "POST":
            return shed_response(services, handler)
        return None
