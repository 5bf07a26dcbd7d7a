"""The call common to all endpoints with a model, whatever the protocol.

A model call reads the body, finds the model and begins the row. The model of a call, and its
key's permission, are decided here (reference 1.2); a use-case of `gw/calls` runs
the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from actors.wallet.attribution import NOBODY, Attribution
from actors.wallet.messages import CallFacts
from channels.data_promise import strictest
from channels.dialects.dialect import Dialect
from channels.dialects.multipart import FormRequest
from channels.errors import InvalidRequest
from channels.json.weight import COUNTED_BYTES_MAX, READ_VALUES_MAX, weight_of
from channels.offload.jobs import read_form_request, read_request
from channels.offload.pool import Helpers
from channels.offload.process import Job
from channels.registry import ModelSpec, Registry
from gw import errors
from gw.api.attribution import HEADERS_READ, attribution_in, with_body
from gw.api.handler import ApiHandler
from gw.budgets import ceiling
from gw.budgets.node import Spender
from gw.calls import data_demand
from gw.calls.offloading import offloaded
from gw.http.tornado.headers import RequestHeaders, spelled
from gw.keys.principal import Principal
from metrics.log_redaction import redact

# No model has a name this long; it is truncated where it is shown.
SHOWN_CHARACTERS_MAX = 100

_HEADERS_READ = HEADERS_READ.union(map(spelled, (data_demand.HEADER, ceiling.HEADER)))

F = TypeVar("F", bound=FormRequest)


class ModelCall:
    """One call of a model, over the handler of its request.

    `weight`: the number of values in the body (`channels/json/weight.py`). `model` and `detail` are
    set once the model is found; `detail` is the row's detail of the request. `agreed`: of a chain,
    the agreements that the prices of its models are of. `demand`: what key, account and header
    demand for its data.
    """

    __slots__ = ("_ceiling", "_said", "agreed", "demand", "detail", "handler", "model", "weight")

    detail: dict[str, Any]
    model: ModelSpec

    def __init__(self, handler: ApiHandler, *, reads_headers: bool = True) -> None:
        """Raises GatewayError for malformed headers of the call, unless they are read later."""
        self.handler = handler
        self.weight = weight_of(handler.request.body)
        self._said = NOBODY
        self._ceiling: int | None = None
        self.agreed: Mapping[str, str] = {}
        self.demand = handler.principal.demand
        if reads_headers:
            self.read_headers()

    def read_headers(self) -> None:
        """Read the headers of the call. Raises GatewayError for malformed ones."""
        headers = self.handler.request.headers
        if headers.has_any(_HEADERS_READ):  # most calls have none of them
            self._read_headers(headers)

    def _read_headers(self, headers: RequestHeaders) -> None:
        if data_demand.HEADER in headers:
            own = data_demand.read_header(headers.get_list(data_demand.HEADER))
            self.demand = strictest(self.demand, own)
        if self.handler.is_billed:
            self._said = attribution_in(headers)
            named = headers.get_list(ceiling.HEADER)
            self._ceiling = ceiling.read_ceiling(named, self._said.run)

    @property
    def is_heavy(self) -> bool:
        """Whether the body is parsed in a helper process, and only its bytes are here."""
        return self.weight > READ_VALUES_MAX

    def helpers(self) -> Helpers:
        """Return the helper processes, scheduled per account."""
        return self.handler.services.offload.of(self.handler.principal.account_id)

    def read_here(self, dialect: Dialect, **path: Any) -> Any:
        """Return the same as `read_request`, of a body that is not heavy."""
        try:
            request = dialect.read_request(self.handler.request.body, **path)
        except InvalidRequest as invalid:
            raise errors.invalid_request(invalid) from None
        self.attribute(request.object.raw)
        self.find_model(request.model, request.parameters)
        return request

    async def read_request(self, dialect: Dialect, **path: Any) -> Any:
        """Return the request, parsed by its dialect from body and `path`; find its model.

        Raises GatewayError.
        """
        if not self.is_heavy:
            return self.read_here(dialect, **path)
        try:
            request, _ = await self.offload(read_request, self.handler.endpoint.protocol, path)
        except InvalidRequest as invalid:
            raise errors.invalid_request(invalid) from None
        self.attribute(request.object.raw)
        self.find_model(request.model, request.parameters)
        return request

    async def read_form(self, reading: Callable[[bytes, str | None], F]) -> F:
        """Return the form parsed by `reading`; find its model, which must be the endpoint's.

        Its files have no values that weigh, but a long one takes long to be searched. Raises
        GatewayError.
        """
        request: F
        body, stated = self.handler.request.body, self.handler.request.headers.get("Content-Type")
        try:
            if len(body) > COUNTED_BYTES_MAX:
                request, _ = await self.offload(read_form_request, reading, stated)
            else:
                request = reading(body, stated)
        except InvalidRequest as invalid:
            raise errors.invalid_request(invalid) from None
        self.attribute({})  # a form has no member for the end user
        self.find_model(request.model, request.parameters)
        self.require_served()
        return request

    def require_served(self) -> None:
        """Raise GatewayError for a model of another endpoint.

        The media endpoints check it before the hold, because such a model has no price there; the
        chat endpoints when they look for channels (reference 4.2).
        """
        if not self.model.is_served_on(self.handler.endpoint.protocol):
            serving = self.handler.services.chat_calls.serving(self.model)
            raise errors.unserved(
                f"the model `{self.model.id}` on this endpoint", serving, param="model"
            )

    async def offload(self, job: Job, *arguments: Any) -> tuple[Any, bytes | None]:
        """Run a job on the body. Raises the errors of the job, or GatewayError."""
        return await offloaded(self.helpers(), job, self.handler.request.body, *arguments)

    def attribute(self, members: Mapping[str, Raw]) -> Attribution:
        """Complete for whom the call is by the members of its body that name somebody."""
        handler = self.handler
        attribution, family = NOBODY, handler.endpoint.family
        if handler.is_billed and family is not None:
            owner = handler.principal.account_id
            attribution = with_body(self._said, family, members, handler.services, owner)
        handler.attribution = attribution
        return attribution

    def belongs_to(self, session: str) -> None:
        """Note the conversation that the client has named, by its label."""
        handler = self.handler
        if handler.is_billed:
            handler.attribution = replace(handler.attribution or NOBODY, session=session)

    def find_model(self, named: str, parameters: Mapping[str, str]) -> None:
        """Find the named model; `parameters` are those shown in the call log.

        Raises GatewayError.
        """
        handler = self.handler
        handler.model_name = named
        model, principal = handler.services.current.registry.resolve(named), handler.principal
        # An unknown name may be any text, even a misplaced key.
        shown = redact(named) if model is None else named
        self.detail = handler.row_detail = {"request": {"model": shown, **parameters}}
        if self.demand is not None:
            self.detail["demanded"] = str(self.demand)
        self.model = permitted_model(model, named, principal)
        if principal.prices is not None:
            now = handler.services.clock.now()
            if self.model.chain:
                self.model, self.agreed = principal.prices.chain_at(self.model, now)
                return
            self.model, agreed = principal.prices.model_at(self.model, now)
            if agreed is not None:
                self.detail["account_price"] = agreed

    def facts(self) -> CallFacts:
        """Return the facts of the call before its admission."""
        handler = self.handler
        principal, attribution = handler.principal, handler.attribution
        assert attribution is not None  # `attribute` is part of the reading of every body
        return CallFacts(
            call_id=handler.call_id,
            account_id=principal.account_id,
            key_id=principal.key_id,
            protocol=handler.endpoint.protocol,
            model=self.model.id,
            submitted_at=handler.request.submitted_at,
            attribution=attribution or None,
        )

    def spender(self) -> Spender:
        """Return whose budgets the call counts for."""
        principal = self.handler.principal
        return Spender(
            budgets_version=principal.budgets_version,
            user=principal.user,
            agent_id=principal.agent_id,
            ceiling_nano_usd=self._ceiling,
        )


def permitted_model(model: ModelSpec | None, named: str, principal: Principal) -> ModelSpec:
    """Return the model found by a name. Raises GatewayError: unknown, placeholder, forbidden."""
    if model is None or not model.callable:
        shown = redact(named)[:SHOWN_CHARACTERS_MAX]
        fault = f"The model `{shown}` does not exist." if shown else "The endpoint has no default."
        raise errors.GatewayError(
            errors.MODEL_NOT_FOUND,
            f"{fault} GET /v1/models lists the models there are.",
            param="model",
        )
    allowed = principal.allowed_models
    if allowed is not None and model.id not in allowed:
        raise errors.GatewayError(
            errors.MODEL_NOT_ALLOWED,
            f"This API key may not use the model `{model.id}`.",
            param="model",
        )
    return model


def first_of(registry: Registry, endpoint_type: str) -> str:
    """Return the first callable model of a type, the default of requests; empty without one."""
    models = registry.models.values()
    return next((m.id for m in models if m.endpoint_type == endpoint_type and m.callable), "")
