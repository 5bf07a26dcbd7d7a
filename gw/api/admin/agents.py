"""Routes of agents."""

from __future__ import annotations

from msgspec import Struct

from gw.admin import agents
from gw.agents import table
from gw.agents.agent import AGENT_NOUN, AgentRecord
from gw.api.admin.noun_routes import NounRoutes
from gw.api.admin.table import AdminCall, Route


def _view(call: AdminCall, agent: AgentRecord) -> Struct:
    return AGENT_NOUN.view(agent.on(call.services.current.config.agents.default_model))


_OF = NounRoutes(AGENT_NOUN, "agents", view=_view)
ROUTES: tuple[Route, ...] = (
    _OF.list("Agents of an account, or of all, the newest first.", agents.page),
    _OF.create("Make an agent.", agents.create),
    _OF.show("One agent.", table.show),
    _OF.set("Set what an agent is, and whether its keys work.", agents.change),
)
