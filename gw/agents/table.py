"""The table of agents as functions: create, show, list, change. The SQL is `agents.sql`.

A running gateway reads an agent together with its key, and is notified of changes by the database.
"""

from __future__ import annotations

import secrets

from actors.store.errors import ConstraintViolated
from actors.store.queries import load
from actors.store.session import Statements
from actors.wallet.ledger import UnknownAccount
from gw.agents.agent import AGENT_NOUN, AgentRecord, NewAgent
from gw.nouns.noun import Changes

SQL = load("gw.agents", "agents.sql", AGENT_NOUN.sql)
ACCOUNT_MISSING = "agents_of_account"


class UnknownAgent(Exception):
    """No agent has this id."""


class AgentIsLocked(Exception):
    """An operator has disabled the agent, whom its account's owner does not overrule."""


async def create(store: Statements, agent: NewAgent) -> str:
    """Store a new agent and return its id. Raises UnknownAccount."""
    agent_id = f"agent_{secrets.token_hex(10)}"
    try:
        await store.execute(SQL["insert"], {"id": agent_id, **AGENT_NOUN.row_of(agent)})
    except ConstraintViolated as error:
        if error.constraint_name == ACCOUNT_MISSING:
            raise UnknownAccount(agent.account_id) from error
        raise
    return agent_id


async def show(store: Statements, agent_id: str) -> AgentRecord:
    """Return one agent. Raises UnknownAgent."""
    row = await store.fetch_one(SQL["show"], (agent_id,))
    if row is None:
        raise UnknownAgent(agent_id)
    return AGENT_NOUN.of_row(row)


async def list_all(store: Statements, account_id: str | None) -> list[AgentRecord]:
    """Return the agents of an account (None: of all), oldest first."""
    rows = await store.fetch_all(SQL["list"], {"account": account_id})
    return [AGENT_NOUN.of_row(row) for row in rows]


async def change(store: Statements, agent_id: str, changes: Changes) -> None:
    """Set the fields named by `changes`. Raises UnknownAgent."""
    params = {"id": agent_id, **AGENT_NOUN.settings_of(changes)}
    if not await store.execute(SQL["change"], params):
        raise UnknownAgent(agent_id)


async def is_locked(session: Statements, agent_id: str) -> bool:
    """Whether an operator has disabled an agent, until the transaction ends.

    Raises UnknownAgent.
    """
    row = await session.fetch_one(SQL["is_locked"], (agent_id,))
    if row is None:
        raise UnknownAgent(agent_id)
    return bool(row[0])
