"""The demo's knowledge base, which is the project's own pages, and its agent."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gw.admin import agents as admin_agents
from gw.admin import bases
from gw.admin.audit import Actor
from gw.agents import table
from gw.agents.agent import NewAgent
from gw.api.knowledge.services import make_sources
from gw.demo.account import NAME, find_or_issue
from gw.keys.key import KeyWish
from gw.keys.principal import AGENT, OWNER
from gw.knowledge.bases import PERSONAL
from gw.knowledge.folder import read_folder
from gw.knowledge.importing import ImportTarget
from gw.serve import Gateway

# The folder of the pages that describe the gateway.
PROJECT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "ops/running.md", "ops/reference/[a-z]*.md", "ops/runbooks/*.md")
SYSTEM_PROMPT = (
    "You help operators of this model gateway. Answer from the pages you are given, name the page,"
    " and say so where they do not tell."
)


@dataclass(frozen=True, slots=True)
class DemoAgent:
    """The agent's id, its key, and the number of pages in its knowledge base."""

    id: str
    key: str
    pages: int


async def open_agent(gateway: Gateway, account_id: str) -> DemoAgent | None:
    """Import the project's pages into the personal base, and find or create the agent.

    None if the program was installed without its pages.
    """
    files = [file for pattern in PAGES for file in sorted(PROJECT.glob(pattern))]
    if not files:
        return None
    config, database = gateway.current.config, gateway.database
    with TemporaryDirectory(prefix="gw-demo-") as name:
        for file in files:
            shutil.copy(file, name)
        folder = read_folder(Path(name), source_mb_max=config.kb_store.max_source_mb)
    target = ImportTarget(account_id=account_id, user=OWNER)
    actor = Actor.of_this_process()
    imported = await bases.import_pages(
        database, actor, target, folder, make_sources(config), keep=False
    )
    agent_id = await _agent(gateway, account_id)
    wish = KeyWish(account_id=account_id, name=NAME, kind=AGENT, agent_id=agent_id)
    _, text = await find_or_issue(database, gateway.secret, wish)
    return DemoAgent(agent_id, text, imported.pages)


async def _agent(gateway: Gateway, account_id: str) -> str:
    for agent in await table.list_all(gateway.database, account_id):
        if agent.name == NAME and agent.enabled:
            return agent.id
    wanted = NewAgent(
        account_id=account_id,
        name=NAME,
        user=OWNER,
        system_prompt=SYSTEM_PROMPT,
        model="demo-large",
        temperature=None,
        web_search=False,
        image_generation=False,
        kbs=[PERSONAL],
    )
    async with gateway.database.transaction() as session:
        made = await admin_agents.create(session, Actor.of_this_process(), wanted)
    return made.id
