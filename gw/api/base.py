"""The base of every endpoint: trace id, checks, errors in its protocol's shape.

An endpoint is a subclass with the class attributes below and `on_get`, `on_post`, …: some ten lines
that read, call one use-case and render. Endpoints share further code by calling it (`chat.py`,
`submit.py`), not by inheritance. The checks are in `checks.py`; `gw/http/request.py` handles bodies
and disconnects. Errors are rendered only here.
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

from actors.limits.accounts import Permit
from actors.media_store.storage import StorageFault
from actors.store.connection import StoreUnavailable
from actors.wallet.messages import LedgerUnavailable
from channels.dialects.validate import model_in
from channels.families import ErrorShape
from channels.json.weight import COUNTED_BYTES_MAX
from channels.offload.pool import OffloadFailed
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
from gw.http.application import HttpApplication
from gw.http.cors import Cors
from gw.http.response import WholeResponse
from gw.http.tornado.handler import TornadoHandler
from gw.http.tornado.request import TornadoRequest
from gw.http.websocket import SocketBook, is_handshake
from gw.idempotency import HEADER
from gw.keys.principal import Principal
from metrics import genai
from metrics.logs import EventLog
from metrics.spans import REQUEST_READ, UNSAMPLED, Attributes, AttributeValue, CallSpan

# The span of a billed request, begun when its model is found, or when it is refused before that.
#
# It has the attributes of every call, and those that its endpoint adds. `gw/calls/call.py` ends it.


def begin_span(
    handler: ApiHandler, model: ModelSpec, attributes: Callable[[], Attributes]
) -> CallSpan:
    """Begin the span of the request's call, with further attributes."""
    span = handler.span = _begin(handler, model, attributes)
    if span.sampled:
        span.event(REQUEST_READ)
    return span


def end_refused(handler: ApiHandler, error: GatewayError) -> None:
    """End the span of a refused request; begin it first if it has none."""
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
    """Return the attributes of every call; an unknown model's name is left out, as any text may."""
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

# The last 80 bits: version and variant, and the random ones around them.
_VERSION_AND_VARIANT = 0x7 << 76 | 0x2 << 62
_RANDOM_BITS = (2**12 - 1) << 64 | (2**62 - 1)
_set, _UNKNOWN = object.__setattr__, SafeUUID.unknown
# Random numbers of one request to the system, which costs as much as all the rest of an id.
_DRAWN = 256
_drawn: list[int] = []
os.register_at_fork(after_in_child=_drawn.clear)  # else both processes would use the rest of it


