"""Routes of agents, knowledge bases and tasks."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from actors.store.session import Session
from gw.admin import agents, bases, tasks
from gw.admin.agents import AgentQuery, AgentView
from gw.admin.bases import BaseView, Removed
from gw.admin.pagination import Page, PageQuery
from gw.admin.tasks import Cancelled, TaskQuery, TaskView
from gw.admin.values import PROMPT_BYTES_MAX, identifier, label, prompt, read_chat_model, user_name
from gw.agents.table import AgentChanges, NewAgent
from gw.agents.table import show as show_record
from gw.api.admin.accounts import Id, Model, Name
from gw.api.admin.channels import page_in_order
from gw.api.admin.table import Call, Route
from gw.knowledge.bases import PERSONAL
from gw.knowledge.importing import ImportTarget

Prompt = Annotated[str, Meta(min_length=1, max_length=PROMPT_BYTES_MAX)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
BaseId = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Bases = Annotated[list[BaseId], Meta(max_length=100)]
User = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._@-]{1,64}$")]


# Agents


class NewAgentBody(Struct, forbid_unknown_fields=True):
    """A new agent. `user`: the reader of its bases; `model`: null is the account's."""

    account_id: Id
    name: Name
    system_prompt: Prompt
    user: User = "owner"
    model: Model | None = None
    temperature: Temperature | None = None
    web_search: bool = False
    image_generation: bool = False
    kbs: Bases = []


class AgentSettings(Struct, forbid_unknown_fields=True):
    """New settings of an agent; absent members stay, `kbs` is the whole list."""

    name: Name | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    system_prompt: Prompt | UnsetType = UNSET
    user: User | UnsetType = UNSET
    model: Model | UnsetType | None = UNSET
    temperature: Temperature | UnsetType | None = UNSET
    web_search: bool | UnsetType = UNSET
    image_generation: bool | UnsetType = UNSET
    kbs: Bases | UnsetType = UNSET


def _platform_default(call: Call) -> str:
    return call.services.current.config.agents.default_model


async def list_agents(call: Call) -> Page[AgentView]:
    return await agents.page(call.services.database, call.query, _platform_default(call))


async def show_agent(call: Call) -> AgentView:
    agent = await show_record(call.services.database, call.path["agent_id"])
    return agents.view(agent, _platform_default(call))


async def create_agent(call: Call, session: Session) -> AgentView:
    body: NewAgentBody = call.body
    wish = NewAgent(
        account_id=body.account_id,
        name=label(body.name),
        user_name=user_name(body.user),
        system_prompt=prompt(body.system_prompt),
        model=read_chat_model(body.model, call.registry),
        temperature=body.temperature,
        web_search=body.web_search,
        image_generation=body.image_generation,
        kbs=list(dict.fromkeys(body.kbs)),
    )
    return agents.view(await agents.create(session, call.actor, wish), _platform_default(call))


async def set_agent(call: Call, session: Session) -> AgentView:
    body: AgentSettings = call.body
    changes = AgentChanges()
    if body.name is not UNSET:
        changes["name"] = label(body.name)
    if body.enabled is not UNSET:
        changes["enabled"] = body.enabled
    if body.system_prompt is not UNSET:
        changes["system_prompt"] = prompt(body.system_prompt)
    if body.user is not UNSET:
        changes["user_name"] = user_name(body.user)
    if body.model is not UNSET:
        changes["model"] = read_chat_model(body.model, call.registry)
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


# Knowledge bases


class OneBase(Struct, frozen=True, forbid_unknown_fields=True):
    """Selects a base by its id: a user's personal one, or the named one."""

    user: User | None = None


class WhatOfBase(OneBase, frozen=True):
    """Selects a part of a base: all of it, or one page by its id or an alias."""

    page: Annotated[str, Meta(min_length=1, max_length=500)] | None = None


class Grantee(Struct, forbid_unknown_fields=True):
    """The grantee: a user of the base's account, or all users of another account."""

    user: User | None = None
    account_id: Id | None = None


def _target(call: Call) -> ImportTarget:
    user = getattr(call.query, "user", None)
    kb_id = call.path["kb_id"]
    if user is None and kb_id == PERSONAL:
        user = "owner"
    account_id = identifier(call.path["account_id"])
    return ImportTarget(account_id=account_id, kb_id=kb_id, user=user)


async def list_bases(call: Call) -> Page[BaseView]:
    found = await bases.list_all(call.services.database, call.path["account_id"])
    return page_in_order(found, call.query, lambda one: f"{one.kb_id}/{one.user or ''}")


async def show_base(call: Call) -> BaseView:
    return bases.view(await bases.find(call.services.database, _target(call)))


async def remove_base(call: Call) -> Removed:
    services = call.services
    return await bases.remove(
        services.database, call.actor, _target(call), services.sources, page=call.query.page
    )


async def grant_base(call: Call, session: Session) -> BaseView:
    whom: Grantee = call.body
    return await bases.grant(
        session, call.actor, _target(call), user=whom.user, account=whom.account_id
    )


async def revoke_base(call: Call, session: Session) -> BaseView:
    whom: Grantee = call.body
    return await bases.revoke(
        session, call.actor, _target(call), user=whom.user, account=whom.account_id
    )


# Tasks


async def list_tasks(call: Call) -> Page[TaskView]:
    return await tasks.page(call.services.database, call.query)


async def show_task(call: Call) -> TaskView:
    return await tasks.show(call.services.database, call.path["task_id"])


async def cancel_task(call: Call) -> Cancelled:
    services = call.services
    return await tasks.cancel(
        services.database, call.actor, call.path["task_id"], services.make_endings
    )


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
    Route(
        method="GET",
        path="accounts/{account_id}/kbs",
        name="list_kbs",
        summary="Knowledge bases of an account. `gw kb import` fills them.",
        query=PageQuery,
        response=Page[BaseView],
        read=list_bases,
    ),
    Route(
        method="GET",
        path="accounts/{account_id}/kbs/{kb_id}",
        name="show_kb",
        summary="One knowledge base.",
        query=OneBase,
        response=BaseView,
        read=show_base,
    ),
    Route(
        method="DELETE",
        path="accounts/{account_id}/kbs/{kb_id}",
        name="remove_kb",
        summary="Remove a knowledge base, or one page of it.",
        query=WhatOfBase,
        response=Removed,
        read=remove_base,
    ),
    Route(
        method="POST",
        path="accounts/{account_id}/kbs/{kb_id}/grant",
        name="grant_kb",
        summary="Let a user, or another account, read a named base.",
        body=Grantee,
        response=BaseView,
        change=grant_base,
    ),
    Route(
        method="POST",
        path="accounts/{account_id}/kbs/{kb_id}/revoke",
        name="revoke_kb",
        summary="Take such a grant back.",
        body=Grantee,
        response=BaseView,
        change=revoke_base,
    ),
    Route(
        method="GET",
        path="tasks",
        name="list_tasks",
        summary="Asynchronous tasks of all accounts, the newest first.",
        query=TaskQuery,
        response=Page[TaskView],
        read=list_tasks,
    ),
    Route(
        method="GET",
        path="tasks/{task_id}",
        name="show_task",
        summary="One task, its channel and what the upstream calls it.",
        response=TaskView,
        read=show_task,
    ),
    Route(
        method="POST",
        path="tasks/{task_id}/cancel",
        name="cancel_task",
        summary="Cancel an unfinished task: it is refunded, and its upstream asked to stop.",
        response=Cancelled,
        read=cancel_task,
    ),
)
