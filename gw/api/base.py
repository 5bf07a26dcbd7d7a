"""What every endpoint shares above HTTP: trace id, checks, errors in its protocol's shape.

An endpoint is a subclass with the class attributes below and `on_get`, `on_post`, …: ten lines that
read, call one use-case and render. It is the one class between an endpoint and Tornado's handler;
what endpoints share beyond it are parts that an endpoint calls (`chat.py`, `submit.py`). The
checks stand in `checks.py` in their order; bodies and disconnects are the request's
(`gw/http/request.py`). Errors are rendered here and nowhere else.
"""

from __future__ import annotations

import os
import time
from asyncio import Future
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import Any, ClassVar
from uuid import UUID, SafeUUID

from tornado.web import HTTPError

from actors.limits.accounts import LimitLease
from actors.store.connection import StoreUnavailable
from actors.wallet.messages import LedgerUnavailable
from channels.dialects.validate import model_in
from channels.families import ErrorShape
from channels.json import COUNTED_BYTES_MAX
from channels.registry import ModelSpec
from gw.api.checks import CHECKS, AuthMode, Check
from gw.api.services import RefusedCall, Services
from gw.calls.call import ClientGone, end_call, operation_of, shown
from gw.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_ALLOWED,
    NO_CHANNEL_AVAILABLE,
    NOT_FOUND,
    UPGRADE_REQUIRED,
    GatewayError,
    render,
)
from gw.http.application import HttpApplication, WholeResponse
from gw.http.cors import Cors
from gw.http.tornado_adapter import TornadoHandler, TornadoRequest
from gw.http.websocket import SocketBook, is_handshake
from gw.idempotency import HEADER
from gw.keys.principal import Principal
from metrics import genai
from metrics.logs import EventLog
from metrics.spans import REQUEST_READ, UNSAMPLED, Attributes, AttributeValue, CallSpan

# The span of a billed request: begun when its model is found, or when it is refused before.
#
# Its attributes by OpenTelemetry's names of every call are here; what its endpoint knows besides
# comes with it. How it ends is recorded by `gw/calls/call.py`.


def begin_span(
    handler: ApiHandler, model: ModelSpec, attributes: Callable[[], Attributes]
) -> CallSpan:
    """The span of the request's call, with these attributes beside those of every call."""
    span = handler.span = _begin(handler, model, attributes)
    if span.sampled:
        span.event(REQUEST_READ)
    return span


def end_refused(handler: ApiHandler, error: GatewayError) -> None:
    """End the span of a request that is answered with an error, begun or not."""
    span = handler.span
    if span is None:
        named = handler.model_name
        known = None if named is None else handler.services.current.registry.resolve(named)
        span = handler.span = _begin(handler, known, dict)
    end_call(span, shown("rejected", error))


def _begin(
    handler: ApiHandler, model: ModelSpec | None, attributes: Callable[[], Attributes]
) -> CallSpan:
    if handler.services.tracing.source is None:
        return UNSAMPLED
    operation = operation_of(handler.protocol)
    return handler.services.tracing.start_call(
        name=operation if model is None else f"{operation} {model.id}",
        header=handler.request.headers.get,
        trace_id=handler.call_id.int,
        began=handler.request.submitted_at,
        attributes=lambda: {
            genai.OPERATION_NAME: operation,
            **_of_every_call(handler, model),
            **attributes(),
        },
        is_stranger=handler.known_principal is None,
    )


def _of_every_call(handler: ApiHandler, model: ModelSpec | None) -> Attributes:
    """What is known of it: a model that is none of ours stays out, it may be anything."""
    known: dict[str, AttributeValue] = {
        "gw.protocol": handler.protocol,
        "gw.call": handler.call_id.hex,
    }
    if handler.known_principal is not None:
        known["gw.account"] = handler.known_principal.account_id
    if model is not None:
        known[genai.PROVIDER_NAME] = model.owned_by
        known[genai.REQUEST_MODEL] = model.id
    return known


# Ids of calls: UUIDs of version 7 (RFC 9562), which sort by time and so keep the indexes tidy.

# The bits that mark how the id was made, and their values.
_FIXED = 0xF << 76 | 0x3 << 62
_VERSION_AND_VARIANT = 0x7 << 76 | 0x2 << 62
_set, _UNKNOWN = object.__setattr__, SafeUUID.unknown


