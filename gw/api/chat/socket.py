"""The responses protocol over a WebSocket, as its provider documents that mode.

`GET /v1/responses` with `Upgrade: websocket` opens it. A message `response.create` is one call over
the ordinary path, from the key's check to its row; each event of its stream is sent as a message.
Calls run one after another; `response.processed` is accepted without a reply. Errors are messages
`{type: error, status, error, headers}`, after which the socket stays open.

A message passes what a POST passes, in the same order, before it is parsed (`SocketRequest`).

`previous_response_id` continues the last response of this socket: its input and output are kept
while there is room for them (`SocketBook`). Any other response is `previous_response_not_found`,
after which clients send all items. `generate: false` returns at once and for free, with an id that
can be continued.
"""

from __future__ import annotations

import asyncio
import json
from asyncio import Future
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from channels.dialects.responses.dialect import DIALECT
from channels.dialects.responses.message import (
    PROCESSED_BYTES_MAX,
    CreateMessage,
    is_processed,
    read_create,
)
from channels.errors import InvalidRequest
from channels.http.sse import SseSplitter
from channels.json.weight import READ_VALUES_MAX, weight_of
from channels.offload.jobs import rewritten
from gw import errors
from gw.api.application import GatewayApplication
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.calls.offloading import offloaded
from gw.error_bodies import dumps
from gw.http import websocket
from gw.http.tornado.handler import TornadoHandler

# The longest life of a socket, as with the protocol's provider, and its longest idle time.
SOCKET_SECONDS_MAX = 3600.0
IDLE_SECONDS_MAX = 900.0
MESSAGE_BYTES_MAX = 32 * 1024 * 1024

GOING_AWAY, RESTARTING = 1001, 1012

# The events that end a response: one that can be continued, the items that came included, or not.
_CONTINUABLE = ("response.completed", "response.incomplete")
_FAILED = ("response.failed", "error")
# Headers of a response that an error message repeats.
_HEADERS = ("retry-after", "x-gateway-trace", "x-should-retry", "x-gateway-budget")
_LIMITS = "x-ratelimit-"


class Conversation:
    """The last response of a socket: its input and output items."""

    def __init__(self, book: websocket.SocketBook) -> None:
        self._book = book
        self._id: str | None = None
        self._kept: websocket.Kept | None = None

    def items_of(self, response_id: str) -> websocket.Kept:
        """Return the items of a response. Raises GatewayError if they are not kept."""
        kept = self._kept
        if kept is None or kept.is_gone or response_id != self._id:
            raise errors.GatewayError(
                errors.PREVIOUS_RESPONSE_NOT_FOUND,
                "The response to be continued is not kept here: send the whole input.",
                param="previous_response_id",
            )
        return kept

    def take(self, turn: Turn) -> None:
        """Keep the items of a turn; after a failed one the response before can be continued."""
        if not turn.response_id:
            self._book.drop(turn.kept)
            return
        if turn.continued is None:
            self.forget()
            self._kept = turn.kept
        else:
            self._book.join(turn.continued, turn.kept)
        self._id = turn.response_id

    def forget(self) -> None:
        if self._kept is not None:
            self._book.drop(self._kept)
        self._id = self._kept = None


class _Response(Struct):
    id: str = ""
    output: Raw = Raw()


class _SentEvent(Struct):
    """The members read of an event that is sent to the client."""

    type: str = ""
    response: _Response | None = None
    item: Raw = Raw()


_SENT = msgspec.json.Decoder(_SentEvent)