def new_call_id() -> UUID:
    """Return a new call id; its text form is 32 lower-case hex digits."""
    if not _drawn:
        _drawn.extend(memoryview(os.urandom(16 * _DRAWN)).cast("Q"))
    return make_call_id(time.time_ns() // 1_000_000, _drawn.pop() << 64 | _drawn.pop())


def make_call_id(milliseconds: int, random_number: int) -> UUID:
    """Combine a time and at least 80 random bits to a UUID of version 7, variant 10."""
    # `UUID(int=…)` without its checks, which are three quarters of its cost.
    made = UUID.__new__(UUID)
    value = milliseconds << 80 | random_number & _RANDOM_BITS | _VERSION_AND_VARIANT
    _set(made, "int", value)
    _set(made, "is_safe", _UNKNOWN)
    return made


# The client's error for an exception that reaches the top of a handler, for every endpoint. An
# unreachable database is a 503, which clients retry; an unknown exception is a 500 without details.

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
        # Tornado's own refusals, e.g. of a path that is not UTF-8.
        return GatewayError(INVALID_REQUEST, "The request is malformed.")
    return GatewayError(INTERNAL_ERROR, INTERNAL_MESSAGE)


def is_outage(error: BaseException | None) -> bool:
    """Whether the database is unreachable, which it logs itself."""
    return isinstance(error, StoreUnavailable | LedgerUnavailable)


def is_own_failure(error: BaseException) -> bool:
    """Whether a request failed by the gateway's own fault: its program, its database or its disk.

    Neither the client's fault nor an upstream's, and no refusal for want of a channel or of room.
    """
    if isinstance(error, GatewayError):
        cause = error.__cause__
        return (
            error.kind is INTERNAL_ERROR
            or is_outage(cause)
            or isinstance(cause, StorageFault | OffloadFailed)
        )
    return not isinstance(error, HTTPError) or error.status_code >= 500


class ApiHandler(TornadoHandler):
    """One request to one endpoint."""

    shape: ClassVar[ErrorShape] = ErrorShape.CHAT
    auth: ClassVar[AuthMode] = "standard"
    challenge: ClassVar[str] = "Bearer"  # the scheme named by a 401
    agent_keys_allowed: ClassVar[bool] = False
    limited: ClassVar[bool] = False  # counts for the account's limits
    billed: ClassVar[bool] = False  # a POST costs money: 402 without funds; refusals have rows
    protocol: ClassVar[str] = ""  # of those rows
    idempotent: ClassVar[bool] = False  # accepts an `Idempotency-Key`
    touches_key: ClassVar[bool] = True  # updates the key's `last_used_at`

    # Set by the endpoint: the model as named by the client; the span of the call; `owns_row` once
    # the call writes its row itself, so that a refusal writes none; `row_detail`, the detail of a
    # refusal's row.
    model_name: str | None = None
    span: CallSpan | None = None
    row_detail: Mapping[str, Any] | None = None
    owns_row: bool = False

    # The checks of the endpoint, in order: those of `every_check` that apply to it.
    every_check: ClassVar[Sequence[Check]] = CHECKS
    _checks: ClassVar[Sequence[Check]] = ()
    _free_checks: ClassVar[Sequence[Check]] = ()  # of a request that costs nothing

    services: Services

    # Set by the checks: the principal, unless `auth` is "none"; the permit of the account's limits,
    # until the request is released.
    principal: Principal
    admission: Permit | None = None
    _awaits_hold = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._checks = tuple(check for check in cls.every_check if check.applies(cls))
        cls._free_checks = tuple(check for check in cls._checks if not check.is_of_money)

    def __init__(self, application: Any, request: TornadoRequest, **options: Any) -> None:
        self.application = application
        self.request = request
        self.services = application.services
        self.call_id = call_id = self.services.new_id()
        self.default_headers = {"Content-Type": "application/json", "X-Gateway-Trace": call_id.hex}
        self.clear()
        if options:
            self.initialize(**options)

    @property
    def known_principal(self) -> Principal | None:
        """The principal, or None before the key is checked."""
        return getattr(self, "principal", None)

    @property
    def owner(self) -> str:
        """The account of the key; a handler without a key names its link itself."""
        principal = self.known_principal
        return "" if principal is None else principal.account_id

    @property
    def is_billed(self) -> bool:
        """Whether this request costs money; polls, lists and deletions do not."""
        return self.billed and self.request.method == "POST"

    def base_url(self) -> str:
        """Return the gateway's URL as used by this client, for links in responses."""
        return f"{'https' if self.services.config.tls else 'http'}://{self.request.host}"

    # --- Before the endpoint ---

    def refused_method(self) -> GatewayError:
        """Return the error for a method that the endpoint lacks (contract §5).

        A WebSocket hand-shake gets 426: clients then continue over HTTP, while they retry after any
        other status.
        """
        allowed = ", ".join(self.allowed_methods())
        if is_handshake(self.request.headers):
            message = f"There is no WebSocket here. Use {allowed} over HTTP."
            return GatewayError(UPGRADE_REQUIRED, message, headers={"Upgrade": "HTTP/1.1"})
        return GatewayError(
            METHOD_NOT_ALLOWED, f"Use {allowed} on this endpoint.", headers={"Allow": allowed}
        )

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """Decode a part of the path or a value of the query; `TextCheck` validates it."""
        return value.decode("utf-8", "surrogateescape")

    def unknown_path(self) -> GatewayError:
        """Return the error for an invalid id in the path."""
        return GatewayError(NOT_FOUND, "There is nothing of this id.")

    def check(self) -> Coroutine[Any, Any, None] | None:
        """Run the checks; return a coroutine for the rest where one has to wait."""
        checks = self._checks if self.is_billed else self._free_checks
        for check in checks:
            if not check.try_now(self):
                return self._ask(checks[checks.index(check) :])
        if self.admission is not None and self.admission.headers:
            self._report_limits()
        return None

    async def _ask(self, checks: Sequence[Check]) -> None:
        for check in checks:
            await check.ask(self)
            if self.request.client_gone:  # it left while the check waited
                self.release()
        self._report_limits()

    def _report_limits(self) -> None:
        if self.admission is not None:
            for name, value in self.admission.headers.items():
                self.set_header(name, value)

    def set_status(self, status_code: int, reason: str | None = None) -> None:
        """Set the status; an error names no limit but the one that it is of (spec: Errors 2).

        Whoever responds sets the status before its headers, an upstream's error passed on too.
        """
        super().set_status(status_code, reason)
        if status_code >= 400:
            for name in [one for one in self._headers if one.startswith(LIMIT_HEADERS)]:
                if name not in self.default_headers:  # those of the endpoint's own rate
                    self.clear_header(name)

    @property
    def idempotency_keys(self) -> list[str]:
        """The values of the request's `Idempotency-Key`, at most one in a valid request."""
        return self.request.headers.get_list(HEADER) if self.idempotent else []

    def named_model(self) -> str | None:
        """Return the model of a refused call as named by the client, or None.

        It is also read from an invalid body, so that the row is found by its model.
        """
        body = self.request.body
        if self.model_name is None and len(body) <= COUNTED_BYTES_MAX:
            return model_in(body)
        return self.model_name

    def body_received(self) -> None:
        if self.is_billed:
            self._awaits_hold = True
            self.services.overload.waiting += 1

    def held(self) -> None:
        """The call has its hold, or will have none. A second call does nothing."""
        if self._awaits_hold:
            self._awaits_hold = False
            self.services.overload.waiting -= 1

    def take_admission(self) -> Permit | None:
        """Hand the permit of the account's limits over to work that may outlive the request."""
        admission, self.admission = self.admission, None
        return admission

    def release(self) -> None:
        if self._awaits_hold:
            self.held()
        if self.admission is not None:
            self.admission.leave()

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
        """End the trace of a refused call, and write its row unless the call writes it itself."""
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
                    detail={**(self.row_detail or {}), **_log_fields(self.span)} or None,
                )
            )

    def log_exception(
        self,
        typ: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if value is None or not is_own_failure(value):
            return
        self.services.metrics.http_failure(route=self.route)
        if isinstance(value, GatewayError):  # logged where it was made of its cause
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


# What the headers of an account's limits begin with, as `spelled`.
LIMIT_HEADERS = "X-Ratelimit-"
# Errors of a path's method, raised before the endpoint begins.
_OF_PATH = (METHOD_NOT_ALLOWED, UPGRADE_REQUIRED)
# Path prefixes whose errors have another shape than the first, for every endpoint below them.
_SHAPES = (("/v1beta", ErrorShape.GEMINI), ("/v1/messages", ErrorShape.MESSAGES))


def shape_at(request: TornadoRequest) -> ErrorShape:
    """Return the shape of a 404 or 405 at a path (contract §7, Unknown paths).

    The official library of native-content also uses /v1; the header of its key identifies it.
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


# The response of a call, written through its handler.
#
# Headers are sent with the first bytes. Back-pressure: a call that waits for a write to a slow
# client does not read its upstream meanwhile.


class HandlerWriter:
    """Writes one response through its handler."""

    sends_at_once = True

    def __init__(self, handler: ApiHandler) -> None:
        self._handler = handler
        self._has_begun = False

    @property
    def client_gone(self) -> bool:
        return self._handler.request.client_gone

    def hold_decided(self) -> None:
        self._handler.owns_row = True
        self._handler.held()

    def forget_request(self) -> None:
        self._handler.request.forget_body()

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        handler = self._handler
        if http_status != 200:  # the default
            handler.set_status(http_status)
        if content_type != "application/json":  # the same
            handler.set_header("Content-Type", content_type)
        for name, value in headers.items():
            handler.set_header(name, value)

    def write(self, block: bytes) -> Future[None] | None:
        handler = self._handler
        if self._has_begun:
            # Not through the handler, which would only buffer it.
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

    def break_off(self, block: bytes) -> None:
        self._begin_stream()
        self._handler.break_off(block)

    def send(self, body: bytes, before_write: Callable[[], None] | None = None) -> None:
        self._handler.request.before_write = before_write
        self._handler.finish(body)

    def _begin_stream(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        handler = self._handler
        handler.set_header("Cache-Control", "no-cache")
        handler.set_header("X-Accel-Buffering", "no")  # else nginx buffers the events


def _kept_up(sent: Future[None]) -> Future[None]:
    """Return a future that is done with `sent`, and fails with ClientGone if that failed."""
    kept_up: Future[None] = sent.get_loop().create_future()

    def pass_on(sent: Future[None]) -> None:
        if kept_up.done():
            return
        if sent.cancelled() or sent.exception() is not None:
            kept_up.set_exception(ClientGone())
            kept_up.exception()  # marks it as retrieved: awaiting it is optional
        else:
            kept_up.set_result(None)

    sent.add_done_callback(pass_on)
    return kept_up


# The response of a call that is refused in an overload, at a fraction of a call's cost.
#
# Such a call has no handler: it is not authenticated, counts for no limit, has no row, and appears
# in a metric only. Its body is dropped. A short one is read to its end to keep the connection,
# because a new one would cost more than the refusal.

OVERLOADED = "The gateway has more requests than it can serve. Nothing was charged; try again."


def shed_response(services: Services, handler: type[Any]) -> WholeResponse:
    """Count a refused call of this handler, and return its response."""
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


class GatewayApplication(HttpApplication):
    """The application of the public server; every handler is an `ApiHandler`."""

    services: Services

    def __init__(self, handlers: list[Any], *, services: Services, **settings: Any) -> None:
        super().__init__(handlers, services=services, otherwise=NotFoundHandler, **settings)
        origins = services.config.cors_origins
        self.cors = self._cors = Cors(origins) if origins else None
        self.sockets = SocketBook(services.bodies)

    def early_response(self, request: TornadoRequest, handler: type[Any]) -> WholeResponse | None:
        """Return the response of a CORS preflight, or of a billed call shed in an overload."""
        services = self.services
        if self._cors is not None and (early := self._cors.preflight(request, handler)):
            return early
        if services.overload.is_full and handler.billed and request.method == "POST":
            return shed_response(services, handler)
        return None
