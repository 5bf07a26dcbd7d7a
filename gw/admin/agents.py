"""An operator's functions of agents: create, change, disable; each change is audited.

The table is `gw/agents/table.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from actors.store.session import Session, Statements
from gw import accounts
from gw.admin import audit, pagination
from gw.admin.audit import SQL, Actor
from gw.admin.refusals import Invalid
from gw.admin.values import Instant
from gw.agents import table
from gw.agents.permission import effective_model
from gw.agents.table import AgentChanges, AgentRecord, NewAgent
from gw.cursors import Position
from gw.knowledge.bases import readable_base


class AgentView(Struct, frozen=True):
    """An agent as shown; `effective_model` includes the default of its account."""

    id: str
    account_id: str
    name: str
    user: str
    system_prompt: str
    model: str | None
    effective_model: str | None
    temperature: float | None
    web_search: bool
    image_generation: bool
    kbs: list[str]
    enabled: bool
    created_at: Instant


class AgentQuery(pagination.PageQuery, frozen=True):
    """The query of a list of agents."""

    account_id: str | None = None


def view(agent: AgentRecord, platform_default: str) -> AgentView:
    """Return an agent as shown."""
    return AgentView(
        id=agent.id,
        account_id=agent.account_id,
        name=agent.name,
        user=agent.user,
        system_prompt=agent.system_prompt,
        model=agent.model,
        effective_model=effective_model(agent.model, agent.default_model, platform_default),
        temperature=agent.temperature,
        web_search=agent.web_search,
        image_generation=agent.image_generation,
        kbs=agent.kbs,
        enabled=agent.enabled,
        created_at=agent.created_at,
    )


async def page(
    database: Statements, query: AgentQuery, platform_default: str
) -> pagination.Page[AgentView]:
    """Return a page of one or all accounts' agents, newest first.

    Raises UnknownAccount, Invalid.
    """
    if query.account_id is not None:
        await accounts.show(database, query.account_id)
    params = {"account": query.account_id, **pagination.after_position(query)}
    rows = await database.fetch_all(SQL["page_of_agents"], params)
    found = [view(AgentRecord(*row), platform_default) for row in rows]
    return pagination.page_of(found, query.limit, lambda one: Position(one.created_at, one.id))


async def create(session: Session, actor: Actor, wish: NewAgent) -> AgentRecord:
    """Create an agent. Raises UnknownAccount, Invalid."""
    await accounts.show(session, wish.account_id)
    await _check_bases(session, wish.kbs, account_id=wish.account_id, user=wish.user_name)
    agent_id = await table.create(session, wish)
    made = await table.show(session, agent_id)
    shown = {
        "name": made.name,
        "model": made.model,
        "kbs": made.kbs,
        "user": made.user,
        "system_prompt_characters": len(made.system_prompt),
    }
    await audit.note(
        session, actor, "agent.create", agent_id, account_id=made.account_id, details=shown
    )
    return made


async def change(
    session: Session, actor: Actor, agent_id: str, changes: AgentChanges
) -> AgentRecord:
    """Set the members named by `changes`; the user must be able to read all bases.

    Raises UnknownAgent, Invalid.
    """
    if not changes:
        raise Invalid("nothing to set: name at least one setting")
    before = await table.show(session, agent_id)
    if "user_name" in changes or "kbs" in changes:
        await _check_bases(
            session,
            changes.get("kbs", before.kbs),
            account_id=before.account_id,
            user=changes.get("user_name", before.user),
        )
    await table.change(session, agent_id, changes)
    shown: dict[str, Any] = {**changes}
    if "system_prompt" in shown:
        shown["system_prompt_characters"] = len(shown.pop("system_prompt"))
    await audit.note(
        session, actor, "agent.set", agent_id, account_id=before.account_id, details=shown
    )
    return await table.show(session, agent_id)


async def _check_bases(
    session: Statements, kbs: Sequence[str], *, account_id: str, user: str
) -> None:
    """Raise Invalid for a base that the agent's user may not read."""
    for kb in kbs:
        if await readable_base(session, kb, account_id=account_id, user=user) is None:
            raise Invalid(f"the user {user} may read no knowledge base {kb}")
