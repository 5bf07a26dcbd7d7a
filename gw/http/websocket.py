"""A WebSocket on a client's connection, and the requests received over it.

Frames are Tornado's (`tornado.websocket`), over a connection handed over after the hand-shake:
`SocketStream` is the stream of Tornado's protocol, `Socket` sends and receives messages. A message
may become a `SocketRequest`, which an endpoint's handler serves like one over HTTP: it is checked,
limited and counted as one, and its response is sent to a `Sink`. The parts of Tornado's internals
in use are listed in `tests/unit/http/test_tornado.py`.

Besides its writes, a connection holds what no budget counts: at most SMALL_BODY_BYTES of an
incoming message and of MESSAGES_WAITING_MAX waiting ones, a piece, and READ_AHEAD_BYTES. The rest
of a larger message is read once its request has passed the checks, and counts in the budget of
bodies.
"""

from __future__ import annotations

import asyncio
import struct
from asyncio import Future
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

from tornado.ioloop import IOLoop
from tornado.iostream import StreamClosedError
from tornado.util import _websocket_mask
from tornado.websocket import WebSocketProtocol13, _WebSocketParams

from channels.answers import KEEPER
from channels.body_budget import BodyBudget
from channels.shares import OWNER
from gw import errors
from gw.http.admission import check_admission
from gw.http.answered_request import AnsweredRequest
from gw.http.application import HttpApplication
from gw.http.body import BODY_SECONDS, SMALL_BODY_BYTES, InboundBody
from gw.http.endpoint import HttpEndpoint
from gw.http.flow_control import Outbound
from gw.http.handled_errors import forget_frames
from gw.http.tornado.handler import TornadoHandler
from gw.http.tornado.headers import RequestHeaders
from gw.http.tornado.request import BudgetedBody, TornadoRequest
from metrics.logs import EventLog

# Received messages that wait to be served; while they do, reading pauses.
MESSAGES_WAITING_MAX = 1
READ_AHEAD_BYTES = 64 * 1024
# The interval of pings, and the timeout of a pong.
PING_SECONDS, PONG_SECONDS = 30.0, 20.0
# The size of one read of a message, a multiple of a mask's length.
PIECE_BYTES = 64 * 1024

# What is kept by one socket, and by all of a process; and what a piece takes besides its bytes.
SOCKET_KEPT_BYTES_MAX = 16 * 1024 * 1024
KEPT_BYTES_MAX = 256 * 1024 * 1024
PIECE_OVERHEAD_BYTES = 64

# The sockets of one account in a process.
ACCOUNT_SOCKETS_MAX = 100

VERSION = "13"
_CONTINUED, _TEXT = 0x0, 0x1
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
        raise errors.GatewayError(
            errors.UPGRADE_REQUIRED,
            "A proxy before the gateway passes no WebSocket. Use POST over HTTP.",
            headers={"Upgrade": "websocket"},
        )
    if headers.get("Sec-WebSocket-Version", "").strip() != VERSION:
        raise errors.GatewayError(
            errors.UPGRADE_REQUIRED,
            f"The WebSocket version has to be {VERSION}.",
            headers={"Sec-WebSocket-Version": VERSION},
        )
    if not headers.get("Sec-WebSocket-Key", "").strip():
        raise errors.GatewayError(
            errors.INVALID_REQUEST, "The WebSocket hand-shake is not complete."
        )


class Served(Protocol):
    """The request of a hand-shake."""

    headers: RequestHeaders
    client_gone: bool

    def hand_over(self, headers: Mapping[str, str]) -> Outbound:
        """Accept the hand-shake; further bytes are for the transport's next protocol."""


class Kept:
    """Pieces that a socket keeps for its next request, as long as there is room for them."""

    __slots__ = ("account_id", "bytes", "is_gone", "pieces")

    def __init__(self, account_id: str) -> None:
        self.account_id = account_id
        self.pieces: list[bytes] = []
        self.bytes = 0
        self.is_gone = False


