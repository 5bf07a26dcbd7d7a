"""The table of agents as functions: create, show, list, change. The SQL is `agents.sql`.

A running gateway reads an agent together with its key, and is notified of changes by the database.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TypedDict

from actors.store.errors import ConstraintViolated
from actors.store.queries import load, settings
from actors.store.session import Statements
from actors.wallet.ledger import UnknownAccount

SQL = load("gw.agents", "agents.sql")
ACCOUNT_MISSING = "agents_of_account"


class UnknownAgent(Exception):
    """No agent has this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAgent:
    """The members of a new agent; `model` is a canonical id."""

    account_id: str
    name: str
    user_name: str
    system_prompt: str
    model: str | None
    temperature: float | None
    web_search: bool
    image_generation: bool
    kbs: Sequence[str]


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """An agent as its operator sees it; the columns of `show` and `list` in their order."""

    id: str
    account_id: str
    name: str
    user: str
    system_prompt: str
    model: str | None
    temperature: float | None
    web_search: bool
    image_generation: bool
    kbs: list[str]
    enabled: bool
    created_at: datetime
    default_model: str | None  # the account's


class AgentChanges(TypedDict, total=False):
    """The columns to set by `change`; an absent name leaves its column alone, None clears it."""

    name: str
    user_name: str
    system_prompt: str
    model: str | None
    temperature: float | None
    web_search: bool
    image_generation: bool
    kbs: Sequence[str]
    enabled: bool


async def create(store: Statements, agent: NewAgent) -> str:
    """Store a new agent and return its id. Raises UnknownAccount."""
    agent_id = f"agent_{secrets.token_hex(10)}"
    row = {**asdict(agent), "id": agent_id, "kbs": list(agent.kbs)}
    try:
        await store.execute(SQL["insert"], row)
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
    return AgentRecord(*row)


async def list_all(store: Statements, account_id: str | None) -> list[AgentRecord]:
    """Return the agents of an account (None: of all), oldest first."""
    rows = await store.fetch_all(SQL["list"], {"account": account_id})
    return [AgentRecord(*row) for row in rows]


async def change(store: Statements, agent_id: str, changes: AgentChanges) -> None:
    """Set the columns named by `changes`. Raises UnknownAgent."""
    params = settings(changes, AgentChanges.__annotations__)
    if not await store.execute(SQL["change"], {"id": agent_id, **params}):
        raise UnknownAgent(agent_id)
