"""What the HTTP client does not say of its connections: was it new, did it answer, did it break.

The one place that leans on aiohttp's inner classes; `http.py` beside it is the interface. With
another client this file goes.
"""

from __future__ import annotations

import asyncio
import functools
import struct
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

try:
    import fcntl
    import termios
except ImportError:  # not a Unix: what is unacknowledged cannot be asked
    fcntl = None  # type: ignore[assignment]

DNS_CACHE_SECONDS = 60
# Below the 60-75 s after which servers and balancers commonly close an idle connection.
IDLE_SECONDS = 30.0


class ConnectionLost(aiohttp.ClientError):
    """A connection went away before the head of its answer was complete.

    `was_stale`: it had been kept alive, and the upstream closed it before it had all of the
    request; so the request was not carried out.
    """

    def __init__(self, cause: BaseException, *, was_stale: bool, had_answered: bool) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.was_stale = was_stale
        self.had_answered = had_answered


class UpstreamConnection(ResponseHandler):
    """A connection that tells how it was lost, and that is gone at once when it is closed."""

    _exchanges = 0
    _is_written = False
    _has_answered = False
    _was_closed_on_request = False

    def set_response_params(self, **params: Any) -> None:
        """Begin the next request and answer."""
        self._exchanges += 1
        self._is_written = self._has_answered = False
        super().set_response_params(**params)

    def start_timeout(self) -> None:
        """The request has been written to its end."""
        self._is_written = True
        super().start_timeout()

    def eof_received(self) -> None:
        """Note whether the upstream closed the connection without all of the request.

        The end of its stream acknowledges what it had received by then. A reset does not, and so
        proves nothing.
        """
        if self.transport is not None:
            self._was_closed_on_request = not self._is_written or _has_unacknowledged(
                self.transport
            )
        super().eof_received()

    def data_received(self, data: bytes) -> None:
        """Note that there was an answer; an empty piece is the parser being resumed."""
        if data:
            self._has_answered = True
        super().data_received(data)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Pass on a loss with what is known of it. A malformed answer is another matter."""
        if isinstance(exc, aiohttp.ClientConnectionError | OSError):
            exc = ConnectionLost(
                exc,
                was_stale=self._exchanges > 1 and self._was_closed_on_request,
                had_answered=self._has_answered,
            )
        else:
            # Broken within its body (a chunk's size): whoever reads that is not told otherwise.
            self._fail_payload(f"Malformed answer: {exc}")
        super().set_exception(exc, *cause)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let a reset fail an answer without a length, which would else count as its end."""
        if exc is not None:
            self._fail_payload(f"Connection lost: {exc!r}")
        super().connection_lost(exc)

    def close(self) -> None:
        """Close without sending what is still buffered: the upstream stops working at once."""
        self.abort()

    def abort(self) -> None:
        """Tell whoever waits for more of the answer, which nobody else would."""
        self._fail_payload("Connection closed.")
        super().abort()

    def _fail_payload(self, reason: str) -> None:
        payload = self._payload
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError(reason))


def _has_unacknowledged(transport: asyncio.BaseTransport) -> bool:
    """Whether anything written is still on its way; False where that cannot be asked."""
    if fcntl is None:
        return False
    sock = transport.get_extra_info("socket")
    try:
        answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
    except OSError:
        return False
    return any(answer)


class Connector(aiohttp.TCPConnector):
    """Pools connections without a limit of its own: the channels' slots are the limit."""

    def __init__(self, *, is_pooling: bool) -> None:
        keeping: dict[str, Any] = (
            {"keepalive_timeout": IDLE_SECONDS} if is_pooling else {"force_close": True}
        )
        super().__init__(limit=0, ttl_dns_cache=DNS_CACHE_SECONDS, **keeping)
        connection: type[ResponseHandler] = UpstreamConnection
        self._factory = functools.partial(connection, loop=self._loop)


class RequestBody(aiohttp.BytesPayload):
    """A request body of any size as it is, without the client's warning about large ones."""

    def __init__(self, value: bytes) -> None:
        super().__init__(b"", content_type="application/json")
        self._value = value
        self._size = len(value)
