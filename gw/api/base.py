"""What every endpoint shares above HTTP: trace id, checks, errors in its protocol's shape.

An endpoint is a subclass with the class attributes below and `on_get`, `on_post`, …: ten lines that
read, call one use-case and render. It is the one class between an endpoint and Tornado's handler;
what endpoints share beyond it are parts that an endpoint calls (`model_call.py`, `submit.py`). The
checks stand in `checks.py` in their order; bodies and disconnects are the request's
(`gw/http/request.py`). Errors are rendered here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar

from channels.dialects.validate import model_in
from channels.families import ErrorShape
from channels.offload.weight import COUNTED_BYTES_MAX
from gw.api.auth import AuthMode
from gw.api.call_spans import end_refused
from gw.api.checks import CHECKS, Check
from gw.api.services import LimitLease, RefusedCall, Services
from gw.errors.render import render
from gw.errors.table import METHOD_NOT_ALLOWED, NOT_FOUND, GatewayError
from gw.errors.unexpected import explain, is_expected, is_outage
from gw.http.tornado_adapter import TornadoHandler, TornadoRequest
from gw.idempotency.submission import HEADER
from gw.keys.principal import Principal
from metrics.logs import EventLog
from metrics.spans import CallSpan


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
        """Return the error for any other method (contract §5)."""
        allowed = ", ".join(self.allowed_methods())
        return GatewayError(
            METHOD_NOT_ALLOWED, f"Use {allowed} on this endpoint.", headers={"Allow": allowed}
        )

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

    def tell(self, error: BaseException) -> None:
        error_response = explain(error)
        self.set_status(error_response.http_status)
        for name, value in error_response.headers.items():
            self.set_header(name, value)
        # A wrong method is answered in the first shape everywhere (contract §5).
        is_first = error_response.kind is METHOD_NOT_ALLOWED
        body = render(ErrorShape.CHAT if is_first else self.shape, error_response)
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


class NotFoundHandler(ApiHandler):
    """Every path without an endpoint (contract §5)."""

    auth = "none"
    route = "not_found"

    def refused_method(self) -> GatewayError:
        return GatewayError(NOT_FOUND, "There is no such endpoint.")
