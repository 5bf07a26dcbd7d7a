"""Finds what an agent's knowledge bases say to a question, as its user may read them now.

Nothing of it is remembered between two calls: who may no longer read a base learns nothing of it
with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.store.queries import load
from actors.store.session import Statements
from gw.agents.frame import Excerpt, cut
from gw.agents.policy import AgentRefused
from gw.keys.principal import Agent
from gw.knowledge.bases import Base, readable_bases
from gw.knowledge.search import search_any

SQL = load("gw.agents", "retrieval.sql")

# Of a question, so many characters are searched for.
QUESTION_CHARACTERS = 2000


class Bounds(Protocol):
    """How much is given of what is found (`agents` in the configuration)."""

    @property
    def kb_pages(self) -> int: ...

    @property
    def kb_page_chars(self) -> int: ...

    @property
    def kb_chars(self) -> int: ...


async def attached_bases(store: Statements, agent: Agent, *, account_id: str) -> list[Base]:
    """The agent's bases. Raises AgentRefused when its user may not read one of them."""
    found = await readable_bases(store, account_id=account_id, user=agent.user)
    by_id = {base.kb_id: base for base in found}
    if not by_id.keys() >= set(agent.kbs):
        raise AgentRefused(
            "kb_inaccessible", "A knowledge base of the agent of this API key is not accessible."
        )
    return [by_id[kb_id] for kb_id in agent.kbs]


async def excerpts(
    store: Statements, bases: Sequence[Base], question: str, bounds: Bounds
) -> list[Excerpt]:
    """The best pages that have any term of the question, cut, best first."""
    ranked = await search_any(store, bases, question, limit=bounds.kb_pages)
    if not ranked:
        return []
    params = {"nos": [one.page_no for one in ranked], "characters": bounds.kb_page_chars}
    pages = {no: page for no, *page in await store.fetch_all(SQL["excerpts"], params)}
    names = {base.no: base.kb_id for base in bases}
    found = [Excerpt(names[one.base_no], *pages[one.page_no]) for one in ranked]
    return cut(found, bounds.kb_chars)
