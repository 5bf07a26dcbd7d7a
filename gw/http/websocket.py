"""A WebSocket on a client's connection, and the requests received over it.

Frames are Tornado's (`tornado.websocket`), over a connection handed over after the hand-shake:
`SocketStream` is the stream of Tornado's protocol, `Socket` sends and receives messages. A message
may become a `SocketRequest`, which an endpoint's handler serves like one over HTTP: it is checked,
limited and counted as one, and its response is sent to a `Sink`. The parts of Tornado's internals
in use are listed in `tests/unit/http/test_tornado_adapter.py`.

Besides its writes, a connection holds at most one incoming message of `message_bytes_max`,
MESSAGES_WAITING_MAX waiting ones, and READ_AHEAD_BYTES.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from tornado.ioloop import IOLoop
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketProtocol13, _WebSocketParams

from gw.errors import (
    ENDING,
    INVALID_REQUEST,
    NO_CHANNEL_AVAILABLE,
    RATE_LIMIT_EXCEEDED,
    UPGRADE_REQUIRED,
    GatewayError,
)
from gw.http.application import HttpApplication, Outbound
from gw.http.tornado_adapter import BudgetedBody, RequestHeaders, TornadoHandler, TornadoRequest
from metrics.logs import EventLog

# Received messages that wait to be served; while they do, reading pauses.
MESSAGES_WAITING_MAX = 1
READ_AHEAD_BYTES = 64 * 1024
# The interval of pings, and the timeout of a pong.
PING_SECONDS, PONG_SECONDS = 30.0, 20.0
# A smaller message does not count for the budget of bodies of the process.
SMALL_MESSAGE_BYTES = 64 * 1024

# The sockets of one account in a process.
ACCOUNT_SOCKETS_MAX = 100

VERSION = "13"
_TEXT = 0x1
# Headers of a hand-shake that its requests do not have.
_OF_HANDSHAKE = ("Upgrade", "Connection", "Content-Length", "Transfer-Encoding", "Expect")
_SOCKET = "Sec-Websocket-"
# What is left of a hand-shake behind a proxy that removes the headers of one connection.
_KEPT_BY_PROXIES = ("Sec-WebSocket-Key", "Sec-WebSocket-Version")

_LOG = EventLog("gw.web")


def is_handshake(headers: Mapping[str, str]) -> bool:
    """Whether a request is a WebSocket hand-shake, also if a proxy has taken its `Upgrade` out."""
    return _asks_upgrade(headers) or any(name in headers for name in _KEPT_BY_PROXIES)


def _asks_upgrade(headers: Mapping[str, str]) -> bool:
    return headers.get("Upgrade", "").strip().lower() == "websocket"


def check_handshake(headers: Mapping[str, str]) -> None:
    """Raise GatewayError for an invalid hand-shake (RFC 6455, 4.2.1).

    One without `Upgrade` or its word in `Connection` came through a proxy that passes no WebSocket:
    it gets 426, after which clients continue over HTTP at once.
    """
    words = {one.strip().lower() for one in headers.get("Connection", "").split(",")}
    if not _asks_upgrade(headers) or "upgrade" not in words:
        raise GatewayError(
            UPGRADE_REQUIRED,
            "A proxy before the gateway passes no WebSocket. Use POST over HTTP.",
            headers={"Upgrade": "websocket"},
        )
    if headers.get("Sec-WebSocket-Version", "").strip() != VERSION:
        raise GatewayError(
            UPGRADE_REQUIRED,
            f"The WebSocket version has to be {VERSION}.",
            headers={"Sec-WebSocket-Version": VERSION},
        )
    if not headers.get("Sec-WebSocket-Key", "").strip():
        raise GatewayError(INVALID_REQUEST, "The WebSocket hand-shake is not complete.")


class Served(Protocol):
    """The request of a hand-shake."""

    headers: RequestHeaders
    client_gone: bool

    def hand_over(self, headers: Mapping[str, str]) -> Outbound:
        """Accept the hand-shake; further bytes are for the transport's next protocol."""


class SocketBook:
    """The sockets of a process: their number per account, and their buffers. One per process."""

    def __init__(self) -> None:
        self.open: Counter[str] = Counter()
        self.kept_bytes = 0

    def __repr__(self) -> str:
        return f"<SocketBook {self.open.total()} open {self.kept_bytes} bytes>"

    def enter(self, account_id: str) -> None:
        """Count a socket. Raises GatewayError if the account has too many."""
        if self.open[account_id] >= ACCOUNT_SOCKETS_MAX:
            raise GatewayError(
                RATE_LIMIT_EXCEEDED, f"The account has {ACCOUNT_SOCKETS_MAX} WebSockets open."
            )
        self.open[account_id] += 1

    def leave(self, account_id: str) -> None:
        self.open[account_id] -= 1
        if not self.open[account_id]:
            del self.open[account_id]


