"""Which model a call means, and whether its key may use it (contract §7: order of checks)."""

from __future__ import annotations

from channels.registry import ModelSpec, Registry
from gw.errors.table import MODEL_NOT_ALLOWED, MODEL_NOT_FOUND, NO_CHANNEL_AVAILABLE, GatewayError
from gw.keys.cache import Principal

# A name this long is no model's; it is shortened where it is shown.
SHOWN_CHARACTERS_MAX = 100


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
