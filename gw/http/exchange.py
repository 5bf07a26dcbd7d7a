"""One HTTP exchange: its body, early answers, disconnects, accounting.

Mechanics only; who may ask, and what an error looks like, is `gw/api/base.py` above this, how an
answer is written `response.py` below it. A handler is driven from here and not by Tornado's
`_execute`, which takes three turns of the event loop and as many futures for what is one task: a
request that needs no waiting is checked when its head is there, and its endpoint starts when its
body is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from gw.errors.table import INVALID_REQUEST, METHOD_NOT_ALLOWED, NO_CHANNEL_AVAILABLE, GatewayError
from gw.errors.unexpected import ENDING_MESSAGE
from gw.http.body import LINGER_SECONDS, InboundBody, Leftover
from gw.http.response import AnswerHandler

Endpoint = Callable[..., Awaitable[None]]

_ENDPOINTS = {name: f"on_{name.lower()}" for name in RequestHandler.SUPPORTED_METHODS}

CLIENT_CLOSED_REQUEST = 499  # nginx's number for a client that left before its answer
# Bodies are bounded by `body.py`; Tornado's own bound would answer with a bare 400.
_TORNADO_BODY_BYTES = 1 << 62


class Exchange(AnswerHandler):
    """One request and its answer. An endpoint defines `on_get`, `on_post`, … coroutines."""

    route: ClassVar[str] = "other"  # the metrics' label
    # What a write to a client that has left raises.
    gone_errors: ClassVar[tuple[type[Exception], ...]] = (StreamClosedError,)

    submitted_at: float = 0.0  # Unix seconds
    body: bytes = b""  # complete when `on_<method>` begins
    client_gone: bool = False
    task: asyncio.Task[Any] | None = None  # runs `on_<method>`; cancelled when the client leaves

    _inbound: InboundBody | None = None
    _leftover: Leftover | None = None  # set once the request is refused before its body was in
    _checking: asyncio.Task[None] | None = None
    _lingering: asyncio.Task[None] | None = None
    _sent: asyncio.Future[None] | None = None  # done when the answer is out
    _is_accounted = False
    _is_cut = False

    @classmethod
    def allowed_methods(cls) -> list[str]:
        """The methods that have an `on_<method>`."""
        return [method for method, name in _ENDPOINTS.items() if hasattr(cls, name)]

    def refused_method(self) -> GatewayError:
        """The answer to any other method (contract §5)."""
        allowed = ", ".join(self.allowed_methods())
        return GatewayError(
            METHOD_NOT_ALLOWED, f"Use {allowed} on this endpoint.", headers={"Allow": allowed}
        )

    def check_at_once(self) -> bool:
        """What `check` does, where that needs no waiting; False leaves the rest to it.

        Whoever adds a check adds it to both.
        """
        return False

    async def check(self) -> None:
        """Everything that can be refused without the body. Raises what it is refused with."""

    def tell(self, error: BaseException) -> None:
        """Set status, headers and body, Content-Length included, to tell of `error`."""
        raise NotImplementedError

    def release(self) -> None:
        """Give back what the request holds, the moment it is answered or its client has left.

        Called at least once, possibly more often.
        """

    def cut(self) -> None:
        """End now, because the process ends (`drain.py`)."""
        self._is_cut = True
        if self.task is not None:
            self._cancel()
        elif self._leftover is not None and not self._finished:
            self._end()
        else:  # its body is still coming in, or its answer still going out
            self._connection.close()
            self._leave()

    # --- Before the endpoint ---

    def begin(self, path_args: Sequence[bytes]) -> Awaitable[None] | None:
        """The head is there. What is returned is to be waited for before the body may come."""
        services = self.services
        self.submitted_at = services.clock.now()
        services.in_flight.enter(self)
        connection = self._connection
        connection.set_max_body_size(_TORNADO_BODY_BYTES)
        connection.refuse_body = self._refuse_body
        try:
            if services.in_flight.is_refusing:
                raise GatewayError(NO_CHANNEL_AVAILABLE, ENDING_MESSAGE)
            self.path_args = [self.decode_argument(part) for part in path_args]
            if self._endpoint() is None:
                raise self.refused_method()
            if not self.check_at_once():
                self._checking = asyncio.create_task(self._check())
                return self._checking
            self._expect_body()
        except Exception as error:  # noqa: BLE001  the top of a request: every fault is told
            self._refuse(error)
        return None

    async def _check(self) -> None:
        try:
            await self.check()
            self._expect_body()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  as in `begin`
            self._refuse(error)
        finally:
            self._checking = None

    def _expect_body(self) -> None:
        """Raises GatewayError when the head tells that the body will not do."""
        services = self.services
        self._inbound = InboundBody(
            self.request.headers, services.config.max_body_bytes, services.bodies
        )

    def data_received(self, chunk: bytes) -> None:
        if self._leftover is not None:
            if not self._leftover.drop(chunk):
                self._end()
            return
        assert self._inbound is not None
        try:
            self._inbound.feed(chunk)
        except GatewayError as error:
            self._refuse(error)

    def _refuse(self, error: BaseException) -> None:
        """Answer before the body is in, and let the client finish sending (`body.py`).

        The answer goes out now, but `finish` comes only when the body has ended: when it comes
        earlier, Tornado closes the connection.
        """
        self.log_exception(type(error), error, error.__traceback__)
        limit_bytes = self.services.config.max_body_bytes
        leftover = self._leftover = Leftover(self.request.headers, limit_bytes)
        self.forget_body()
        self.release()
        self.clear()
        self.tell(error)
        # Servers disagree on whether a method that they do not know has a body.
        is_known = self.request.method in _ENDPOINTS
        if not (leftover.keeps_connection and is_known):
            self.set_header("Connection", "close")
        if leftover.is_held_back:
            self.finish()
            return
        self.flush()
        if leftover.is_expected:
            self._lingering = asyncio.create_task(self._stop_lingering())

    def _refuse_body(self, fault: str) -> None:
        """What comes is not chunked: nothing behind it can be trusted, and the connection ends."""
        if self._leftover is None:
            self._refuse(GatewayError(INVALID_REQUEST, f"The request body is malformed: {fault}."))
        self._end()

    async def _stop_lingering(self) -> None:
        await self.services.clock.sleep(LINGER_SECONDS)
        self._end()

    # --- The endpoint ---

    def body_received(self) -> None:
        """The body is complete: start the endpoint, or end what was refused before."""
        if self._leftover is not None:
            self._end()
            return
        assert self._inbound is not None
        self.body = self._inbound.take()
        # The loop holds it until it begins. `create_task` would make up a name for it, which is a
        # good part of what a task costs.
        asyncio.Task(self._serve(), loop=asyncio.get_running_loop(), name="request")

    async def _serve(self) -> None:
        """Run the endpoint, and finish the answer or what there is of it.

        A stream that was cut ends there, and on a closed connection nothing is written at all.
        """
        if self._connection.is_closed:  # it left with its last byte: nobody would be called back
            self._client_left()
            return
        endpoint = self._endpoint()
        assert endpoint is not None
        self.task = asyncio.current_task()
        try:
            await endpoint(*self.path_args)
            if not self._finished:
                self.finish()
        except asyncio.CancelledError as error:
            if not (self.client_gone or self._is_cut):  # not ours
                self._fail(error)
                raise
            if not (self.client_gone or self._headers_written):
                self._fail(GatewayError(NO_CHANNEL_AVAILABLE, ENDING_MESSAGE))
        except self.gone_errors:
            self._client_left()
        except Exception as error:  # noqa: BLE001  the top of a request: every fault is told
            self._fail(error)
        finally:
            self.task = None
            if self._finished:
                self._leave_flight()
            else:
                self.finish()

    def _fail(self, error: BaseException) -> None:
        """Log the fault, and tell of it where nothing has been sent."""
        self.log_exception(type(error), error, error.__traceback__)
        if not self._headers_written:
            self.clear()
            self.tell(error)

    def _endpoint(self) -> Endpoint | None:
        name = _ENDPOINTS.get(self.request.method or "")
        return getattr(self, name, None) if name is not None else None

    # --- After it ---

    def on_connection_close(self) -> None:
        if self._finished or self._leftover is not None:
            self._end()  # it has its answer; Tornado says this too when that ended before the body
            return
        self._client_left()
        self._cancel()

    def on_finish(self) -> None:
        self.release()
        if self._lingering is not None and self._lingering is not asyncio.current_task():
            self._lingering.cancel()

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> asyncio.Future[None]:
        self._sent = super().finish(chunk)
        self._leave_flight()
        return self._sent

    def account(self, status: int) -> None:
        """Count the answer, once; the application calls it for every finished one."""
        if not self._is_accounted:
            self._is_accounted = True
            self.services.metrics.http_response(route=self.route, status=status)

    def _client_left(self) -> None:
        self.client_gone = True
        self.account(CLIENT_CLOSED_REQUEST)
        self.release()
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
        self.services.in_flight.leave(self)

    def forget_body(self) -> None:
        """Nobody needs it any more."""
        self.body = b""
        if self._inbound is not None:
            self._inbound.forget()
            self._inbound = None

    def _cancel(self) -> None:
        # Once: a second one would hit what the endpoint does to end well.
        if self.task is not None and not self.task.cancelling():
            self.task.cancel()

    def _end(self) -> None:
        if not self._finished:
            self.finish()