class SocketStream(asyncio.BufferedProtocol):
    """The connection after its hand-shake, with the interface of a stream for Tornado's protocol.

    The previous protocol still handles the loss of the connection and back-pressure.
    """

    def __init__(self, out: Outbound) -> None:
        self._out = out
        self._before = cast(asyncio.BufferedProtocol, out.transport.get_protocol())
        self._buffer = bytearray()
        self._wanted = 0
        self._more: Future[None] | None = None
        self._is_lost = False
        self._is_paused = False
        self.io_loop = IOLoop.current()
        out.transport.set_protocol(self)

    def get_buffer(self, sizehint: int) -> Any:
        return self._before.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer += memoryview(self._before.get_buffer(nbytes))[:nbytes]
        if self._more is not None and len(self._buffer) >= self._wanted:
            self._wake()
        if len(self._buffer) > self._wanted + READ_AHEAD_BYTES and not self._is_paused:
            self._is_paused = True
            self._out.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._wake()
        self._before.connection_lost(exc)

    def pause_writing(self) -> None:
        self._before.pause_writing()

    def resume_writing(self) -> None:
        self._before.resume_writing()

    def _wake(self) -> None:
        more, self._more = self._more, None
        if more is not None and not more.done():
            more.set_result(None)

    async def read_bytes(self, count: int) -> bytes:
        """Return `count` bytes. Raises StreamClosedError."""
        while len(self._buffer) < count:
            if self.closed():
                raise StreamClosedError
            self._wanted = count
            if self._is_paused:
                self._is_paused = False
                self._out.transport.resume_reading()
            self._more = self._out.loop.create_future()
            await self._more
        self._wanted = 0
        taken = bytes(memoryview(self._buffer)[:count])
        del self._buffer[:count]
        return taken

    def write(self, data: bytes) -> Future[None]:
        return self._out.write(data)

    def close(self) -> None:
        self._out.transport.close()
        self._wake()

    def closed(self) -> bool:
        return self._is_lost or self._out.transport.is_closing()


class Socket:
    """The messages of one WebSocket. `serve` accepts the hand-shake and reads until it is closed.

    It is the handler of Tornado's protocol, which calls the methods below `send`.
    """

    open_args: tuple[Any, ...] = ()
    open_kwargs: Mapping[str, Any] = {}

    def __init__(self, request: Served, *, message_bytes_max: int, headers: Mapping[str, str]):
        self.request = request
        self._headers = dict(headers)
        self._stream: SocketStream | None = None
        self._messages: asyncio.Queue[bytes] = asyncio.Queue(MESSAGES_WAITING_MAX)
        params = _WebSocketParams(
            ping_interval=PING_SECONDS,
            ping_timeout=PONG_SECONDS,
            max_message_size=message_bytes_max,
        )
        self._protocol = WebSocketProtocol13(cast(Any, self), False, params)

    def __repr__(self) -> str:
        return f"<Socket {'closing' if self.is_closing else 'open'}>"

    async def serve(self) -> None:
        """Read messages until the socket is closed."""
        await self._protocol.accept_connection(cast(Any, self))

    @property
    def is_closing(self) -> bool:
        return self._stream is None or self._protocol.is_closing()

    async def message(self) -> bytes:
        """Return the next message, in UTF-8."""
        return await self._messages.get()

    def send(self, text: bytes) -> Future[None]:
        """Send a message; the future is done when the client keeps up, or fails on a disconnect."""
        assert self._stream is not None
        if self.is_closing:
            left: Future[None] = asyncio.get_running_loop().create_future()
            left.set_exception(StreamClosedError())
            left.exception()  # marks it as retrieved: awaiting it is optional
            return left
        return self._protocol._write_frame(True, _TEXT, text)  # its public method makes tasks

    def close(self, code: int, reason: str) -> None:
        """Close the socket once. The client has some seconds to close its side."""
        if not self.is_closing:
            self._protocol.close(code, reason)

    def end(self) -> None:
        """Close the connection at once, if it is open."""
        if self._stream is not None:
            self._protocol._abort()

    # Called by Tornado's protocol

    def select_subprotocol(self, names: list[str]) -> str | None:
        return None

    def set_header(self, name: str, value: str) -> None:
        self._headers[name] = value

    def clear_header(self, name: str) -> None:
        self._headers.pop(name, None)

    def set_status(self, status: int) -> None:
        assert status == 101, status  # checked by `check_handshake`

    def finish(self) -> None:
        self._stream = SocketStream(self.request.hand_over(self._headers))

    def _detach_stream(self) -> SocketStream:
        assert self._stream is not None
        return self._stream

    def open(self) -> None:
        """Send nothing: only requests have responses."""

    def on_message(self, message: str | bytes) -> Any:
        if isinstance(message, bytes):
            self.close(1003, "Messages are text.")
            return None
        return self._messages.put(message.encode())

    def on_ping(self, data: bytes) -> None:
        """Do nothing: the protocol responds."""

    def on_pong(self, data: bytes) -> None:
        """Do nothing: the protocol records it."""

    def on_ws_connection_close(self, code: int | None, reason: str | None) -> None:
        """Do nothing: `serve` returns."""

    def log_exception(self, *fault: Any) -> None:
        _LOG.error("websocket_failed", exc_info=True)


