"""An operator's functions of agents: create, change, disable; each change is audited.

The table is `gw/agents/table.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from actors.store.session import Session, Statements
from gw import accounts
from gw.admin import audit, pagination
from gw.admin.audit import Actor
from gw.admin.locking import with_lock
from gw.agents import table
from gw.agents.agent import AGENT_NOUN, AgentRecord, NewAgent
from gw.knowledge.bases import readable_base
from gw.nouns.noun import Changes
from gw.nouns.refused import Invalid


async def page(
    database: Statements, query: pagination.AccountQuery
) -> pagination.Page[AgentRecord]:
    """Return a page of one or all accounts' agents, newest first.

    Raises UnknownAccount, Invalid.
    """
    return await pagination.newest(database, table.SQL["newest_first"], AGENT_NOUN, query)


async def create(session: Session, actor: Actor, wish: NewAgent) -> AgentRecord:
    """Create an agent. Raises UnknownAccount, Invalid."""
    await accounts.show(session, wish.account_id)
    await _check_bases(session, wish.kbs, account_id=wish.account_id, user=wish.user)
    agent_id = await table.create(session, wish)
    made = await table.show(session, agent_id)
    details = AGENT_NOUN.noted_new(made)
    await audit.note(
        session, actor, "agent.create", agent_id, account_id=made.account_id, details=details
    )
    return made


async def change(session: Session, actor: Actor, agent_id: str, changes: Changes) -> AgentRecord:
    """Set the members named by `changes`; the user must be able to read all bases.

    An agent that an operator disables is locked. Raises UnknownAgent, AgentIsLocked, Invalid.
    """
    if not changes:
        raise Invalid("nothing to set: name at least one setting")
    before = await table.show(session, agent_id)
    if "user" in changes or "kbs" in changes:
        await _check_bases(
            session,
            changes.get("kbs", before.kbs),
            account_id=before.account_id,
            user=changes.get("user", before.user),
        )
    is_locked, refusal = partial(table.is_locked, session, agent_id), table.AgentIsLocked(agent_id)
    await table.change(session, agent_id, await with_lock(actor, changes, is_locked, refusal))
    details = AGENT_NOUN.noted(changes)
    await audit.note(
        session, actor, "agent.set", agent_id, account_id=before.account_id, details=details
    )
    return await table.show(session, agent_id)


async def _check_bases(
    session: Statements, kbs: Sequence[str], *, account_id: str, user: str
) -> None:
    """Raise Invalid for a base that the agent's user may not read."""
    for kb in kbs:
        if await readable_base(session, kb, account_id=account_id, user=user) is None:
            raise Invalid(f"the user {user} may read no knowledge base {kb}")
