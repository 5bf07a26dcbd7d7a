"""What an agent's bases say to a question, in one statement."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.store.database import Database
from gw.agents.permission import AgentRefused
from gw.agents.retrieval import retrieve
from gw.config.config import AgentsSpec
from gw.keys.principal import Agent
from gw.knowledge.bases import grant, list_bases
from tests.integration.knowledge.importing import KB, Bases, bases_in
from tests.integration.knowledge.test_search import OTTER

# Of the table of pages, by this connection; so far as it has not told the server yet.
ROWS_READ = """
SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
WHERE relname = 'kb_pages'
"""


@dataclass
class Counted:
    """The database, with the statements that were run."""

    database: Database
    statements: list[str] = field(default_factory=list)

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        self.statements.append(sql)
        return await self.database.fetch_all(sql, params)

    async def fetch_one(self, sql: str, params: Any = ()) -> tuple[Any, ...] | None:
        raise AssertionError(sql)

    async def execute(self, sql: str, params: Any = ()) -> int:
        raise AssertionError(sql)


def agent(*kbs: str, user: str = "owner") -> Agent:
    return Agent(
        id="agent_1",
        user=user,
        system_prompt=b'""',
        model=None,
        temperature=None,
        web_search=False,
        image_generation=False,
        kbs=kbs,
        enabled=True,
        default_model=None,
        allowed_models=None,
    )


async def request_of(bases: Bases, who: Agent, question: str) -> list[tuple[str, str]]:
    store = Counted(bases.database)
    bounds = AgentsSpec(default_model="", kb_pages=3, kb_page_chars=20, kb_chars=60)
    found = await retrieve(store, who, question, bounds, account_id=bases.account_id)
    assert len(store.statements) == 1
    assert all(len(page.body) <= 20 for page in found)
    return [(page.kb_id, page.id) for page in found]


async def test_pages_that_have_any_term_are_taken(database_url: str, tmp_path: Path) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(OTTER)
        await bases.become({"lakes": "---\ntitle: the lake\n---\nof an otter"}, "more")
        best = [(KB, "body"), (KB, "equal"), (KB, "titled")]
        assert await request_of(bases, agent(KB), "is an otter at the lake") == best
        both = await request_of(bases, agent("more", KB), "is an otter at the lake")
        assert both == [("more", "lakes"), *best[:2]]
        for nothing in ("zebra " * 400, "", "?!", '""'):
            assert await request_of(bases, agent(KB, "default"), nothing) == [], nothing


async def test_bodies_are_cut_by_characters(database_url: str, tmp_path: Path) -> None:
    bodies = {
        "plain": "otter " * 9,
        "wide": "otter \u6c34\u736d" + "\U0001f9a6" * 30,
        "short": "otter \u6c34",
        "spaced": "otter" + " " * 40 + "end",
    }
    bounds = AgentsSpec(default_model="", kb_pages=5, kb_page_chars=20, kb_chars=100)
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(bodies)
        found = await retrieve(
            bases.database, agent(KB), "otter", bounds, account_id=bases.account_id
        )
    assert {page.id: page.body for page in found} == {id: body[:20] for id, body in bodies.items()}


async def test_rows_are_read_of_the_pages_that_are_given(database_url: str, tmp_path: Path) -> None:
    pages = {f"p{n:03}": f"common words{' rare' * (n < 10)}" for n in range(300)}
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(pages)
        bounds = AgentsSpec(default_model="", kb_pages=5, kb_page_chars=20, kb_chars=100)
        async with bases.database.transaction() as session:
            ((before,),) = await session.fetch_all(ROWS_READ)
            found = await retrieve(
                session, agent(KB), "common rare", bounds, account_id=bases.account_id
            )
            ((after,),) = await session.fetch_all(ROWS_READ)
        assert [page.id for page in found] == ["p000", "p001", "p002", "p003", "p004"]
        assert 5 <= after - before <= 40, "a plan reads pages that are not given"


async def test_who_may_not_read_one_of_the_bases_gets_nothing_of_any(
    database_url: str, tmp_path: Path
) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become(OTTER)
        await bases.become(OTTER, "closed")
        await bases.database.execute("UPDATE kb_bases SET is_restricted = kb_id = 'closed'")
        for who in (agent(KB, "closed"), agent("absent"), agent(KB, f"{bases.account_id}:{KB}")):
            for question in ("otter", ""):
                with pytest.raises(AgentRefused):
                    await request_of(bases, who, question)
        # Its own base is everybody's, before there is one.
        assert await request_of(bases, agent("default"), "otter") == []
        records = await list_bases(bases.database, bases.account_id)
        (closed,) = (one for one in records if one.is_restricted)
        await grant(bases.database, closed, user="owner", account=None)
        assert len(await request_of(bases, agent("closed"), "otter")) == 3
        with pytest.raises(AgentRefused):
            await request_of(bases, agent("closed", user="other"), "otter")
