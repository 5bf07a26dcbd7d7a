"""One request, from the end of its head to the end of its response.

Two objects stand between a parsed head and an endpoint's `on_post`: the `Request`, driven by its
connection, and the handler that it creates. The request validates the head, finds the handler,
lets it check everything that needs no body (synchronously where no check waits), collects the body,
runs the endpoint as a task, cancels that when the client disconnects, and sends the response.
Tornado's `_execute` takes three iterations of the event loop and three futures for the same.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from asyncio import Future
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from tornado.httputil import HTTPInputError
from tornado.iostream import StreamClosedError

from channels.answers import KEEPER
from channels.shares import OWNER
from gw import errors
from gw.error_bodies import render
from gw.http import response
from gw.http.admission import check_admission
from gw.http.answered_request import AnsweredRequest
from gw.http.application import HttpApplication
from gw.http.body import DROP_SECONDS, InboundBody, UnreadBody, declared_bytes
from gw.http.flow_control import Outbound
from gw.http.handled_errors import forget_frames
from gw.http.head import Head, framing_fault, in_origin_form, settle_expectation
from gw.http.tornado.handler import METHODS, TornadoHandler
from gw.http.tornado.routes import RouteTarget
from metrics.log_redaction import redact

_BODYLESS = (204, 304)

# SO_LINGER, on and of no length: the system closes the connection by a reset.
_RESETS = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """Reset a connection: what is unsent is dropped, and the client sees an error."""
    sock = transport.get_extra_info("socket")
    if sock is not None and not transport.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
    transport.abort()


CLIENT_CLOSED_REQUEST = 499  # nginx's number for a client that left before its response


class RequestState(Enum):
    """The state of a request, until its response is complete."""

    CHECKING = auto()  # the head is checked; no byte of the body is accepted
    RECEIVING = auto()  # the body is received; at its end the endpoint's task is made
    REFUSED = auto()  # the response is written, the rest of the body is dropped
    HANDLING = auto()  # the endpoint runs
    CUT = auto()  # the endpoint was cancelled, because the process ends


CHECKING, RECEIVING, REFUSED, HANDLING, CUT = RequestState
_RUNNING = (HANDLING, CUT)  # states in which the task, if there is one, is the endpoint's


class Request(AnsweredRequest):
    """One request and its response; its connection calls `begin` first and `lost` last."""

    _handler: TornadoHandler | None = None  # until the response is complete
    _route: str | None = "malformed"  # label of the metrics; None once the response is counted
    _early: response.WholeResponse | None = None  # of a request that has no handler
    _body: InboundBody | UnreadBody | None = None
    # The task under way: the check, the timeout of a refused body, or the endpoint.
    _task: asyncio.Task[Any] | None = None
    _sent: Future[None] | None = None  # done when the response is sent
    _is_chunked = False
    _ends_by_closing = False  # its body, in HTTP/1.0

    def __init__(
        self,
        out: Outbound,
        application: HttpApplication,
        head: Head,
        remote_ip: str,
        responded: Callable[[], None],
    ) -> None:
        """`responded` is called once the response is complete, in the loop's next iteration."""
        method, target, version, headers, self.keeps_alive = head
        super().__init__(method, target, version, headers, remote_ip)
        self._out = out
        self._application = application
        self._responded = responded
        self._state = CHECKING

    def __repr__(self) -> str:
        state = "FINISHED" if self.is_finished else self._state.name
        return f"<Request {self.method} {state}>"

    # --- From its head to its handler ---

    def begin(self) -> asyncio.Task[None] | None:
        """Find the handler and check the head; the body is received after that.

        Returns the task of the check where one has to wait, else None.
        """
        application = self._application
        target: RouteTarget | None = self.headers.target
        if target is not None:  # of an earlier request with the same head
            self.read_target()
        else:
            fault = self._head_fault()
            if fault is not None:
                self.refuse(
                    errors.GatewayError(
                        errors.INVALID_REQUEST, f"The request is malformed: {fault}"
                    )
                )
                return None
            target = self.headers.target = application.routes.find_target(self)
        endpoint = target.endpoint
        self._route = endpoint.route
        early = self._early = application.early_response(self, endpoint)
        if early is not None:
            self._state = RECEIVING
            if not UnreadBody(self.headers, self._body_bytes_max).keeps_connection:
                closing = {**early.headers, "Connection": "close"}
                self._respond_early(early._replace(headers=closing))
            return None
        handler = self._handler = endpoint.handler(application, self, endpoint)
        return self._check_head(handler, target.path_args)

    def _head_fault(self) -> str | None:
        """Validate the head before it is routed; return its fault, or None."""
        self.uri = in_origin_form(self.uri)
        fault = framing_fault(self.version, self.headers)
        if fault is None:
            settle_expectation(self.version, self.headers)
            try:
                self.read_target()
            except HTTPInputError as error:  # the Host header, the query string
                return f"{str(error)[:200]}."
        return fault

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends its body."""
        return not self.has_head_out and self.headers.get("Expect") == "100-continue"

    @property
    def _body_bytes_max(self) -> int:
        return self._application.services.config.max_body_bytes

    def refuse(self, error: errors.GatewayError) -> None:
        """Respond with an error to a request without a handler, and close its connection.

        The error has the shape of the endpoint named by the target, as far as that was read.
        """
        application = self._application
        # A message may quote the request's key.
        error_response = errors.GatewayError(error.kind, redact(error.message))
        body = render(application.routes.endpoint_at(self.uri).shape, error_response)
        status = error.kind.http_status
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        self._respond_early(response.WholeResponse(status, {**headers, **error.headers}, body))

    def _respond_early(self, early: response.WholeResponse) -> None:
        trace = self._application.services.new_id().hex
        headers = {**early.headers, "X-Gateway-Trace": trace}
        if self._application.cors is not None:
            headers = self._application.cors.headers(self.headers, headers)
        self._begin_response(early.status, HTTPStatus(early.status).phrase, headers, early.body)
        self._count(early.status)
        self.is_finished = True

    def _check_head(
        self, handler: TornadoHandler, path_args: Sequence[bytes]
    ) -> asyncio.Task[None] | None:
        services = self._application.services
        self.submitted_at = services.clock.now()
        services.in_flight.enter(self)
        try:
            checking = check_admission(handler, services.in_flight, path_args)
            if checking is not None:
                self._task = asyncio.create_task(self._check(handler, checking))
                return self._task
            self._expect_body()
        except Exception as error:  # noqa: BLE001  the top of a request: every fault is reported
            self._refuse(handler, error)
        return None

    async def _check(self, handler: TornadoHandler, checking: Coroutine[Any, Any, None]) -> None:
        try:
            await checking
            self._task = None
            self._expect_body()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  as in `_check_head`
            self._task = None
            self._refuse(handler, error)

    # --- Its body ---

    def _expect_body(self) -> None:
        """Accept the body. Raises GatewayError when its headers are not acceptable."""
        declared_bytes(self.headers, self._accepted_bytes_max)
        self._state = RECEIVING

    @property
    def _accepted_bytes_max(self) -> int:
        """The largest body that the endpoint accepts; a refused one is read as far as any."""
        limit = self._body_bytes_max
        own = None if self._handler is None else self._handler.endpoint.body_bytes_max
        return limit if own is None else min(own, limit)

    def take(self, data: bytes) -> None:
        """Collect a piece of the body."""
        handler, body = self._handler, self._body
        if handler is None:
            return
        try:
            if body is None:
                bodies = self._application.services.bodies
                body = self._body = InboundBody(
                    self.headers, self._accepted_bytes_max, bodies, handler.owner
                )
            if isinstance(body, InboundBody):
                body.feed(data)
            elif not body.drop(data):
                self._end(handler)
        except errors.GatewayError as error:
            self._refuse(handler, error)

    def body_fault(self, fault: str) -> None:
        """Refuse a malformed body: the bytes after it cannot be parsed."""
        handler = self._handler
        if handler is None:
            return
        if self._state is not REFUSED:
            error = errors.GatewayError(
                errors.INVALID_REQUEST, f"The request body is malformed: {fault}."
            )
            self._refuse(handler, error)
        self._end(handler)

    def received(self, whole: bytes) -> None:
        """The body is complete: start the endpoint, or finish a refused request.

        `whole` is the body, unless it came in pieces.
        """
        handler, body = self._handler, self._body
        if handler is None:
            if self._early is not None and not self.is_finished:
                self._respond_early(self._early)
        elif self._state is RECEIVING:
            self.body = body.take_body() if isinstance(body, InboundBody) else whole
            handler.body_received()
            # `create_task` would generate a name and look the loop up, a good part of its cost.
            self._task = asyncio.Task(self._serve(handler), loop=self._out.loop, name="request")
        else:
            self._end(handler)

    def forget_body(self) -> None:
        self.body = b""
        if self._body is not None:
            inbound = self.take_body()
            if inbound is not None:
                inbound.forget()

    def take_body(self) -> InboundBody | None:
        body = self._body
        if not isinstance(body, InboundBody):
            return None
        self._body = None
        return body

    # --- The endpoint ---

    async def _serve(self, handler: TornadoHandler) -> None:
        """Run the endpoint and finish the response, also one that the endpoint left incomplete.

        A cancelled or failed stream is cut where it is; nothing is written to a closed connection.
        """
        if self._out.is_closed:  # the client left right after its last byte
            self._handler = self._task = None
            self._client_left(handler)
            return
        serve = handler.served_method()
        assert serve is not None
        self._state = HANDLING
        OWNER.set(handler.owner)
        KEEPER.set(self)
        try:
            await serve(*handler.path_args)
            if not self.is_finished:
                handler.finish()
        except asyncio.CancelledError as error:
            is_cut = self._state is CUT
            if not (self.client_gone or is_cut):  # cancelled from elsewhere
                self._fail(handler, error)
                raise
            if not (self.client_gone or self.has_head_out):
                self._fail(handler, errors.GatewayError(errors.NO_CHANNEL_AVAILABLE, errors.ENDING))
        except StreamClosedError:
            self._client_left(handler)
        except Exception as error:  # noqa: BLE001  the top of a request: every fault is reported
            self._fail(handler, error)
        finally:
            self._task = None
            if self.is_finished:
                self._leave_flight()
            else:
                if self.has_head_out:
                    handler.break_off()
                else:
                    handler.finish()

    def _fail(self, handler: TornadoHandler, error: BaseException) -> None:
        """Log the error, and respond with it unless the head is sent already."""
        handler.log_exception(type(error), error, error.__traceback__)
        if not self.has_head_out:
            handler.clear()
            handler.respond_error(error)
        forget_frames(error)

    def _refuse(self, handler: TornadoHandler, error: BaseException) -> None:
        """Respond before the body is complete, and let the client finish sending (`body.py`).

        The response is sent at once; the connection continues only after the end of the body.
        """
        handler.log_exception(type(error), error, error.__traceback__)
        self.forget_body()
        unread = self._body = UnreadBody(self.headers, self._body_bytes_max)
        self._state = REFUSED
        handler.release()
        handler.clear()
        handler.respond_error(error)
        # Servers disagree on whether a method that they do not know has a body.
        if not (unread.keeps_connection and self.method in METHODS):
            handler.set_header("Connection", "close")
        if unread.expects_continue:
            handler.finish()
            return
        handler.flush()
        if unread.is_expected:
            self._task = asyncio.create_task(self._stop_lingering(handler))

    async def _stop_lingering(self, handler: TornadoHandler) -> None:
        await self._application.services.clock.sleep(DROP_SECONDS)
        self._task = None
        self._end(handler)

    # --- Its end ---

    def lost(self) -> None:
        """End a request whose connection is gone."""
        handler = self._handler
        if handler is None:
            return
        if self._state is REFUSED:  # its response is sent
            self._end(handler)
            return
        self._client_left(handler)
        if self._task is None:
            self._handler = None
        elif self._state in _RUNNING:
            self._cancel(self._task)

    def cut(self) -> None:
        """End the request, because the process ends (`application.py`)."""
        handler = self._handler
        if self._task is not None and self._state in _RUNNING:
            self._state = CUT
            self._cancel(self._task)
        elif handler is not None and self._state is REFUSED:
            self._end(handler)
        else:  # its body is still received, or its response still sent
            self.abort()
            self._leave()

    def _client_left(self, handler: TornadoHandler) -> None:
        self.client_gone = True
        self._count(CLIENT_CLOSED_REQUEST)
        handler.release()
        self._leave_flight()

    def _leave_flight(self) -> None:
        """Leave flight once the endpoint has ended and the last byte is sent."""
        if self._task is not None and self._state in _RUNNING:
            return
        if self._sent is None or self._sent.done():
            self._leave()
        else:
            self._sent.add_done_callback(self._leave)

    def _leave(self, _: object = None) -> None:
        self.forget_body()
        self.leave_answer()
        self._application.services.in_flight.leave(self)

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        # Once: a second cancellation would interrupt the endpoint's clean-up.
        if not task.cancelling():
            task.cancel()

    def _end(self, handler: TornadoHandler) -> None:
        if not self.is_finished:
            handler.finish()

    def _count(self, status: int) -> None:
        """Count the response, once."""
        route, self._route = self._route, None
        if route is not None:
            self._application.services.metrics.http_response(route=route, status=status)

    # --- Its response ---

    @property
    def answer_owner(self) -> str:
        return "" if self._handler is None else self._handler.owner

    def unsent_bytes(self) -> int:
        return self._out.unsent_bytes

    def cut_reader(self) -> None:
        self.abort()

    def respond(
        self, status: int, reason: str, headers: dict[str, str], chunk: bytes, *, is_whole: bool
    ) -> Future[None]:
        application = self._application
        headers["Date"] = response.http_date(int(application.services.clock.now()))
        if application.cors is not None:
            headers = application.cors.headers(self.headers, headers)
        sent = self._begin_response(status, reason, headers, chunk)
        return self._complete(status, sent) if is_whole else sent

    def _begin_response(
        self, status: int, reason: str, headers: dict[str, str], chunk: bytes
    ) -> Future[None]:
        has_body = self.method != "HEAD" and status not in _BODYLESS
        is_current = self.version == "HTTP/1.1"
        must_close = self._application.services.in_flight.is_draining
        if has_body and "Content-Length" not in headers:
            if is_current:
                self._is_chunked = True
                headers["Transfer-Encoding"] = "chunked"
            else:
                must_close = self._ends_by_closing = True  # the end of the connection ends the body
        connection_header = headers.get("Connection")
        if must_close or (connection_header is not None and connection_header.lower() == "close"):
            self.keeps_alive = False
        if connection_header is None:
            if not self.keeps_alive:
                headers["Connection"] = "close"
            elif not is_current:
                headers["Connection"] = "keep-alive"
        data = response.response_head(status, reason, headers)
        self.has_head_out = True
        self.note_sent(chunk)
        if chunk and has_body:
            data += response.chunk_of(chunk) if self._is_chunked else chunk
        return self._out.write(data)

    def hand_over(self, headers: Mapping[str, str]) -> Outbound:
        """Accept a WebSocket hand-shake with these headers, and leave flight.

        The connection then carries the other protocol until the endpoint ends (`websocket.py`).
        """
        status = HTTPStatus.SWITCHING_PROTOCOLS
        data = response.response_head(status, status.phrase, headers)
        self.has_head_out = self.is_finished = True
        self._out.send(data)
        self._count(status)
        self._leave()
        return self._out

    def write(self, chunk: bytes) -> Future[None]:
        if chunk and self._is_chunked:
            chunk = response.chunk_of(chunk)
        return self._out.write(chunk)

    def abort(self) -> None:
        self._out.transport.abort()

    def finish(self, chunk: bytes, status: int) -> Future[None]:
        if self._is_chunked:
            chunk = (response.chunk_of(chunk) if chunk else b"") + response.LAST_CHUNK
        return self._complete(status, self._out.write(chunk))

    def break_off(self, chunk: bytes, status: int) -> None:
        """See TornadoRequest: the body ends before its last chunk or its length (RFC 9112, 8).

        Where the end of the connection would end it, the connection is reset.
        """
        self.keeps_alive = False
        if chunk and self._is_chunked:
            chunk = response.chunk_of(chunk)
        self._complete(status, self._out.write(chunk))
        if self._ends_by_closing:
            reset(self._out.transport)

    def _complete(self, status: int, sent: Future[None]) -> Future[None]:
        """The last byte is written: `sent` is done when more may be."""
        handler, self._handler = self._handler, None
        self._sent = sent
        self.is_finished = True
        self._out.loop.call_soon(self._responded)
        self._count(status)
        if handler is not None:
            handler.release()
        if self._state is REFUSED and self._task is not None:
            self._task.cancel()
        if self._task is None or self._state not in _RUNNING:  # else at the end of the endpoint
            self._leave_flight()
        return sent
