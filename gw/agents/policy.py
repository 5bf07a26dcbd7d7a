"""Which model an agent calls, whether it may, and which of its switches are on. Pure."""

from __future__ import annotations

from collections.abc import Collection

from channels.registry import ModelSpec, Registry
from gw.keys.principal import Agent


class AgentRefused(Exception):
    """An agent that may not make a call; `outcome` is its word in metrics and logs, the text is
    for the client."""

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


def chat_model(registry: Registry, name: str) -> ModelSpec | None:
    """The model of this id or alias, if it is one for chat that can be called."""
    model = registry.resolve(name)
    if model is None or not model.callable or model.endpoint_type is not None:
        return None
    return model


def effective_model(
    own: str | None, account_default: str | None, platform_default: str
) -> str | None:
    """The first that is set (spec: Agent API 2)."""
    return own or account_default or platform_default or None


def model_of(agent: Agent | None, registry: Registry, platform_default: str) -> ModelSpec:
    """The model that a call of an agent goes to. Raises AgentRefused."""
    if agent is None or not agent.enabled:
        raise AgentRefused("disabled", "The agent of this API key is not available.")
    name = effective_model(agent.model, agent.default_model, platform_default)
    model = None if name is None else chat_model(registry, name)
    if model is None:
        # A locked model is never swapped for another.
        raise AgentRefused("no_model", "The agent of this API key has no model that can be called.")
    if not _is_allowed(model, agent.allowed_models):
        raise AgentRefused(
            "not_allowed", f"The organisation does not allow its agents the model `{model.id}`."
        )
    return model


def _is_allowed(model: ModelSpec, allowed: Collection[str] | None) -> bool:
    """Aliases count as their model, also where one was its id when it was allowed."""
    return allowed is None or any(name in allowed for name in (model.id, *model.aliases))
