"""The response of a call that is refused in an overload, at a small part of a call's cost.

Such a call has no handler: it is not authenticated, so it counts for no limit and has no row, and
is known by its metric alone. Its body is dropped. A short one is read to its end, so that the
connection can be kept, because making a new one would cost more than the refusal.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from channels.families import ErrorShape
from gw.api.services import Services
from gw.errors.render import render
from gw.errors.table import NO_CHANNEL_AVAILABLE, GatewayError
from gw.http.response import WholeResponse

OVERLOADED = "The gateway has more requests than it can serve. Nothing was charged; try again."


def shed_response(services: Services, handler: type[Any]) -> WholeResponse:
    """Refuse a call to this handler, and count that."""
    services.overload.refused()
    services.metrics.call_shed(handler.route)
    return _response(handler.shape)


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