def new_call_id() -> UUID:
    """A fresh call id; shown as 32 lower-case hex digits."""
    return make_call_id(milliseconds=time.time_ns() // 1_000_000, random_bytes=os.urandom(10))


def make_call_id(*, milliseconds: int, random_bytes: bytes) -> UUID:
    """Put a time and ten random bytes together as version 7, variant 10."""
    assert len(random_bytes) == 10
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(random_bytes)
    # As `UUID(int=…)` does it behind its checks, which are three quarters of what one costs.
    made = UUID.__new__(UUID)
    _set(made, "int", value & ~_FIXED | _VERSION_AND_VARIANT)
    _set(made, "is_safe", _UNKNOWN)
    return made


# Which error a client gets when an exception reaches the top of a handler.
#
# One ladder, used for every endpoint. A database that is away is the table's 503, which clients try
# again; what is not known here is a fault of ours: 500, without a word about the inside.

INTERNAL_MESSAGE = (
    "The gateway failed to handle this request. Try again; if it persists, report its trace id."
)
STORE_MESSAGE = (
    "The gateway cannot reach its database at the moment. Nothing was charged; try again shortly."
)


def explain(error: BaseException) -> GatewayError:
    """Turn any exception into the error for the client."""
    if isinstance(error, GatewayError):
        return error
    if is_outage(error):
        return GatewayError(NO_CHANNEL_AVAILABLE, STORE_MESSAGE)
    if isinstance(error, HTTPError) and 400 <= error.status_code < 500:
        # Tornado's own complaints about a request, e.g. a path that is not UTF-8.
        return GatewayError(INVALID_REQUEST, "The request is malformed.")
    return GatewayError(INTERNAL_ERROR, INTERNAL_MESSAGE)


def is_outage(error: BaseException) -> bool:
    """True when the database is away, which its own log lines report in full."""
    return isinstance(error, StoreUnavailable | LedgerUnavailable)


def is_expected(error: BaseException) -> bool:
    """True for what is part of normal business: it is answered, not logged as a fault."""
    return isinstance(error, GatewayError) or (
        isinstance(error, HTTPError) and error.status_code < 500
    )


class ApiHandler(TornadoHandler):
    """One request to one endpoint."""

    shape: ClassVar[ErrorShape] = ErrorShape.CHAT
    auth: ClassVar[AuthMode] = "standard"
    challenge: ClassVar[str] = "Bearer"  # what a 401 asks for
    agent_keys_allowed: ClassVar[bool] = False
    limited: ClassVar[bool] = False  # the account's limits count it
    billed: ClassVar[bool] = False  # a POST costs: 402 with nothing left; refusals become rows
    protocol: ClassVar[str] = ""  # of those rows
    idempotent: ClassVar[bool] = False  # takes an `Idempotency-Key`
    touches_key: ClassVar[bool] = True  # it is a use of the key (`last_used_at`)

    # Set by the endpoint: the model as the client named it; the call's span once it is begun; and,
    # once a use-case has taken the call over and writes its row, that a refusal need not.
    # `row_detail` is what the row of a refusal keeps of the request, as far as it was read.
    model_name: str | None = None
    span: CallSpan | None = None
    row_detail: Mapping[str, Any] | None = None
    owns_row: bool = False

    # What stands before it, in order: those of `every_check` that apply to it.
    every_check: ClassVar[Sequence[Check]] = CHECKS
    _checks: ClassVar[Sequence[Check]] = ()
    _free_checks: ClassVar[Sequence[Check]] = ()  # of a request that costs nothing

    services: Services

    principal: Principal  # who asks: set by the check of the key, where `auth` is not "none"
    _awaits_hold = False
    _admission: LimitLease | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._checks = tuple(check for check in cls.every_check if check.applies(cls))
        cls._free_checks = tuple(check for check in cls._checks if not check.is_of_money)

    def __init__(self, application: Any, request: TornadoRequest, **options: Any) -> None:
        self.services = application.services
        self.call_id = self.services.new_id()
        self.path_args = []
        super().__init__(application, request, **options)

    @property
    def known_principal(self) -> Principal | None:
        """Who asks, as far as that is known."""
        return getattr(self, "principal", None)

    @property
    def is_billed(self) -> bool:
        """Whether this request costs money: polls, lists and deletions of an endpoint do not."""
        return self.billed and self.request.method == "POST"

    def base_url(self) -> str:
        """How this client reaches the gateway, for links of ours in responses."""
        return f"{'https' if self.services.config.tls else 'http'}://{self.request.host}"

    # --- Before the endpoint ---

    def refused_method(self) -> GatewayError:
        """Return the error for any other method (contract §5).

        Of a hand-shake too: clients that try a WebSocket first read 426 as the word to go on over
        HTTP, and any other status as a fault to be tried again.
        """
        allowed = ", ".join(self.allowed_methods())
        if is_handshake(self.request.headers):
            message = f"There is no WebSocket here. Use {allowed} over HTTP."
            return GatewayError(UPGRADE_REQUIRED, message, headers={"Upgrade": "HTTP/1.1"})
        return GatewayError(
            METHOD_NOT_ALLOWED, f"Use {allowed} on this endpoint.", headers={"Allow": allowed}
        )

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """Decode a part of the path or a value of the query, whose fitness is `TextCheck`'s."""
        return value.decode("utf-8", "surrogateescape")

    def unknown_path(self) -> GatewayError:
        """Return the error for an id in the path that is none."""
        return GatewayError(NOT_FOUND, "There is nothing of this id.")

    def check(self) -> Coroutine[Any, Any, None] | None:
        """Pass every check that can answer now; what is returned asks the others."""
        checks = self._checks if self.is_billed else self._free_checks
        for at, check in enumerate(checks):
            if not check.try_now(self):
                return self._ask(checks[at:])
        return None

    async def _ask(self, checks: Sequence[Check]) -> None:
        for check in checks:
            await check.ask(self)

    def admitted(self, admission: LimitLease) -> None:
        """Keep the right to be in flight until the request is released."""
        self._admission = admission
        if self.request.client_gone:  # meanwhile; it is reported once
            self.release()
        for name, value in admission.headers.items():
            self.set_header(name, value)  # an error clears them (spec: Errors, rule 2)

    @property
    def idempotency_keys(self) -> list[str]:
        """The values of the request's `Idempotency-Key`; there should be one at most."""
        return self.request.headers.get_list(HEADER) if self.idempotent else []

    def named_model(self) -> str | None:
        """The model of a refused call, as the client named it; None where it is not known.

        Of a body that cannot be read, too: its row is found by the model it was meant for.
        """
        body = self.request.body
        if self.model_name is None and len(body) <= COUNTED_BYTES_MAX:
            return model_in(body)
        return self.model_name

    def body_received(self) -> None:
        if self.is_billed:
            self._awaits_hold = True
            self.services.overload.enter()

    def held(self) -> None:
        """The call has its hold, or will not get one. A second time it does nothing."""
        if self._awaits_hold:
            self._awaits_hold = False
            self.services.overload.leave()

    def take_admission(self) -> LimitLease | None:
        """Take over the right to be in flight, for work that may outlive the request."""
        admission, self._admission = self._admission, None
        return admission

    def release(self) -> None:
        self.held()
        if self._admission is not None:
            self._admission.leave()

    def set_default_headers(self) -> None:
        headers = self._headers
        headers["Content-Type"] = "application/json"
        headers["X-Gateway-Trace"] = self.call_id.hex

    def shape_of(self, error: GatewayError) -> ErrorShape:
        """Return the shape of an error: that of the endpoint, where its method is served."""
        return shape_at(self.request) if error.kind in _OF_PATH else self.shape

    def tell(self, error: BaseException) -> None:
        error_response = explain(error)
        self.set_status(error_response.http_status)
        for name, value in error_response.headers.items():
            self.set_header(name, value)
        body = render(self.shape_of(error_response), error_response)
        self.set_header("Content-Length", len(body))
        self.write(body)
        self.record_refusal(error_response)

    def record_refusal(self, error_response: GatewayError) -> None:
        """End the trace of a refused call; have its row written, where it has none of its own."""
        if self.is_billed:
            end_refused(self, error_response)
        if self.is_billed and not self.owns_row and self.known_principal is not None:
            self.owns_row = True
            self.services.refusals(
                RefusedCall(
                    call_id=self.call_id,
                    principal=self.principal,
                    protocol=self.protocol,
                    model=self.named_model(),
                    http_status=error_response.http_status,
                    error_code=error_response.kind.code,
                    error_message=error_response.message,
                    submitted_at=self.request.submitted_at,
                    detail=self._refused_detail(),
                )
            )

    def _refused_detail(self) -> Mapping[str, Any] | None:
        fields = _log_fields(self.span)
        return {**(self.row_detail or {}), **fields} if fields else self.row_detail

    def log_exception(
        self,
        typ: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if value is None or is_expected(value):
            return
        log, trace = EventLog("gw.web"), self.call_id.hex
        of_trace = _log_fields(self.span)
        if is_outage(value):
            why = str(value)
            log.warning("request_failed", trace=trace, route=self.route, why=why, **of_trace)
        else:
            log.error("request_failed", exc_info=True, trace=trace, route=self.route, **of_trace)


def _log_fields(span: CallSpan | None) -> Mapping[str, Any]:
    return {} if span is None else span.log_fields


# What is found wrong with a path's method alone, before its endpoint begins.
_OF_PATH = (METHOD_NOT_ALLOWED, UPGRADE_REQUIRED)
# Where another protocol than the first one is spoken, whatever endpoints there are.
_SHAPES = (("/v1beta", ErrorShape.GEMINI), ("/v1/messages", ErrorShape.MESSAGES))


def shape_at(request: TornadoRequest) -> ErrorShape:
    """The shape of a 404 or 405 at a path (contract §7, Unknown paths).

    The official library of native-content asks under /v1 too; it is known by the header of its key.
    """
    path = request.path
    for prefix, shape in _SHAPES:
        if path == prefix or path.startswith(f"{prefix}/"):
            return shape
    return ErrorShape.GEMINI if "x-goog-api-key" in request.headers else ErrorShape.CHAT


class NotFoundHandler(ApiHandler):
    """Every path without an endpoint (contract §5)."""

    auth = "none"
    route = "not_found"

    def refused_method(self) -> GatewayError:
        return GatewayError(NOT_FOUND, "There is no such endpoint.")

    def shape_of(self, error: GatewayError) -> ErrorShape:
        return shape_at(self.request)


# The client's connection as a call writes to it, over a handler.
#
# Headers go out with the first bytes. Waiting for a write that the client has not kept up with is
# the back-pressure: a client that reads slowly slows the reading of the upstream.


class HandlerWriter:
    """Writes one response through its handler."""

    sends_at_once = True

    def __init__(self, handler: ApiHandler) -> None:
        self._handler = handler
        self._has_begun = False

    @property
    def client_gone(self) -> bool:
        return self._handler.request.client_gone

    def owns_row(self) -> None:
        self._handler.owns_row = True
        self._handler.held()

    def forget_request(self) -> None:
        self._handler.request.forget_body()

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        handler = self._handler
        if http_status != 200:  # which it is already
            handler.set_status(http_status)
        handler.set_header("Content-Type", content_type)
        for name, value in headers.items():
            handler.set_header(name, value)

    def write(self, block: bytes) -> Future[None] | None:
        handler = self._handler
        if self._has_begun:
            # Not through the handler, which would only collect it: nothing changes its bytes.
            sent = handler.request.write(block)
        else:
            self._begin_stream()
            handler.write(block)
            sent = handler.flush()
        if not sent.done():
            return _kept_up(sent)
        if sent.exception() is not None:
            raise ClientGone
        return None

    def finish(self, block: bytes) -> None:
        self._begin_stream()
        self._handler.finish(block)

    def send(self, body: bytes) -> None:
        self._handler.finish(body)

    def _begin_stream(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        handler = self._handler
        handler.set_header("Cache-Control", "no-cache")
        handler.set_header("X-Accel-Buffering", "no")  # nginx would collect the events otherwise


def _kept_up(sent: Future[None]) -> Future[None]:
    """Done when that is; a connection that was lost is a client that left."""
    kept_up: Future[None] = sent.get_loop().create_future()

    def pass_on(sent: Future[None]) -> None:
        if kept_up.done():
            return
        if sent.cancelled() or sent.exception() is not None:
            kept_up.set_exception(ClientGone())
            kept_up.exception()  # raised where it is awaited, which is optional
        else:
            kept_up.set_result(None)

    sent.add_done_callback(pass_on)
    return kept_up


# The response of a call that is refused in an overload, at a small part of a call's cost.
#
# Such a call has no handler: it is not authenticated, so it counts for no limit and has no row, and
# is known by its metric alone. Its body is dropped. A short one is read to its end, so that the
# connection can be kept, because making a new one would cost more than the refusal.

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


# The public application: the routes with what their handlers may use.


class GatewayApplication(HttpApplication):
    """What the public server serves; every handler is an `ApiHandler`."""

    services: Services

    def __init__(self, handlers: list[Any], *, services: Services, **settings: Any) -> None:
        super().__init__(handlers, services=services, otherwise=NotFoundHandler, **settings)
        origins = services.config.cors_origins
        self.cors = self._cors = Cors(origins) if origins else None
        self.sockets = SocketBook()

    def early_response(self, request: TornadoRequest, handler: type[Any]) -> WholeResponse | None:
        """Shed calls in an overload: what is free of charge is always served.

        A page's preflight is answered as well, whatever the load.
        """
        services = self.services
        if self._cors is not None and (early := self._cors.preflight(request, handler)):
            return early
        if services.overload.is_full and handler.billed and request.method == "POST":
            return shed_response(services, handler)
        return None
