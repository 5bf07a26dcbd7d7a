"""One request, from the end of its head to the end of its response.

Between the parsed head and an endpoint's `on_post` stand two objects: the `Request`, which the
connection drives, and the handler that it makes. The request settles the head and finds the
handler; has it check what can be refused without the body, at once where nothing has to be waited
for; takes the body in; runs the endpoint as a task of its own, and cancels it when the client
leaves; and sends the response. Tornado's `_execute` would take three turns of the event loop and as
many futures for what is one task here.
"""

from __future__ import annotations

import asyncio
import re
from asyncio import Future
from collections.abc import Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from tornado.httputil import HTTPHeaders, HTTPInputError
from tornado.iostream import StreamClosedError

from gw.errors import ENDING, INVALID_REQUEST, NO_CHANNEL_AVAILABLE, GatewayError, render
from gw.http.application import LAST_CHUNK, HttpApplication, WholeResponse, chunk_of, response_head
from gw.http.body import LINGER_SECONDS, InboundBody, Leftover
from gw.http.state import FlowControl
from gw.http.tornado_adapter import METHODS, RequestHeaders, TornadoHandler, TornadoRequest
from metrics.logs import redact

# What of a request's head must be settled before it is routed: where it ends, what it asks for.
#
# Pure functions; `Request` calls them and refuses what they refuse.

# Beyond this a length is not a number of bytes that anyone means to send.
LENGTH_DIGITS_MAX = 18

_ABSOLUTE_FORM = re.compile(r"https?://[^/?#@]+", re.IGNORECASE)


def framing_fault(version: str, headers: Mapping[str, str]) -> str | None:
    """Say what is wrong with how the body's length is declared, or None.

    Stricter than the RFC where lenience lets two servers disagree on where a request ends
    (request smuggling): a length that came twice is refused even when both are equal.
    """
    length = headers.get("Content-Length")
    if "Transfer-Encoding" in headers:
        if length is not None:
            return "Content-Length and Transfer-Encoding exclude each other."
        if headers["Transfer-Encoding"].lower() != "chunked":
            return "Only the transfer encoding `chunked` is supported."
        if version == "HTTP/1.0":
            return "Transfer-Encoding needs HTTP/1.1."
    elif length is not None and not (
        length.isascii() and length.isdigit() and len(length) <= LENGTH_DIGITS_MAX
    ):
        return "Content-Length must be one whole number."
    return None


def head_of_body(headers: Mapping[str, str]) -> bytes:
    """A head that another parser reads in place of the one that it has not seen."""
    name = "Content-Length" if "Content-Length" in headers else "Transfer-Encoding"
    return f"POST / HTTP/1.1\r\n{name}: {headers[name]}\r\n\r\n".encode("latin-1")


def settle_expectation(version: str, headers: HTTPHeaders) -> None:
    """Spell `Expect` as Tornado looks for it, or a client in other letters waits in vain."""
    if headers.get("Expect", "").lower() == "100-continue":
        if version == "HTTP/1.0":
            del headers["Expect"]  # it would take the 100 for its response (RFC 9110, 10.1.1)
        else:
            headers["Expect"] = "100-continue"


def in_origin_form(target: str) -> str:
    """Take a target with scheme and host for its path, which is what it means (RFC 9112)."""
    if not target.startswith("/"):
        found = _ABSOLUTE_FORM.match(target)
        if found is not None:
            rest = target[found.end() :]
            return rest if rest.startswith("/") else "/" + rest
    return target


_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BODYLESS = (204, 304)

CLIENT_CLOSED_REQUEST = 499  # nginx's number for a client that left before its response