class Sink(Protocol):
    """Receives the response of a request piece by piece."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...

    def take(self, chunk: bytes) -> Future[None]:
        """Receive a piece of the body; the future is done when the client keeps up."""

    def end(self) -> Future[None]:
        """The response is complete."""


class _BudgetedMessage:
    """The bytes of a message in the budget of bodies of the process."""

    def __init__(self, application: HttpApplication, size: int) -> None:
        """Raises GatewayError when the budget is exceeded."""
        self._budget = application.services.bodies
        self._size = size if size > SMALL_MESSAGE_BYTES else 0
        if self._size:
            self._budget.take(self._size)

    def forget(self) -> None:
        size, self._size = self._size, 0
        if size:
            self._budget.give_back(size)


class SocketRequest(TornadoRequest):
    """One request from a message: a POST to the path of the hand-shake, with its headers."""

    def __init__(
        self, handshake: TornadoRequest, application: HttpApplication, body: bytes, sink: Sink
    ) -> None:
        fields = {
            name: [value]
            for name, value in handshake.headers.items()
            if name not in _OF_HANDSHAKE and not name.startswith(_SOCKET)
        }
        super().__init__(
            "POST", handshake.uri, "HTTP/1.1", RequestHeaders(fields), handshake.remote_ip or ""
        )
        self.read_target()
        self._application = application
        self._whole = body
        self._sink = sink
        self._budgeted: _BudgetedMessage | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_cut = False
        self._route = ""  # the metrics' label

    def __repr__(self) -> str:
        return f"<SocketRequest {self.path} {len(self._whole)} bytes>"

    async def run(self, make: Callable[[HttpApplication, TornadoRequest], TornadoHandler]) -> None:
        """Let a handler check and serve it, like one over HTTP. Raises StreamClosedError."""
        services = self._application.services
        self.submitted_at = services.clock.now()
        self._task = asyncio.current_task()
        services.in_flight.enter(self)
        handler = make(self._application, self)
        self._route = handler.route
        try:
            if services.in_flight.is_refusing:
                raise GatewayError(NO_CHANNEL_AVAILABLE, ENDING)
            checking = handler.check()
            if checking is not None:
                await checking
            self._budgeted = _BudgetedMessage(self._application, len(self._whole))
            self.body, self._whole = self._whole, b""
            handler.body_received()
            endpoint = handler.endpoint()
            assert endpoint is not None
            await endpoint()
        except asyncio.CancelledError:
            if not self._is_cut:
                raise
            self._fail(handler, GatewayError(NO_CHANNEL_AVAILABLE, ENDING))
        except StreamClosedError:
            self.client_gone = True
        except Exception as error:  # noqa: BLE001  the top of a request: every fault is reported
            self._fail(handler, error)
        finally:
            if not self.is_finished and not self.client_gone:
                handler.finish()
            handler.release()
            self.forget_body()
            services.in_flight.leave(self)

    def _fail(self, handler: TornadoHandler, error: Exception) -> None:
        handler.log_exception(type(error), error, error.__traceback__)
        if not self.has_head_out:
            handler.clear()
            handler.tell(error)

    def leave(self) -> None:
        """End the request once, because its client has disconnected."""
        self.client_gone = True
        if self._task is not None and not self._task.cancelling():
            self._task.cancel()

    def cut(self) -> None:
        """End the request, because the process ends."""
        self._is_cut = True
        if self._task is not None and not self._task.cancelling():
            self._task.cancel()

    # Called by the handler.

    def forget_body(self) -> None:
        self.body = self._whole = b""
        if self._budgeted is not None:
            self._budgeted.forget()

    def take_body(self) -> BudgetedBody | None:
        budgeted, self._budgeted = self._budgeted, None
        return budgeted

    def respond(
        self, status: int, reason: str, headers: dict[str, str], chunk: bytes, *, is_whole: bool
    ) -> Future[None]:
        self.has_head_out = True
        self._sink.begin(status, headers)
        return self.finish(chunk, status) if is_whole else self._sink.take(chunk)

    def write(self, chunk: bytes) -> Future[None]:
        return self._sink.take(chunk)

    def abort(self) -> None:
        """End an incomplete response: the sink finds that out by the chunks received."""

    def finish(self, chunk: bytes, status: int) -> Future[None]:
        self.is_finished = True
        self._sink.take(chunk)
        self._application.services.metrics.http_response(route=self._route, status=status)
        return self._sink.end()
