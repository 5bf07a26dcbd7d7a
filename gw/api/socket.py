"""The responses protocol over a WebSocket, as its provider documents that mode.

`GET /v1/responses` with `Upgrade: websocket` opens it. A message `response.create` is one call over
the ordinary path, from the key's check to its row; each event of its stream is sent as a message.
Calls run one after another; `response.processed` is accepted without a reply. Errors are messages
`{type: error, status, error, headers}`, after which the socket stays open.

`previous_response_id` continues the last response of this socket: its input and output are kept
here, up to STATE_BYTES_MAX, and at most STATES_BYTES_MAX for all sockets of a process. Any other
response is `previous_response_not_found`, after which clients send all items. `generate: false`
returns at once and for free, with an id that can be continued.
"""

from __future__ import annotations

import asyncio
import json
from asyncio import Future
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from channels.dialects.responses.dialect import DIALECT
from channels.errors import InvalidRequest
from channels.http.sse import SseSplitter
from channels.json import JsonObject
from gw.api.base import ApiHandler, GatewayApplication
from gw.api.chat import ModelCall
from gw.errors import (
    INVALID_REQUEST,
    METHOD_NOT_ALLOWED,
    REQUEST_TOO_LARGE,
    GatewayError,
    dumps,
    invalid_request,
)
from gw.http.websocket import (
    Socket,
    SocketBook,
    SocketRequest,
    check_handshake,
    is_handshake,
)

# The longest life of a socket, as with the protocol's provider, and its longest idle time.
SOCKET_SECONDS_MAX = 3600.0
IDLE_SECONDS_MAX = 900.0
MESSAGE_BYTES_MAX = 32 * 1024 * 1024
# Bytes kept of a conversation for the next call: by one socket, and by all of a process.
STATE_BYTES_MAX = 16 * 1024 * 1024
STATES_BYTES_MAX = 256 * 1024 * 1024

GOING_AWAY, RESTARTING = 1001, 1012

_TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")
# Headers of a response that an error message repeats.
_HEADERS = ("retry-after", "x-gateway-trace", "x-should-retry")
_LIMITS = "x-ratelimit-"


class Conversation:
    """The last response of a socket: its input and output items."""

    def __init__(self, book: SocketBook) -> None:
        self._book = book
        self._id: str | None = None
        self._items: list[bytes] = []
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<Conversation {self._id} {self._bytes} bytes>"

    def items(self, response_id: str) -> list[bytes] | None:
        """Return the items of a response, or None if it is not the one kept."""
        return self._items if response_id == self._id else None

    def keep(self, response_id: str, items: list[bytes]) -> None:
        """Replace the kept items, or drop them if the budget is exceeded."""
        self.forget()
        size = sum(map(len, items))
        if size <= STATE_BYTES_MAX and self._book.kept_bytes + size <= STATES_BYTES_MAX:
            self._id, self._items, self._bytes = response_id, items, size
            self._book.kept_bytes += size

    def forget(self) -> None:
        self._book.kept_bytes -= self._bytes
        self._id, self._items, self._bytes = None, [], 0


class _Created(Struct):
    id: str = ""


class _SentEvent(Struct):
    """The members read of an event that is sent to the client."""

    type: str = ""
    response: _Created | None = None
    item: Raw = Raw()


_SENT = msgspec.json.Decoder(_SentEvent)


class Turn:
    """The response of one call: sends events as messages, and collects items for the next call."""

    def __init__(self, socket: Socket, items: list[bytes]) -> None:
        self.items = items
        self.response_id = ""
        self.is_complete = False  # a terminal event has been sent
        self._socket = socket
        self._splitter = SseSplitter()
        self._status = 200
        self._headers: Mapping[str, str] = {}
        self._whole: list[bytes] = []  # of an error
        self._sent: Future[None] | None = None
        self._bytes = sum(map(len, items))

    def __repr__(self) -> str:
        return f"<Turn {self._status} {self.response_id}>"

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

    def _event(self, data: bytes) -> None:
        self._sent = self._socket.send(data)
        try:
            event = _SENT.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        if event.type in _TERMINAL:
            self.is_complete = True
            if event.type != "response.completed":
                self.response_id = ""  # cannot be continued
        if event.type == "response.created" and event.response is not None:
            self.response_id = event.response.id
        elif event.type == "response.output_item.done" and len(event.item):
            self._bytes += len(event.item)
            if self._bytes <= STATE_BYTES_MAX:
                self.items.append(bytes(event.item))
            else:
                self.response_id = ""

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


class _Message(Struct):
    """The members of a client's message that are not part of the call's body."""

    type: str
    previous_response_id: str | None = None
    generate: bool = True
    input: Raw = Raw()
    stream_id: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)
# Members of a message that are removed from the body.
_OF_SOCKET = ("type", "generate", "previous_response_id", "stream")


class NotFound(Exception):
    """The message continues a response that is not kept."""


