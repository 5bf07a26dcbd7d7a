"""The handler of every endpoint: trace id, checks, errors in its protocol's shape.

A handler is a subclass with `on_get`, `on_post`, …: some ten lines that read, call one use-case and
render. What its endpoint is, is stated in the endpoint's row (`endpoint.py`). Handlers share
further code by calling it (`model_call.py`, …), not by inheritance. The checks are in `checks.py`;
`gw/http/request.py` handles bodies and disconnects. Errors are rendered only here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any

from actors.limits.accounts import Permit
from actors.wallet.attribution import Attribution
from channels.dialects.validation import model_in
from channels.family import ErrorShape
from channels.json.weight import COUNTED_BYTES_MAX
from gw import errors
from gw.api import failures
from gw.api.attribution import of_refused
from gw.api.call_spans import end_refused, log_fields
from gw.api.checks import Check, Waiting
from gw.api.endpoint import Endpoint
from gw.api.refusals import RefusedCall
from gw.api.services import Services
from gw.error_bodies import render
from gw.http.tornado.handler import TornadoHandler
from gw.http.tornado.headers import spelled
from gw.http.tornado.request import TornadoRequest
from gw.http.websocket import is_handshake
from gw.idempotency.claim import HEADER
from gw.keys.principal import Principal
from metrics.logs import EventLog
from metrics.spans import CallSpan


class ApiHandler(TornadoHandler):
    """One request to one endpoint."""

    endpoint: Endpoint
    services: Services

    # Set by the endpoint: the model as named by the client; the span of the call; `owns_row` once
    # the call writes its row itself, so that a refusal writes none; `row_detail`, the detail of a
    # refusal's row; `attribution`, for whom a billed call is, once its headers are read.
    model_name: str | None = None
    span: CallSpan | None = None
    row_detail: Mapping[str, Any] | None = None
    owns_row: bool = False
    attribution: Attribution | None = None

    # Set by the checks: the principal, where the endpoint takes a key; the permit of the account's
    # limits, until the request is released.
    principal: Principal
    admission: Permit | None = None
    _awaits_hold = False

    def __init__(self, application: Any, request: TornadoRequest, endpoint: Endpoint) -> None:
        self.application = application
        self.request = request
        self.endpoint = endpoint
        # Whether this request costs money; polls, lists and deletions do not.
        self.is_billed = endpoint.billed and request.method == "POST"
        self.services = application.services
        self.call_id = call_id = self.services.new_id()
        self.default_headers = {"Content-Type": "application/json", "X-Gateway-Trace": call_id.hex}
        self.clear()
        if endpoint.options:
            self.initialize(**endpoint.options)

    @property
    def known_principal(self) -> Principal | None:
        """The principal, or None before the key is checked."""
        return getattr(self, "principal", None)

    @property
    def owner(self) -> str:
        """The account of the key; of signed links, `OWNER` is set once the signature is checked."""
        principal: Principal | None = getattr(self, "principal", None)
        return "" if principal is None else principal.account_id

    def base_url(self) -> str:
        """Return the gateway's URL as used by this client, for links in responses."""
        return f"{'https' if self.services.config.tls else 'http'}://{self.request.host}"

    # --- Before the endpoint ---

    def refused_method(self) -> errors.GatewayError:
        """Return the error for a method that the endpoint lacks (reference 1.9).

        A WebSocket hand-shake gets 426: clients then continue over HTTP, while they retry after any
        other status.
        """
        allowed = ", ".join(self.endpoint.methods)
        if is_handshake(self.request.headers):
            message = f"There is no WebSocket here. Use {allowed} over HTTP."
            return errors.GatewayError(
                errors.UPGRADE_REQUIRED, message, headers={"Upgrade": "HTTP/1.1"}
            )
        return errors.GatewayError(
            errors.METHOD_NOT_ALLOWED,
            f"Use {allowed} on this endpoint.",
            headers={"Allow": allowed},
        )

    def decode_argument(self, value: bytes, name: str | None = None) -> str:
        """Decode a part of the path or a value of the query; `TextCheck` validates it."""
        return value.decode("utf-8", "surrogateescape")

    def unknown_path(self) -> errors.GatewayError:
        """Return the error for an invalid id in the path."""
        return errors.GatewayError(errors.NOT_FOUND, "There is nothing of this id.")

    def check(self) -> Coroutine[Any, Any, None] | None:
        """Run the checks; return a coroutine for the rest where one has to wait."""
        checks = self.endpoint.checks if self.is_billed else self.endpoint.free_checks
        for check in checks:
            waiting = check.check(self)
            if waiting is not None:
                return self._go_on(waiting, checks[checks.index(check) + 1 :])
        if self.admission is not None and self.admission.headers:
            self._report_limits()
        return None

    async def _go_on(self, waiting: Waiting, checks: Sequence[Check]) -> None:
        """Wait for a check, and run the rest."""
        await waiting
        for check in checks:
            following = check.check(self)
            if following is not None:
                await following
        if self.request.client_gone:  # it left while a check waited
            self.release()
        self._report_limits()

    def _report_limits(self) -> None:
        if self.admission is not None:
            for name, value in self.admission.headers.items():
                self.set_header(name, value)

    def keep_header(self, name: str, value: str) -> None:
        """Set a header of the response, an error's too."""
        self.default_headers[spelled(name)] = value
        self.set_header(name, value)

    def set_status(self, status_code: int, reason: str | None = None) -> None:
        """Set the status; an error names no limit but the one that it is of (reference 1.4).

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
        return self.request.headers.get_list(HEADER) if self.endpoint.idempotent else []

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

    def shape_of(self, error: errors.GatewayError) -> ErrorShape:
        """Return the shape of an error: that of the endpoint, where its method is served."""
        return (
            failures.shape_at(self.request)
            if error.kind in failures.PATH_ERRORS
            else self.endpoint.shape
        )

    def respond_error(self, error: BaseException) -> None:
        error_response = failures.explain(error)
        self.set_status(error_response.http_status)
        for name, value in error_response.headers.items():
            self.set_header(name, value)
        body = render(self.shape_of(error_response), error_response)
        self.set_header("Content-Length", len(body))
        self.write(body)
        self.record_refusal(error_response)

    def record_refusal(self, error_response: errors.GatewayError) -> None:
        """End the trace of a refused call, and write its row unless the call writes it itself."""
        if self.is_billed:
            end_refused(self, error_response)
        family = self.endpoint.family
        if (
            self.is_billed
            and family is not None
            and not self.owns_row
            and self.known_principal is not None
        ):
            self.owns_row = True
            self.services.refusals(
                RefusedCall(
                    call_id=self.call_id,
                    principal=self.principal,
                    protocol=self.endpoint.protocol,
                    model=self.named_model(),
                    http_status=error_response.http_status,
                    error_code=error_response.kind.code,
                    error_message=error_response.message,
                    submitted_at=self.request.submitted_at,
                    detail={**(self.row_detail or {}), **log_fields(self.span)} or None,
                    attribution=of_refused(
                        self.attribution,
                        family=family,
                        headers=self.request.headers,
                        body=self.request.body,
                        services=self.services,
                        owner=self.owner,
                    ),
                )
            )

    def log_exception(
        self,
        typ: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if value is None or not failures.is_own_failure(value):
            return
        self.services.metrics.http_failure(route=self.endpoint.route)
        if isinstance(value, errors.GatewayError):  # logged where it was made of its cause
            return
        log, trace, route = EventLog("gw.web"), self.call_id.hex, self.endpoint.route
        of_trace = log_fields(self.span)
        if failures.is_outage(value):
            log.warning("request_failed", trace=trace, route=route, why=str(value), **of_trace)
        else:
            log.error("request_failed", exc_info=True, trace=trace, route=route, **of_trace)


# What the headers of an account's limits begin with, as `spelled`.
LIMIT_HEADERS = "X-Ratelimit-"
