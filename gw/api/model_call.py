"""The call of a model that a request asks for: its body is read, its model found, its row begun.

A part of the endpoints that call a model, whatever the protocol. Which model a call means, and
whether its key may use it, is told here, too (contract §7: order of checks); running the call is a
use-case of `gw/calls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.wallet.messages import CallFacts
from channels.dialects.dialect import Dialect
from channels.errors import InvalidRequest
from channels.json import READ_VALUES_MAX, weight_of
from channels.offload.jobs import read_request
from channels.offload.pool import Helpers
from channels.offload.process import Job
from channels.registry import ModelSpec, Registry
from gw.api.base import ApiHandler
from gw.calls.request import offloaded
from gw.errors import (
    MODEL_NOT_ALLOWED,
    MODEL_NOT_FOUND,
    NO_CHANNEL_AVAILABLE,
    GatewayError,
    invalid_request,
)
from gw.keys.principal import Principal
from metrics.logs import redact

# A name this long is no model's; it is shortened where it is shown.
SHOWN_CHARACTERS_MAX = 100


class ModelCall:
    """One call of a model, over the handler of its request.

    `weight`: values that the body may hold (`channels/json.py`). `model` and `detail` are
    there once the model is found; `detail` is what the call's row keeps of the request.
    """

    __slots__ = ("detail", "handler", "model", "weight")

    detail: dict[str, Any]
    model: ModelSpec

    def __init__(self, handler: ApiHandler) -> None:
        self.handler = handler
        self.weight = weight_of(handler.request.body)

    def __repr__(self) -> str:
        return f"<ModelCall {self.handler.call_id} of {self.handler.model_name}>"

    @property
    def is_heavy(self) -> bool:
        """Whether the body is read in a helper process: nothing of it is here but its bytes."""
        return self.weight > READ_VALUES_MAX

    @property
    def helpers(self) -> Helpers:
        """The helper processes, in the turns of the account."""
        return self.handler.services.offload.of(self.handler.principal.account_id)

    async def read(self, dialect: Dialect, **path: Any) -> Any:
        """The request, as its dialect reads it of body and `path`; its model is found.

        Raises GatewayError.
        """
        handler = self.handler
        try:
            if self.is_heavy:
                request, _ = await self.offload(read_request, handler.protocol, path)
            else:
                request = dialect.read_request(handler.request.body, **path)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        self.find_model(request.model, request.parameters)
        return request

    async def offload(self, job: Job, *arguments: Any) -> tuple[Any, bytes | None]:
        """Have a job done on the body. Raises what the job raises, or GatewayError."""
        return await offloaded(self.helpers, job, self.handler.request.body, *arguments)

    def find_model(self, named: str, parameters: Mapping[str, str]) -> None:
        """Find the model that the request names; `parameters` is what the call log shows of it.

        Raises GatewayError.
        """
        handler = self.handler
        handler.model_name = named
        registry = handler.services.current.registry
        is_known = registry.resolve(named) is not None
        # What is no model may be anything, a key in the wrong place too.
        shown = named if is_known else redact(named)
        self.detail = handler.row_detail = {"request": {"model": shown, **parameters}}
        self.model = resolve_model(registry, named, handler.principal)

    def facts(self) -> CallFacts:
        """What is known of the call before it is admitted."""
        handler = self.handler
        principal = handler.principal
        return CallFacts(
            call_id=handler.call_id,
            account_id=principal.account_id,
            key_id=principal.key_id,
            protocol=handler.protocol,
            model=self.model.id,
            submitted_at=handler.request.submitted_at,
        )


def resolve_model(registry: Registry, model_id: str, principal: Principal) -> ModelSpec:
    """The model of this id or alias. Raises GatewayError: not found, a placeholder, not allowed."""
    model = registry.resolve(model_id)
    if model is None or not model.callable:
        raise GatewayError(
            MODEL_NOT_FOUND,
            f"The model `{model_id[:SHOWN_CHARACTERS_MAX]}` does not exist. "
            "GET /v1/models lists the models there are.",
            param="model",
        )
    allowed = principal.allowed_models
    if allowed is not None and model.id not in allowed:
        raise GatewayError(
            MODEL_NOT_ALLOWED,
            f"This API key may not use the model `{model.id}`.",
            param="model",
        )
    return model


def first_of(registry: Registry, endpoint_type: str) -> str:
    """The first model of a type that can be called, for requests that name none; empty: none is."""
    models = registry.models.values()
    return next((m.id for m in models if m.endpoint_type == endpoint_type and m.callable), "")


def require_served(model: ModelSpec, protocol: str) -> None:
    """Raise GatewayError for a model that is for another endpoint.

    To the media endpoints this comes before the hold: such a model has no price there. The chat
    endpoints find out when they look for channels (spec: General facts 4).
    """
    if not model.is_served_on(protocol):
        raise GatewayError(
            NO_CHANNEL_AVAILABLE,
            f"No channel serves the model `{model.id}` on this endpoint.",
            param="model",
        )