class Turn:
    """The response of one call: sends events as messages, and collects items for the next call.

    `continued` are the items of the response that it continues, `kept` those of its own.
    """

    def __init__(
        self, socket: websocket.Socket, book: websocket.SocketBook, account_id: str
    ) -> None:
        self.continued: websocket.Kept | None = None
        self.kept = websocket.Kept(account_id)
        self.response_id = ""
        self.is_complete = False  # a terminal event has been sent
        self._socket = socket
        self._book = book
        self._splitter = SseSplitter()
        self._status = 200
        self._headers: Mapping[str, str] = {}
        self._whole: list[bytes] = []  # of an error
        self._sent: Future[None] | None = None
        self._outputs = 0  # items that were output

    def __repr__(self) -> str:
        return f"<Turn {self._status} {self.response_id}>"

    def keep(self, items: bytes) -> None:
        """Add items, joined by commas, to those that the next call may continue."""
        if items:
            self._book.keep(self.kept, items)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """See Sink."""
        self._status, self._headers = status, headers

    def take(self, chunk: bytes) -> Future[None]:
        """See Sink."""
        if self._status >= 400:
            self._whole.append(chunk)
        else:
            for event in self._splitter.feed(chunk):
                if event.data is not None:
                    self._event(event.data)
        return self._sent if self._sent is not None else _done()

    def end(self) -> Future[None]:
        """See Sink. A cut response ends with an error message: nothing else would show it."""
        if self._status >= 400:
            self._error(json.loads(b"".join(self._whole)).get("error"))
        elif not self.is_complete:
            self._status = 502
            message = "The response ended before it was complete."
            self._error({"type": "api_error", "code": "upstream_error", "message": message})
        return self._sent if self._sent is not None else _done()

    @property
    def unsent_bytes(self) -> int:
        """See Sink."""
        return self._socket.unsent_bytes

    def cut(self) -> None:
        """See Sink."""
        self._socket.abort()

    def _event(self, data: bytes) -> None:
        self._sent = self._socket.send(data)
        try:
            event = _SENT.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        if event.type == "response.created" and event.response is not None:
            self.response_id = event.response.id
        elif event.type == "response.output_item.done" and len(event.item):
            self._outputs += 1
            self.keep(bytes(event.item))
        elif event.type in _CONTINUABLE:
            self.is_complete = True
            if event.response is not None:
                self._keep_rest(event.response.output)
        elif event.type in _FAILED:
            self.is_complete = True
            self.response_id = ""

    def _keep_rest(self, output: Raw) -> None:
        """Keep the items that no event ended, such as a message that was cut."""
        try:
            items = msgspec.json.decode(output, type=list[Raw])
        except msgspec.MsgspecError:
            return
        for item in items[self._outputs :]:
            self.keep(bytes(item))

    def _error(self, error: Any) -> None:
        headers = {
            name.lower(): value
            for name, value in self._headers.items()
            if name.lower() in _HEADERS or name.lower().startswith(_LIMITS)
        }
        self.is_complete = True
        self.response_id = ""
        self._sent = self._socket.send(_error_message(self._status, error, headers))


def _done() -> Future[None]:
    done: Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


def _error_message(status: int, error: Any, headers: Mapping[str, str] | None = None) -> bytes:
    whole = {"type": "error", "status": status, "error": error}
    return dumps({**whole, "headers": headers} if headers else whole)


async def warm_up(handler: ApiHandler) -> None:
    """Serve a warm-up, which is checked like a call, costs nothing and has no row."""
    handler.owns_row = True
    call = ModelCall(handler)
    await call.read_request(DIALECT)
    response = {
        "id": f"resp_{handler.call_id.hex}",
        "object": "response",
        "created_at": int(handler.request.submitted_at),
        "model": call.model.id,
        "output": [],
    }
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    handler.set_header("Content-Type", "text/event-stream; charset=utf-8")
    for number, (status, used) in enumerate((("in_progress", None), ("completed", usage))):
        kind = "response.completed" if used else "response.created"
        more = {**response, "status": status, "usage": used}
        event = {"type": kind, "sequence_number": number, "response": more}
        handler.write(b"event: %b\ndata: %b\n\n" % (kind.encode(), dumps(event)))


async def serve_socket(handler: ApiHandler) -> None:
    """Open a WebSocket and serve its calls until it is closed. Raises GatewayError before."""
    headers = handler.request.headers
    if not websocket.is_handshake(headers):
        message = "Use POST on this endpoint, or a WebSocket hand-shake."
        raise errors.GatewayError(errors.METHOD_NOT_ALLOWED, message, headers={"Allow": "POST"})
    websocket.check_handshake(headers)
    application = cast(GatewayApplication, handler.application)
    account_id = handler.principal.account_id
    application.sockets.enter(account_id)
    try:
        await _SocketServer(handler).serve()
    finally:
        application.sockets.leave(account_id)