class SocketBook:
    """The sockets of a process: their number per account, and what they keep. One per process.

    What is kept takes at most half of the budget of bodies, and makes room for any body, the oldest
    first. An account keeps as much as remains free besides it, so that there is room for the next.
    """

    def __init__(self, bodies: BodyBudget) -> None:
        self.open: Counter[str] = Counter()
        self.kept_bytes = 0
        self._of_account: Counter[str] = Counter()
        self._kept: dict[Kept, None] = {}  # the longest untouched first
        self._bodies = bodies
        bodies.reclaim = self._reclaim

    def enter(self, account_id: str) -> None:
        """Count a socket. Raises GatewayError if the account has too many."""
        if self.open[account_id] >= ACCOUNT_SOCKETS_MAX:
            raise errors.GatewayError(
                errors.RATE_LIMIT_EXCEEDED,
                f"The account has {ACCOUNT_SOCKETS_MAX} WebSockets open.",
            )
        self.open[account_id] += 1

    def leave(self, account_id: str) -> None:
        self.open[account_id] -= 1
        if not self.open[account_id]:
            del self.open[account_id]

    def keep(self, kept: Kept, piece: bytes) -> None:
        """Add a piece, or drop all of it where there is no room."""
        if kept.is_gone:
            return
        size, account_id = len(piece) + PIECE_OVERHEAD_BYTES, kept.account_id
        limit = min(KEPT_BYTES_MAX, self._bodies.limit_bytes // 2)
        free, of_account = limit - self.kept_bytes - size, self._of_account[account_id]
        if (
            kept.bytes + size > SOCKET_KEPT_BYTES_MAX
            or free < 0
            or (of_account and of_account + size > free)
            or not self._bodies.take_spare(size)
        ):
            self.drop(kept)
            return
        kept.pieces.append(piece)
        self._count(kept, size)

    def join(self, kept: Kept, more: Kept) -> None:
        """Add what another one has, or drop both where that is too much."""
        if more.is_gone or kept.bytes + more.bytes > SOCKET_KEPT_BYTES_MAX:
            self.drop(kept)
        if kept.is_gone:
            self.drop(more)
            return
        kept.pieces += more.pieces
        kept.bytes += more.bytes
        more.pieces, more.bytes = [], 0
        self._kept.pop(more, None)
        self._kept.pop(kept, None)
        self._kept[kept] = None

    def drop(self, kept: Kept) -> None:
        """Keep it no longer. A second call does nothing."""
        self._bodies.give_back(kept.bytes)
        self._count(kept, -kept.bytes)
        self._kept.pop(kept, None)
        kept.pieces, kept.is_gone = [], True

    def _count(self, kept: Kept, size: int) -> None:
        kept.bytes += size
        self.kept_bytes += size
        self._of_account[kept.account_id] += size
        if not self._of_account[kept.account_id]:
            del self._of_account[kept.account_id]
        self._kept.setdefault(kept)

    def _reclaim(self, size_bytes: int) -> None:
        enough = self.kept_bytes - size_bytes
        for kept in list(self._kept):
            if self.kept_bytes <= enough:
                return
            self.drop(kept)


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

    @property
    def unsent_bytes(self) -> int:
        return self._out.unsent_bytes

    def close(self) -> None:
        self._out.transport.close()
        self._wake()

    def abort(self) -> None:
        """Close it, and drop what the client has not read."""
        self._out.transport.abort()
        self._wake()

    def closed(self) -> bool:
        return self._is_lost or self._out.transport.is_closing()


class Message:
    """One message of a client. A large one is a request before it is received, as a POST is.

    Up to SMALL_BODY_BYTES are taken in at once, as much as comes with the head of a POST. The rest
    waits for `whole`, and is dropped after `forget`.
    """

    def __init__(self, limit_bytes: int, budget: BodyBudget, owner: str) -> None:
        self.received_bytes = 0
        self.is_announced = False  # it has been given to whoever serves it
        self._inbound = InboundBody({}, limit_bytes, budget, owner)
        self._is_dropped = False
        self._fault: errors.GatewayError | None = None
        loop = asyncio.get_running_loop()
        self._accepted: Future[None] = loop.create_future()
        self._ended: Future[None] = loop.create_future()

    # Called by the protocol

    def is_large_with(self, more_bytes: int) -> bool:
        """Whether so many more bytes make it a large one."""
        return self.received_bytes + more_bytes > SMALL_BODY_BYTES

    def expect(self, more_bytes: int) -> None:
        """So many bytes are about to be fed."""
        self._inbound.expect(more_bytes)

    async def feed(self, piece: bytes) -> None:
        """Take in a piece, once it may be."""
        if self.is_large_with(len(piece)) and not self._accepted.done():
            await self._accepted
        self.received_bytes += len(piece)
        if self._is_dropped or self._fault is not None:
            return
        try:
            self._inbound.feed(piece)
        except errors.GatewayError as error:
            self._fault = error
            self._inbound.forget()
            self.end()

    def end(self) -> None:
        """Nothing more is taken in."""
        if not self._ended.done():
            self._ended.set_result(None)

    # Called by whoever serves it

    async def whole(self) -> bytes:
        """Accept the rest, and return all of it. Raises GatewayError without room for it."""
        self._accept()
        await self._ended
        if self._fault is not None:
            raise self._fault
        return self._inbound.take_body()

    def peek(self) -> bytes:
        """Return what was received of a small one."""
        return self._inbound.peek()

    def reserve(self, size_bytes: int) -> None:
        """Count it as this many bytes. Raises GatewayError without room for them."""
        self._inbound.reserve(size_bytes)

    def forget(self) -> None:
        """Return its bytes to the budget, and drop what still comes."""
        self._is_dropped = True
        self._inbound.forget()
        self._accept()

    def _accept(self) -> None:
        if not self._accepted.done():
            self._accepted.set_result(None)


class _MessageProtocol(WebSocketProtocol13):
    """Tornado's protocol, which reads a message piece by piece and not frame by frame.

    So its bytes are counted before they are there, and are kept once.
    """

    _message: Message | None = None  # under way

    def __init__(self, socket: Socket, params: _WebSocketParams) -> None:
        super().__init__(cast(Any, socket), False, params)
        self._socket = socket

    async def _receive_frame(self) -> None:
        """Read a frame (RFC 6455, 5.2), which must be masked."""
        first, second = await self._read_bytes(2)
        is_final, opcode, length = first & self.FIN, first & self.OPCODE_MASK, second & 0x7F
        is_control = opcode & 0x8
        if first & self.RSV_MASK or not second & 0x80:
            return self._abort()
        if is_control and (length > 125 or not is_final):
            return self._abort()
        if length == 126:
            (length,) = struct.unpack("!H", await self._read_bytes(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self._read_bytes(8))
        if not is_control and (opcode == _CONTINUED) != (self._message is not None):
            return self._abort()
        message = self._message or self._socket.new_message()
        if message.received_bytes + length > self.params.max_message_size:
            self.close(1009, "message too big")
            return self._abort()
        mask = await self._read_bytes(4)
        if is_control:
            data = _websocket_mask(mask, await self._read_bytes(length))
            self._handle_message(opcode, data)
            return None
        if opcode not in (_CONTINUED, _TEXT):
            message.forget()
            self.close(1003, "Messages are text.")
        self._message = None if is_final else message
        await self._receive_payload(message, mask, length)
        if is_final:
            message.end()
            await self._socket.announce(message)
        return None

    async def _receive_payload(self, message: Message, mask: bytes, length: int) -> None:
        message.expect(length)
        while length:
            piece = _websocket_mask(mask, await self._read_bytes(min(length, PIECE_BYTES)))
            length -= len(piece)
            if message.is_large_with(len(piece)):
                await self._socket.announce(message)
            await message.feed(piece)


class Socket:
    """The messages of one WebSocket. `serve` accepts the hand-shake and reads until it is closed.

    It is the handler of Tornado's protocol, which calls the methods below `send`.
    """

    open_args: tuple[Any, ...] = ()
    open_kwargs: Mapping[str, Any] = {}

    def __init__(
        self,
        request: Served,
        *,
        message_bytes_max: int,
        bodies: BodyBudget,
        owner: str,
        headers: Mapping[str, str],
    ) -> None:
        """`owner`: the account that messages count for."""
        self.request = request
        self._owner = owner
        self._headers = dict(headers)
        self._stream: SocketStream | None = None
        self._message_bytes_max = message_bytes_max
        self._bodies = bodies
        self._messages: asyncio.Queue[Message] = asyncio.Queue(MESSAGES_WAITING_MAX)
        params = _WebSocketParams(
            ping_interval=PING_SECONDS,
            ping_timeout=PONG_SECONDS,
            max_message_size=message_bytes_max,
        )
        self._protocol = _MessageProtocol(self, params)

    async def serve(self) -> None:
        """Read messages until the socket is closed."""
        await self._protocol.accept_connection(cast(Any, self))

    @property
    def is_closing(self) -> bool:
        return self._stream is None or self._protocol.is_closing()

    async def message(self) -> Message:
        """Return the next message: a small one whole, a large one once it has begun."""
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

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the client has not read yet."""
        return 0 if self._stream is None else self._stream.unsent_bytes

    def close(self, code: int, reason: str) -> None:
        """Close the socket once. The client has some seconds to close its side."""
        if not self.is_closing:
            self._protocol.close(code, reason)

    def end(self) -> None:
        """Close the connection at once, if it is open."""
        if self._stream is not None:
            self._protocol._abort()

    def abort(self) -> None:
        """Do the same, and drop what the client has not read."""
        if self._stream is not None:
            self._stream.abort()
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

    def new_message(self) -> Message:
        """Return a message of which nothing is received yet."""
        return Message(self._message_bytes_max, self._bodies, self._owner)

    async def announce(self, message: Message) -> None:
        """Give a message to whoever serves it, once; reading waits while another waits."""
        if not (message.is_announced or self.is_closing):
            message.is_announced = True
            await self._messages.put(message)

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

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the client has not read yet."""

    def cut(self) -> None:
        """Abort the connection of a client that reads too slowly."""


class SocketRequest(AnsweredRequest):
    """One request from a message: a POST to the path of the hand-shake, with its headers.

    It passes what a POST passes, in the same order: the shedding of an overload, the checks of its
    handler, then the account's part of the budget of bodies, and only then is anything parsed. Its
    answer counts for the account, too.
    """

    def __init__(
        self,
        handshake: TornadoRequest,
        application: HttpApplication,
        message: Message,
        sink: Sink,
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
        self._message: Message | None = message
        self._sink = sink
        self._task: asyncio.Task[None] | None = None
        self._is_cut = False
        self._route = ""  # the metrics' label
        self._owner = ""
        self._sent: Future[None] | None = None  # done when the response is sent

    def __repr__(self) -> str:
        return f"<SocketRequest {self.path}>"

    async def run(
        self, endpoint: HttpEndpoint, serve: Callable[[TornadoHandler], Awaitable[None]]
    ) -> None:
        """Let a handler check it, then serve it by `serve`. Raises StreamClosedError."""
        services = self._application.services
        self.submitted_at = services.clock.now()
        self._task = asyncio.current_task()
        self._route = endpoint.route
        early = self._application.early_response(self, endpoint)
        if early is not None:
            headers = {**early.headers, "X-Gateway-Trace": services.new_id().hex}
            self.respond(early.status, "", headers, early.body, is_whole=True)
            self.forget_body()
            return
        services.in_flight.enter(self)
        handler = endpoint.handler(self._application, self, endpoint)
        try:
            checking = check_admission(handler, services.in_flight)
            if checking is not None:
                await checking
            await self._receive()
            handler.body_received()
            self._owner = handler.owner
            OWNER.set(handler.owner)
            KEEPER.set(self)
            await serve(handler)
            if not (self.is_finished or self.client_gone):
                handler.finish()
        except asyncio.CancelledError:
            if not self._is_cut:
                raise
            self._fail(handler, errors.GatewayError(errors.NO_CHANNEL_AVAILABLE, errors.ENDING))
        except StreamClosedError:
            self.client_gone = True
        except Exception as error:  # noqa: BLE001  the top of a request: every fault is reported
            self._fail(handler, error)
        finally:
            try:
                if not (self.is_finished or self.client_gone):
                    handler.finish()
            finally:
                self._release(handler)

    def _release(self, handler: TornadoHandler) -> None:
        handler.release()
        self.forget_body()
        if self._sent is None or self._sent.done():
            self.leave_answer()
        else:
            self._sent.add_done_callback(lambda _: self.leave_answer())
        self._application.services.in_flight.leave(self)

    async def _receive(self) -> None:
        assert self._message is not None
        try:
            async with asyncio.timeout(BODY_SECONDS):
                self.body = await self._message.whole()
        except TimeoutError:
            late = f"The message was not complete within {BODY_SECONDS:.0f} seconds."
            raise errors.GatewayError(errors.INVALID_REQUEST, late) from None

    def reserve(self, size_bytes: int) -> None:
        """Count the body as this many bytes in the budget. Raises GatewayError without room."""
        if self._message is not None:
            self._message.reserve(size_bytes)

    def _fail(self, handler: TornadoHandler, error: Exception) -> None:
        handler.log_exception(type(error), error, error.__traceback__)
        if not self.has_head_out:
            handler.clear()
            handler.respond_error(error)
        forget_frames(error)

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

    @property
    def answer_owner(self) -> str:
        return self._owner

    def unsent_bytes(self) -> int:
        return self._sink.unsent_bytes

    def cut_reader(self) -> None:
        self._sink.cut()

    # Called by the handler.

    def forget_body(self) -> None:
        self.body = b""
        message, self._message = self._message, None
        if message is not None:
            message.forget()

    def take_body(self) -> BudgetedBody | None:
        message, self._message = self._message, None
        return message

    def respond(
        self, status: int, reason: str, headers: dict[str, str], chunk: bytes, *, is_whole: bool
    ) -> Future[None]:
        self.has_head_out = True
        self.note_sent(chunk)
        self._sink.begin(status, headers)
        return self.finish(chunk, status) if is_whole else self._sink.take(chunk)

    def write(self, chunk: bytes) -> Future[None]:
        return self._sink.take(chunk)

    def abort(self) -> None:
        """End an incomplete response: the sink finds that out by the chunks received."""

    def break_off(self, chunk: bytes, status: int) -> None:
        self.finish(chunk, status)  # messages have terminal events of their own

    def finish(self, chunk: bytes, status: int) -> Future[None]:
        self.is_finished = True
        try:
            self._sink.take(chunk)
        finally:  # a client whose response cannot be sent learns that
            self._application.services.metrics.http_response(route=self._route, status=status)
            self._sent = self._sink.end()
        return self._sent