class Request(TornadoRequest):
    """One request and its response on a connection."""

    keeps_alive = True
    is_complete = False  # all of it has been read
    is_ready = False  # its body may be parsed
    task: asyncio.Task[Any] | None = None  # runs the endpoint; cancelled when the client leaves

    _handler: TornadoHandler | None = None  # until the response is complete
    _route = "malformed"  # the metrics' label
    _early: WholeResponse | None = None  # what a request without a handler is answered
    _inbound: InboundBody | None = None
    _leftover: Leftover | None = None  # set once the request is refused before its body was in
    _checking: asyncio.Task[None] | None = None
    _lingering: asyncio.Task[None] | None = None
    _sent: Future[None] | None = None  # done when the response is out
    _is_chunked = False
    _is_counted = False
    _is_cut = False

    def __init__(
        self,
        connection: FlowControl,
        application: HttpApplication,
        method: str,
        target: str,
        version: str,
        headers: RequestHeaders,
    ) -> None:
        super().__init__(method, target, version, headers, connection.remote_ip)
        self._connection = connection
        self._application = application
        self._services = application.services

    def __repr__(self) -> str:
        state = "finished" if self.is_finished else "complete" if self.is_complete else "open"
        return f"<Request {self.method} {state}>"

    # --- From its head to its handler ---

    def begin(self) -> None:
        """Find the handler of a head that is complete, and have it checked."""
        application, headers = self._application, self.headers
        fault = framing_fault(self.version, headers)
        assert self.uri is not None
        self.uri = in_origin_form(self.uri)
        if fault is None:
            settle_expectation(self.version, headers)
            try:
                self.read_target()
            except HTTPInputError as error:  # the Host header, the query string
                fault = f"{str(error)[:200]}."
        if fault is not None:
            self.refuse(GatewayError(INVALID_REQUEST, f"The request is malformed: {fault}"))
            return
        target = application.routes.find(self)
        self._route = target.handler.route
        early = self._early = application.early_response(self, target.handler)
        if early is not None:
            limit_bytes = self._services.config.max_body_bytes
            if not Leftover(headers, limit_bytes).keeps_connection:
                self._respond_early(early, {"Connection": "close"})
            self._ready()
            return
        handler = self._handler = target.handler(application, self, **target.options)
        checking = self._check_head(handler, target.path_args)
        if checking is None:
            self._ready()
        else:
            self._checking = asyncio.create_task(self._check(handler, checking))
            self._checking.add_done_callback(self._ready)

    def refuse(self, error: GatewayError) -> None:
        """Respond to a request that never reaches its handler, and end its connection.

        The shape of the error is that of what it asked for, as far as its head was read.
        """
        application = self._application
        # What is quoted of the request may be its key.
        error_response = GatewayError(error.kind, redact(error.message))
        body = render(application.routes.handler_at(self.uri or "").shape, error_response)
        status = error.kind.http_status
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        self._respond_early(WholeResponse(status, {**headers, **error.headers}, body), {})

    def _respond_early(self, early: WholeResponse, more: Mapping[str, str]) -> None:
        headers = {
            **early.headers,
            "X-Gateway-Trace": self._services.new_id().hex,
            **more,
        }
        self._begin_response(early.status, HTTPStatus(early.status).phrase, headers, early.body)
        self._count(early.status)
        self._end_response(b"")

    def _check_head(
        self, handler: TornadoHandler, path_args: Sequence[bytes]
    ) -> Coroutine[Any, Any, None] | None:
        """Check what needs no waiting; what is returned must be waited for before the body."""
        services = self._services
        self.submitted_at = services.clock.now()
        services.in_flight.enter(self)
        try:
            if services.in_flight.is_refusing:
                raise GatewayError(NO_CHANNEL_AVAILABLE, ENDING)
            handler.path_args = [handler.decode_argument(part) for part in path_args]
            if handler.endpoint() is None:
                raise handler.refused_method()
            checking = handler.check()
            if checking is not None:
                return checking
            self._expect_body()
        except Exception as error:  # noqa: BLE001  the top of a request: every fault is told
            self._refuse(handler, error)
        return None

    async def _check(self, handler: TornadoHandler, checking: Coroutine[Any, Any, None]) -> None:
        try:
            await checking
            self._expect_body()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  as in `_check_head`
            self._refuse(handler, error)
        finally:
            self._checking = None

    def _ready(self, _: object = None) -> None:
        """Have the body come: the handler has seen the head."""
        if self.is_ready or self._connection.is_closed:
            return
        self.is_ready = True
        if self.is_complete:
            self._body_received()
            return
        if not (self.has_head_out or self._connection.has_unread) and self._waits_for_word():
            self._connection.send(_CONTINUE)
        self._connection.read_on()

    def _waits_for_word(self) -> bool:
        return bool(self.headers.get("Expect") == "100-continue")

    # --- Its body ---

    def _expect_body(self) -> None:
        """Raises GatewayError when the head tells that the body will not do."""
        services = self._services
        self._inbound = InboundBody(self.headers, services.config.max_body_bytes, services.bodies)

    def take(self, data: bytes) -> None:
        """Take in a piece of the body."""
        handler = self._handler
        if handler is None:
            return
        if self._leftover is not None:
            if not self._leftover.drop(data):
                self._end(handler)
            return
        assert self._inbound is not None
        try:
            self._inbound.feed(data)
        except GatewayError as error:
            self._refuse(handler, error)

    def completed(self) -> None:
        """Note that the body has ended."""
        self.is_complete = True
        if self.is_ready:
            self._body_received()

    def body_fault(self, fault: str) -> None:
        """Refuse a body that cannot be read on: nothing behind it can be trusted."""
        handler = self._handler
        if handler is None:
            return
        if self._leftover is None:
            error = GatewayError(INVALID_REQUEST, f"The request body is malformed: {fault}.")
            self._refuse(handler, error)
        self._end(handler)

    def _body_received(self) -> None:
        """Start the endpoint, or end what was refused before."""
        handler = self._handler
        if handler is None:
            if self._early is not None and not self.is_finished:
                self._respond_early(self._early, {})
            return
        if self._leftover is not None:
            self._end(handler)
            return
        assert self._inbound is not None
        self.body = self._inbound.take()
        handler.body_received()
        # The loop holds it until it begins. `create_task` would make up a name for it, which is a
        # good part of what a task costs; which loop runs is a question to the system.
        asyncio.Task(self._serve(handler), loop=self._connection.loop, name="request")

    def forget_body(self) -> None:
        self.body = b""
        if self._inbound is not None:
            self._inbound.forget()
            self._inbound = None

    def take_body(self) -> InboundBody | None:
        inbound, self._inbound = self._inbound, None
        return inbound

    # --- The endpoint ---

    async def _serve(self, handler: TornadoHandler) -> None:
        """Run the endpoint, and finish the response or what there is of it.

        A stream that was cut ends there, and on a closed connection nothing is written at all.
        """
        if self._connection.is_closed:  # it left with its last byte
            self._client_left(handler)
            return
        endpoint = handler.endpoint()
        assert endpoint is not None
        self.task = asyncio.current_task(self._connection.loop)
        try:
            await endpoint(*handler.path_args)
            if not self.is_finished:
                handler.finish()
        except asyncio.CancelledError as error:
            if not (self.client_gone or self._is_cut):  # not ours
                self._fail(handler, error)
                raise
            if not (self.client_gone or self.has_head_out):
                self._fail(handler, GatewayError(NO_CHANNEL_AVAILABLE, ENDING))
        except StreamClosedError:
            self._client_left(handler)
        except Exception as error:  # noqa: BLE001  the top of a request: every fault is told
            self._fail(handler, error)
        finally:
            self.task = None
            if self.is_finished:
                self._leave_flight()
            else:
                if self.has_head_out and handler.has_stated_length:
                    self.abort()  # or its client would take the next response for the rest of it
                handler.finish()

    def _fail(self, handler: TornadoHandler, error: BaseException) -> None:
        """Log the fault, and tell of it where nothing has been sent."""
        handler.log_exception(type(error), error, error.__traceback__)
        if not self.has_head_out:
            handler.clear()
            handler.tell(error)

    def _refuse(self, handler: TornadoHandler, error: BaseException) -> None:
        """Respond before the body is in, and let the client finish sending (`body.py`).

        The response goes out now; the connection goes on only when the body has ended.
        """
        handler.log_exception(type(error), error, error.__traceback__)
        leftover = Leftover(self.headers, self._services.config.max_body_bytes)
        self._leftover = leftover
        self.forget_body()
        handler.release()
        handler.clear()
        handler.tell(error)
        # Servers disagree on whether a method that they do not know has a body.
        if not (leftover.keeps_connection and self.method in METHODS):
            handler.set_header("Connection", "close")
        if leftover.is_held_back:
            handler.finish()
            return
        handler.flush()
        if leftover.is_expected:
            self._lingering = asyncio.create_task(self._stop_lingering(handler))

    async def _stop_lingering(self, handler: TornadoHandler) -> None:
        await self._services.clock.sleep(LINGER_SECONDS)
        self._end(handler)

    # --- Its end ---

    def lost(self) -> None:
        """End a request whose connection is gone."""
        handler = self._handler
        if handler is None:
            return
        if self._leftover is not None:  # it has its response
            self._end(handler)
            return
        self._client_left(handler)
        if self.task is not None:
            self._cancel()
        elif self._checking is None:
            self._handler = None

    def cut(self) -> None:
        """End now, because the process ends (`application.py`)."""
        self._is_cut = True
        handler = self._handler
        if self.task is not None:
            self._cancel()
        elif handler is not None and self._leftover is not None:
            self._end(handler)
        else:  # its body is still coming in, or its response still going out
            self._connection.abort()
            self._leave()

    def _client_left(self, handler: TornadoHandler) -> None:
        self.client_gone = True
        self._count(CLIENT_CLOSED_REQUEST)
        handler.release()
        self._leave_flight()

    def _leave_flight(self) -> None:
        """Out of flight, once the endpoint has ended and the last byte is on its way."""
        if self.task is not None:
            return
        if self._sent is None or self._sent.done():
            self._leave()
        else:
            self._sent.add_done_callback(self._leave)

    def _leave(self, _: object = None) -> None:
        self.forget_body()
        self._services.in_flight.leave(self)

    def _cancel(self) -> None:
        # Once: a second one would hit what the endpoint does to end well.
        if self.task is not None and not self.task.cancelling():
            self.task.cancel()

    def _end(self, handler: TornadoHandler) -> None:
        if not self.is_finished:
            handler.finish()

    def _count(self, status: int) -> None:
        """Count the response, once."""
        if not self._is_counted:
            self._is_counted = True
            self._services.metrics.http_response(route=self._route, status=status)

    # --- Its response ---

    def respond(
        self, status: int, reason: str, headers: dict[str, str], chunk: bytes
    ) -> Future[None]:
        headers["Date"] = self._application.date.at(self._services.clock.now())
        return self._begin_response(status, reason, headers, chunk)

    def _begin_response(
        self, status: int, reason: str, headers: Mapping[str, str], chunk: bytes
    ) -> Future[None]:
        has_body = self.method != "HEAD" and status not in _BODYLESS
        is_sized = "Content-Length" in headers
        is_current = self.version == "HTTP/1.1"
        self._is_chunked = is_current and has_body and not is_sized
        connection_header = headers.get("Connection")
        more: str | None = None
        is_closing = connection_header is not None and connection_header.lower() == "close"
        if is_closing or self._services.in_flight.is_draining:
            self.keeps_alive = False
        elif has_body and not is_sized and not is_current:
            self.keeps_alive = False  # its body ends with the connection
        if connection_header is None:
            if not self.keeps_alive:
                more = "close"
            elif not is_current:
                more = "keep-alive"
        data = response_head(status, reason, headers, is_chunked=self._is_chunked, connection=more)
        self.has_head_out = True
        if chunk and has_body:
            data += chunk_of(chunk) if self._is_chunked else chunk
        return self._connection.write(data)

    def write(self, chunk: bytes) -> Future[None]:
        if chunk and self._is_chunked:
            chunk = chunk_of(chunk)
        return self._connection.write(chunk)

    def abort(self) -> None:
        self._connection.abort()

    def finish(self, chunk: bytes, status: int, sent: Future[None] | None) -> Future[None]:
        handler = self._handler
        last = LAST_CHUNK if self._is_chunked else b""
        if sent is None:
            if chunk and self._is_chunked:
                chunk = chunk_of(chunk)
            sent = self._connection.write(chunk + last)
            last = b""
        self._sent = sent
        self._end_response(last)
        self._count(status)
        if handler is not None:
            handler.release()
        if self._lingering is not None and self._lingering is not asyncio.current_task():
            self._lingering.cancel()
        self._leave_flight()
        return sent

    def _end_response(self, last: bytes) -> None:
        self.is_finished = True
        self._handler = None
        self._connection.response_sent(self, last)