class _SocketServer:
    """One socket and its calls, one after another."""

    def __init__(self, handler: ApiHandler) -> None:
        self._handler = handler
        services = handler.services
        # Message and body of a call exist side by side for a moment, and have to fit.
        fitting = services.bodies.limit_bytes // 2
        limit = min(MESSAGE_BYTES_MAX, services.config.max_body_bytes, fitting)
        self._socket = websocket.Socket(
            handler.request,  # type: ignore[arg-type]
            message_bytes_max=limit,
            bodies=handler.services.bodies,
            owner=handler.owner,
            headers={"X-Gateway-Trace": handler.call_id.hex},
        )
        self._limit = limit
        self._application = cast(GatewayApplication, handler.application)
        self._conversation = Conversation(self._application.sockets)
        self._call: websocket.SocketRequest | None = None
        self._is_leaving = False

    async def serve(self) -> None:
        """Serve until a disconnect of the client, a timeout, or the end of the process."""
        closers = self._handler.services.in_flight.closers
        loop = asyncio.get_running_loop()
        until = loop.time() + SOCKET_SECONDS_MAX
        reading = asyncio.create_task(self._socket.serve(), name="websocket")
        closers.add(self._go_away)
        try:
            await asyncio.sleep(0)  # the hand-shake is accepted
            self._handler.release()  # the hand-shake's lease; each call has its own
            while (message := await self._next(reading, until - loop.time())) is not None:
                await self._serve(message, reading)
        finally:
            closers.discard(self._go_away)
            self._conversation.forget()
            self._socket.end()
            reading.cancel()
            await asyncio.wait((reading,))

    async def _next(self, reading: asyncio.Task[None], seconds: float) -> websocket.Message | None:
        """Return the next message; None once the socket is closed or timed out."""
        getting = asyncio.ensure_future(self._socket.message())
        try:
            timeout = max(0.0, min(seconds, IDLE_SECONDS_MAX))
            await asyncio.wait(
                (getting, reading), timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if getting.done():
                return getting.result()
            if not reading.done():
                await self._expire(seconds)
                await asyncio.wait((reading,))
            return None
        finally:
            getting.cancel()

    async def _expire(self, seconds: float) -> None:
        if seconds <= IDLE_SECONDS_MAX:
            error = {
                "type": "invalid_request_error",
                "code": "websocket_connection_limit_reached",
                "message": "A WebSocket is open for 60 minutes at most. Open another one.",
            }
            self._socket.send(_error_message(400, error))
        self._socket.close(GOING_AWAY, "time is over")

    async def _serve(self, message: websocket.Message, reading: asyncio.Task[None]) -> None:
        """Serve one message. A disconnect of the client ends its call."""
        if self._socket.is_closing or _is_processed(message):
            message.forget()
            return
        handler, account_id = self._handler, self._handler.principal.account_id
        turn = Turn(self._socket, self._application.sockets, account_id)
        call = self._call = websocket.SocketRequest(
            handler.request, self._application, message, turn
        )
        serving = partial(self._run, call, turn)
        running = asyncio.create_task(call.run(handler.endpoint, serving))
        try:
            await asyncio.wait((running, reading), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                call.leave()
        except asyncio.CancelledError:  # the connection is lost
            call.leave()
            raise
        finally:
            await asyncio.wait((running,))
            self._call = None
            self._conversation.take(turn)
            if not running.cancelled():
                running.result()
        if self._is_leaving:
            self._go_away()

    async def _run(
        self, call: websocket.SocketRequest, turn: Turn, handler: TornadoHandler
    ) -> None:
        """Make the message, which has passed the checks, the body of a call, and serve that.

        Raises GatewayError.
        """
        assert isinstance(handler, ApiHandler)
        call.reserve(2 * len(call.body))
        created, body = await self._read(handler)
        continued, size = None, len(body)
        if created.previous_response_id is not None:
            continued = self._conversation.items_of(created.previous_response_id)
            size += continued.bytes
        if size > self._limit:
            raise errors.GatewayError(
                errors.REQUEST_TOO_LARGE, "The conversation is too long to be sent."
            )
        call.reserve(len(body) + size)
        if continued is not None:
            # The room for this body may have been theirs.
            self._conversation.items_of(created.previous_response_id or "")
            turn.continued = continued
        turn.keep(body[created.start : created.end])
        call.body = created.continued(body, () if continued is None else continued.pieces)
        del body
        call.reserve(len(call.body))
        if created.generates:
            serve = handler.served_method()
            assert serve is not None
            await serve()
        else:
            await warm_up(handler)

    async def _read(self, handler: ApiHandler) -> tuple[CreateMessage, bytes]:
        """Return the message of a request and the body of its call. Raises GatewayError."""
        message = handler.request.body
        try:
            if weight_of(message) <= READ_VALUES_MAX:
                return read_create(message)
            helpers = handler.services.offload.of(handler.principal.account_id)
            created, body = await offloaded(helpers, rewritten, message, read_create)
        except InvalidRequest as invalid:
            raise errors.invalid_request(invalid) from None
        assert body is not None
        return created, body

    def _go_away(self) -> None:
        """Close the socket after the call under way, because the process ends."""
        self._is_leaving = True
        if self._call is None:
            self._socket.close(RESTARTING, "the gateway restarts")


def _is_processed(message: websocket.Message) -> bool:
    """Whether a message only acknowledges a response, which is no call and passes no check."""
    if message.received_bytes > PROCESSED_BYTES_MAX:
        return False
    return is_processed(message.peek())
