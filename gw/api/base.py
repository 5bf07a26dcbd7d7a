"""What every endpoint shares above HTTP: trace id, checks, errors in its protocol's shape.

An endpoint is a subclass with the class attributes below and `on_get`, `on_post`, …: ten lines that
read, call one use-case and render. The checks stand in `checks.py` in their order; the mechanics of
bodies and disconnects are `exchange.py`. Errors are rendered here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar

from channels.families import ErrorShape
from gw.api import checks
from gw.api.auth import AuthMode, find_key
from gw.api.services import Admission, Refusal
from gw.errors.render import render
from gw.errors.table import METHOD_NOT_ALLOWED, NOT_FOUND, GatewayError
from gw.errors.unexpected import explain, is_expected, is_outage
from gw.http.exchange import Exchange
from gw.idempotency.submission import HEADER
from gw.keys.principal import Principal
from metrics.logs import EventLog


class BaseHandler(Exchange):
    """One request to one endpoint."""

    shape: ClassVar[ErrorShape] = ErrorShape.CHAT
    auth: ClassVar[AuthMode] = "standard"
    agent_keys_allowed: ClassVar[bool] = False
    limited: ClassVar[bool] = False  # the account's limits count it
    billed: ClassVar[bool] = False  # 402 when nothing is available; its refusals become rows
    protocol: ClassVar[str] = ""  # of those rows
    idempotent: ClassVar[bool] = False  # takes an `Idempotency-Key`
    touches_key: ClassVar[bool] = True  # it is a use of the key (`last_used_at`)

    # Set by the endpoint: the model as the client named it; and, once a use-case has taken the
    # call over and writes its row, that a refusal need not. `row_detail` is what the row of a
    # refusal keeps of the request, as far as it was read.
    model_name: str | None = None
    row_detail: Mapping[str, Any] | None = None
    owns_row: bool = False

    _awaits_hold = False
    _principal: Principal | None = None
    _admission: Admission | None = None

    @property
    def principal(self) -> Principal:
        """Who asks; only where `auth` is not "none"."""
        assert self._principal is not None
        return self._principal

    def check_at_once(self) -> bool:
        """Pass everything that memory says yes to; `check` asks for the rest, and refuses."""
        if self.auth == "none":
            return True
        services, request = self.services, self.request
        key_text = find_key(request.headers, request.query_arguments, self.auth)
        if key_text is None:
            return False
        principal = self._principal = services.keys.recall(key_text, touch=self.touches_key)
        if principal is None or (principal.kind == "agent" and not self.agent_keys_allowed):
            return False
        if self.billed and not services.wallets.is_funded(principal.account_id):
            return False
        if self.limited:
            admission = checks.admit_at_once(services.limits, principal)
            if admission is None:
                return False
            self._admit(admission)
        return True

    async def check(self) -> None:
        """401, 403, 429, 402, in this order (contract §7)."""
        services = self.services
        principal = self._principal
        if principal is None:
            principal = self._principal = await checks.authenticate(
                services.keys,
                headers=self.request.headers,
                query=self.request.query_arguments,
                mode=self.auth,
                touch=self.touches_key,
            )
        checks.require_agent_allowed(principal, agent_keys_allowed=self.agent_keys_allowed)
        if self.limited:
            self._admit(await checks.admit(services.limits, principal))
        if self.billed:
            await self._require_funds(principal)

    def _admit(self, admission: Admission) -> None:
        self._admission = admission
        if self.client_gone:  # meanwhile; nobody says so a second time
            self.release()
        for name, value in admission.headers.items():
            self.set_header(name, value)  # an error clears them (spec: Errors, rule 2)

    @property
    def idempotency_keys(self) -> list[str]:
        """The values of the request's `Idempotency-Key`; there should be one at most."""
        return self.request.headers.get_list(HEADER) if self.idempotent else []

    async def _require_funds(self, principal: Principal) -> None:
        try:
            await checks.require_funds(self.services.wallets, principal)
        except GatewayError:
            # To ask again for what has been paid for needs no money; the rest the hold will tell.
            if not await self.services.idempotency.is_known(
                self.idempotency_keys, account_id=principal.account_id
            ):
                raise

    def named_model(self) -> str | None:
        """The model of a refused call, as the client named it; None as far as nobody knows."""
        return self.model_name

    def body_received(self) -> None:
        if self.billed and self._leftover is None:
            self._awaits_hold = True
            self.services.overload.enter()
        super().body_received()

    def held(self) -> None:
        """The call has its hold, or will not get one. A second time it does nothing."""
        if self._awaits_hold:
            self._awaits_hold = False
            self.services.overload.leave()

    def release(self) -> None:
        self.held()
        if self._admission is not None:
            self._admission.leave()

    def set_default_headers(self) -> None:
        headers = self._headers
        headers["Content-Type"] = "application/json"
        headers["X-Gateway-Trace"] = self.call_id.hex

    def tell(self, error: BaseException) -> None:
        told = explain(error)
        self.set_status(told.http_status)
        for name, value in told.headers.items():
            self.set_header(name, value)
        # A wrong method is answered in the first shape everywhere (contract §5).
        is_first = told.kind is METHOD_NOT_ALLOWED
        body = render(ErrorShape.CHAT if is_first else self.shape, told)
        self.set_header("Content-Length", len(body))
        self.write(body)
        if self.billed and not self.owns_row and self._principal is not None:
            self.owns_row = True
            self.services.refusals(
                Refusal(
                    call_id=self.call_id,
                    principal=self._principal,
                    protocol=self.protocol,
                    model=self.named_model(),
                    http_status=told.http_status,
                    error_code=told.kind.code,
                    error_message=told.message,
                    submitted_at=self.submitted_at,
                    detail=self.row_detail,
                )
            )

    def log_exception(
        self,
        typ: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if value is None or is_expected(value):
            return
        log = EventLog("gw.web")
        if is_outage(value):
            log.warning("request_failed", trace=self.call_id.hex, route=self.route, why=str(value))
        else:
            log.error("request_failed", exc_info=True, trace=self.call_id.hex, route=self.route)


class NotFoundHandler(BaseHandler):
    """Every path without an endpoint (contract §5)."""

    auth = "none"
    route = "not_found"

    def refused_method(self) -> GatewayError:
        return GatewayError(NOT_FOUND, "There is no such endpoint.")