def body_of(message: bytes, conversation: Conversation) -> tuple[bytes, list[bytes], bool]:
    """Return the body of a call, its items, and whether it is a warm-up."""
    members = JsonObject.parse(message)
    try:
        read = _MESSAGE.decode(message)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The message is not as documented: {error}.") from None
    if read.type != "response.create":
        raise InvalidRequest("type: expected response.create.", "type")
    if read.stream_id is not None:
        raise InvalidRequest("stream_id: a socket has one conversation.", "stream_id")
    kept: list[bytes] = []
    if read.previous_response_id is not None:
        found = conversation.items(read.previous_response_id)
        if found is None:
            raise NotFound
        kept = found
    items = [*kept, *_items(read.input)]
    raw = {name: bytes(one) for name, one in members.raw.items() if name not in _OF_SOCKET}
    raw["input"] = b"[%b]" % b",".join(items)
    raw["stream"] = b"true"
    pairs = [b"%b:%b" % (msgspec.json.encode(name), one) for name, one in raw.items()]
    return b"{%b}" % b",".join(pairs), items, not read.generate


def _items(raw: Raw) -> list[bytes]:
    text = bytes(raw)
    if text in (b"", b"null"):
        return []
    if text[:1] == b'"':
        return [b'{"role":"user","content":%b}' % text]
    try:
        return [bytes(one) for one in msgspec.json.decode(text, type=list[Raw])]
    except msgspec.ValidationError:
        raise InvalidRequest("input: expected a string or an array of items.", "input") from None


class WarmUpHandler(ApiHandler):
    """A warm-up, which is checked like a call and costs nothing."""

    protocol = DIALECT.protocol
    route = "responses_warm_up"
    shape = DIALECT.family.error_shape
    limited = True

    async def on_post(self) -> None:
        call = ModelCall(self)
        await call.read(DIALECT)
        response = {
            "id": f"resp_{self.call_id.hex}",
            "object": "response",
            "created_at": int(self.request.submitted_at),
            "model": call.model.id,
            "output": [],
        }
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        for number, (status, used) in enumerate((("in_progress", None), ("completed", usage))):
            kind = "response.completed" if used else "response.created"
            more = {**response, "status": status, "usage": used}
            event = {"type": kind, "sequence_number": number, "response": more}
            self.write(b"event: %b\ndata: %b\n\n" % (kind.encode(), dumps(event)))


async def serve_socket(handler: ApiHandler) -> None:
    """Open a WebSocket and serve its calls until it is closed. Raises GatewayError before."""
    headers = handler.request.headers
    if not is_handshake(headers):
        message = "Use POST on this endpoint, or a WebSocket hand-shake."
        raise GatewayError(METHOD_NOT_ALLOWED, message, headers={"Allow": "POST"})
    check_handshake(headers)
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
        limit = min(MESSAGE_BYTES_MAX, handler.services.config.max_body_bytes)
        self._socket = Socket(
            handler.request,  # type: ignore[arg-type]
            message_bytes_max=limit,
            headers={"X-Gateway-Trace": handler.call_id.hex},
        )
        self._limit = limit
        self._application = cast(GatewayApplication, handler.application)
        self._conversation = Conversation(self._application.sockets)
        self._call: SocketRequest | None = None
        self._is_leaving = False

    def __repr__(self) -> str:
        return f"<_SocketServer {self._socket} {self._call}>"

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

    async def _next(self, reading: asyncio.Task[None], seconds: float) -> bytes | None:
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

    async def _serve(self, message: bytes, reading: asyncio.Task[None]) -> None:
        """Serve one message. A disconnect of the client ends its call."""
        if self._socket.is_closing or _is_processed(message):
            return
        try:
            body, items, is_warm_up = body_of(message, self._conversation)
            if len(body) > self._limit:
                raise GatewayError(REQUEST_TOO_LARGE, "The conversation is too long to be sent.")
        except NotFound:
            self._refuse_continuation()
            return
        except (InvalidRequest, GatewayError) as error:
            self._refuse(invalid_request(error) if isinstance(error, InvalidRequest) else error)
            return
        turn = Turn(self._socket, items)
        handler = self._handler
        call = self._call = SocketRequest(handler.request, self._application, body, turn)
        running = asyncio.create_task(call.run(WarmUpHandler if is_warm_up else type(handler)))
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
            if not running.cancelled():
                running.result()
        if turn.response_id:
            self._conversation.keep(turn.response_id, turn.items)
        if self._is_leaving:
            self._go_away()

    def _go_away(self) -> None:
        """Close the socket after the call under way, because the process ends."""
        self._is_leaving = True
        if self._call is None:
            self._socket.close(RESTARTING, "the gateway restarts")

    def _refuse(self, error: GatewayError) -> None:
        kind = error.kind
        shown = {"type": kind.chat_type, "code": kind.code, "message": error.message}
        self._socket.send(_error_message(error.http_status, {**shown, "param": error.param}))

    def _refuse_continuation(self) -> None:
        error = {
            "type": "invalid_request_error",
            "code": "previous_response_not_found",
            "message": "The response to be continued is not kept here: send the whole input.",
            "param": "previous_response_id",
        }
        self._socket.send(_error_message(INVALID_REQUEST.http_status, error))


def _is_processed(message: bytes) -> bool:
    """Whether a message only acknowledges a response."""
    if len(message) > 1024:
        return False
    try:
        return _MESSAGE.decode(message).type == "response.processed"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
