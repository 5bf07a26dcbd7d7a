"""The demo's knowledge base, which is the project's own pages, and the agent that answers by it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gw.agents import store as agents
from gw.agents.store import NewAgent
from gw.api.wiki.services import make_sources
from gw.demo.account import NAME, find_or_issue
from gw.keys.issue import KeyWish
from gw.keys.principal import AGENT, OWNER
from gw.knowledge.bases import PERSONAL
from gw.knowledge.folder import read_folder
from gw.knowledge.importing import ImportTarget, import_folder
from gw.serve import Gateway

# How to operate the gateway, as it stands beside its code.
PROJECT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "ops/running.md", "ops/protocols.md", "ops/runbooks/*.md")
SYSTEM_PROMPT = (
    "You help operators of this model gateway. Answer from the pages you are given, name the page,"
    " and say so where they do not tell."
)


@dataclass(frozen=True, slots=True)
class DemoAgent:
    """The agent's id, the key that speaks for it, and how many pages it has to answer by."""

    id: str
    key: str
    pages: int


async def open_agent(gateway: Gateway, account_id: str) -> DemoAgent | None:
    """Make the personal base what the project's pages say now, and find or make the agent.

    None where the program was installed without its pages.
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
    imported = await import_folder(database, target, folder, make_sources(config), keep=False)
    agent_id = await _agent(gateway, account_id)
    wish = KeyWish(account_id=account_id, name=NAME, kind=AGENT, agent_id=agent_id)
    _, text = await find_or_issue(database, gateway.secret, wish)
    return DemoAgent(agent_id, text, imported.pages)


async def _agent(gateway: Gateway, account_id: str) -> str:
    for agent in await agents.list_all(gateway.database, account_id):
        if agent.name == NAME and agent.enabled:
            return agent.id
    wanted = NewAgent(
        account_id=account_id,
        name=NAME,
        user_name=OWNER,
        system_prompt=SYSTEM_PROMPT,
        model="demo-large",
        temperature=None,
        web_search=False,
        image_generation=False,
        kbs=[PERSONAL],
    )
    return await agents.create(gateway.database, wanted)
