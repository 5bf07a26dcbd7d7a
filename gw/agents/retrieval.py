"""Finds pages of an agent's knowledge bases for a question, as its user may read them now.

Nothing is cached between two calls: a revoked grant applies to the next one.
"""

from __future__ import annotations

from actors.store.queries import load
from actors.store.session import Statements
from gw.agents.excerpts import Excerpt, cut
from gw.agents.permission import AgentRefused
from gw.config.config import AgentsSpec
from gw.keys.principal import Agent
from gw.knowledge.query import parse_query
from gw.knowledge.search import asked
from gw.knowledge.words import folded_name

SQL = load("gw.agents", "retrieval.sql")

# The searched part of a question.
QUESTION_CHARACTERS = 2000


async def retrieve(
    store: Statements, agent: Agent, question: str, bounds: AgentsSpec, *, account_id: str
) -> list[Excerpt]:
    """Return the best pages of the agent's bases with any term of the question, truncated.

    One statement reads one snapshot of the bases. Raises AgentRefused when the agent's user may not
    read one of them, StoreError.
    """
    params = {
        "account": account_id,
        "user": agent.user,
        "kbs": list(agent.kbs),
        "name": folded_name(question),
        **asked(parse_query(question).any),
        "limit": bounds.kb_pages,
        "characters": bounds.kb_page_chars,
    }
    rows = await store.fetch_all(SQL["retrieve"], params)
    if not rows[0][0]:
        raise AgentRefused(
            "kb_inaccessible", "A knowledge base of the agent of this API key is not accessible."
        )
    found = [Excerpt(*page) for _, *page in rows if page[1] is not None]
    return cut(found, bounds.kb_chars)
