"""Routes of agents."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from actors.store.session import Session
from gw.admin import agents, values
from gw.admin.agents import AgentQuery, AgentView
from gw.admin.pagination import Page
from gw.agents.table import AgentChanges, NewAgent
from gw.agents.table import show as show_record
from gw.api.admin import member_types
from gw.api.admin.table import AdminCall, Route

Prompt = Annotated[str, Meta(min_length=1, max_length=values.PROMPT_BYTES_MAX)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Bases = Annotated[list[member_types.BaseId], Meta(max_length=100)]


class NewAgentBody(Struct, forbid_unknown_fields=True):
    """A new agent. `user`: the reader of its bases; `model`: null is the account's."""

    account_id: member_types.Id
    name: member_types.Name
    system_prompt: Prompt
    user: member_types.User = "owner"
    model: member_types.Model | None = None
    temperature: Temperature | None = None
    web_search: bool = False
    image_generation: bool = False
    kbs: Bases = []


class AgentSettings(Struct, forbid_unknown_fields=True):
    """New settings of an agent; absent members stay, `kbs` is the whole list."""

    name: member_types.Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    system_prompt: Prompt | UnsetType = UNSET
    user: member_types.User | UnsetType = UNSET
    model: member_types.Model | UnsetType | None = UNSET
    temperature: Temperature | UnsetType | None = UNSET
    web_search: bool | UnsetType = UNSET
    image_generation: bool | UnsetType = UNSET
    kbs: Bases | UnsetType = UNSET


def _platform_default(call: AdminCall) -> str:
    return call.services.current.config.agents.default_model


async def list_agents(call: AdminCall) -> Page[AgentView]:
    return await agents.page(call.services.database, call.query, _platform_default(call))


async def show_agent(call: AdminCall) -> AgentView:
    agent = await show_record(call.services.database, call.path["agent_id"])
    return agents.view(agent, _platform_default(call))


async def create_agent(call: AdminCall, session: Session) -> AgentView:
    body: NewAgentBody = call.body
    wish = NewAgent(
        account_id=body.account_id,
        name=values.label(body.name),
        user_name=values.user_name(body.user),
        system_prompt=values.prompt(body.system_prompt),
        model=values.read_chat_model(body.model, call.registry),
        temperature=body.temperature,
        web_search=body.web_search,
        image_generation=body.image_generation,
        kbs=list(dict.fromkeys(body.kbs)),
    )
    return agents.view(await agents.create(session, call.actor, wish), _platform_default(call))


async def set_agent(call: AdminCall, session: Session) -> AgentView:
    body: AgentSettings = call.body
    changes = AgentChanges()
    if body.name is not UNSET:
        changes["name"] = values.label(body.name)
    if body.enabled is not UNSET:
        changes["enabled"] = body.enabled
    if body.system_prompt is not UNSET:
        changes["system_prompt"] = values.prompt(body.system_prompt)
    if body.user is not UNSET:
        changes["user_name"] = values.user_name(body.user)
    if body.model is not UNSET:
        changes["model"] = values.read_chat_model(body.model, call.registry)
    if body.temperature is not UNSET:
        changes["temperature"] = body.temperature
    if body.web_search is not UNSET:
        changes["web_search"] = body.web_search
    if body.image_generation is not UNSET:
        changes["image_generation"] = body.image_generation
    if body.kbs is not UNSET:
        changes["kbs"] = list(dict.fromkeys(body.kbs))
    changed = await agents.change(session, call.actor, call.path["agent_id"], changes)
    return agents.view(changed, _platform_default(call))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="agents",
        name="list_agents",
        summary="Agents of an account, or of all, the newest first.",
        query=AgentQuery,
        response=Page[AgentView],
        read=list_agents,
    ),
    Route(
        method="POST",
        path="agents",
        name="create_agent",
        summary="Make an agent.",
        body=NewAgentBody,
        response=AgentView,
        status=201,
        change=create_agent,
    ),
    Route(
        method="GET",
        path="agents/{agent_id}",
        name="show_agent",
        summary="One agent.",
        response=AgentView,
        read=show_agent,
    ),
    Route(
        method="PATCH",
        path="agents/{agent_id}",
        name="set_agent",
        summary="Set what an agent is, and whether its keys work.",
        body=AgentSettings,
        response=AgentView,
        change=set_agent,
        in_force=True,
    ),
)
