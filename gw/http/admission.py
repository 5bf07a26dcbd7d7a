"""What a request passes before its body: the same for HTTP requests and messages of a WebSocket."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from gw.errors import ENDING, NO_CHANNEL_AVAILABLE, GatewayError
from gw.http.drain import RequestsInFlight
from gw.http.tornado.handler import TornadoHandler


def check_admission(
    handler: TornadoHandler, in_flight: RequestsInFlight, path_args: Sequence[bytes] = ()
) -> Coroutine[Any, Any, None] | None:
    """Run what needs no body; return a coroutine for the rest where a check waits.

    Raises GatewayError, and so may the coroutine.
    """
    if in_flight.is_refusing:
        raise GatewayError(NO_CHANNEL_AVAILABLE, ENDING)
    handler.path_args = list(map(handler.decode_argument, path_args)) if path_args else []
    if handler.served_method() is None:
        raise handler.refused_method()
    return handler.check()
