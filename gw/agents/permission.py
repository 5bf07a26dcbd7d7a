"""The model of an agent, its permission, and its enabled switches. Pure."""

from __future__ import annotations

from collections.abc import Collection

from channels.registry import ModelSpec, Registry
from gw.keys.principal import Agent
from gw.nouns.values import chat_model


class AgentRefused(Exception):
    """An agent may not make a call.

    `outcome` is its value in metrics and logs, the text is for the client.
    """

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


def effective_model(
    own: str | None, account_default: str | None, platform_default: str
) -> str | None:
    """Return the first name that is set (reference 9.2)."""
    return own or account_default or platform_default or None


def model_of(agent: Agent | None, registry: Registry, platform_default: str) -> ModelSpec:
    """Return the model of an agent's call. Raises AgentRefused."""
    if agent is None or not agent.enabled:
        raise AgentRefused("disabled", "The agent of this API key is not available.")
    name = effective_model(agent.model, agent.default_model, platform_default)
    model = None if name is None else chat_model(registry, name)
    if model is None:
        # A fixed model is never replaced by another.
        raise AgentRefused("no_model", "The agent of this API key has no model that can be called.")
    if not _is_allowed(model, agent.allowed_models):
        raise AgentRefused(
            "not_allowed", f"The organisation does not allow its agents the model `{model.id}`."
        )
    return model


def _is_allowed(model: ModelSpec, allowed: Collection[str] | None) -> bool:
    """Whether a model is allowed; aliases count as their model, also former ids."""
    return allowed is None or any(name in allowed for name in (model.id, *model.aliases))
