"""A knowledge base on a real database, imported from texts."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from actors.store.database import Database
from gw.knowledge.bases import Base, one_state, readable_base
from gw.knowledge.folder import read_folder
from gw.knowledge.importing import Imported, ImportTarget, import_folder
from gw.knowledge.search import SearchResult, search
from gw.knowledge.sources import Sources
from tests.integration.keys.table import account_in

KB = "kb"


@dataclass
class Bases:
    """The bases of one account, and the verbs of a test."""

    database: Database
    account_id: str
    folder: Path

    async def become(self, pages: Mapping[str, str], kb_id: str = KB) -> Imported:
        """Import a base that has these pages: texts by their ids."""
        folder = self.folder / kb_id
        folder.mkdir(exist_ok=True)
        for path in folder.glob("*.md"):
            path.unlink()
        for page_id, text in pages.items():
            (folder / f"{page_id}.md").write_text(text, encoding="utf-8")
        target = ImportTarget(account_id=self.account_id, kb_id=kb_id)
        read = read_folder(folder, source_mb_max=1)
        sources = Sources(self.folder / "sources")
        return await import_folder(self.database, target, read, sources, keep=False)

    async def base(self, kb_id: str = KB) -> Base:
        """The base as a reader sees it."""
        async with one_state(self.database) as session:
            found = await readable_base(session, kb_id, account_id=self.account_id, user="owner")
        assert found is not None
        return found

    async def search(
        self, text: str, *kb_ids: str, offset: int = 0, limit: int = 50
    ) -> SearchResult:
        """Search bases together."""
        bases = [await self.base(kb_id) for kb_id in kb_ids or (KB,)]
        async with one_state(self.database) as session:
            return await search(session, bases, text, offset=offset, limit=limit)

    async def ids(self, text: str, *kb_ids: str) -> list[str]:
        """The ids that a search finds, best first."""
        return [hit.id for hit in (await self.search(text, *kb_ids)).hits]


@asynccontextmanager
async def bases_in(database_url: str, folder: Path) -> AsyncIterator[Bases]:
    """An account without bases."""
    async with Database(database_url) as database:
        yield Bases(database, await account_in(database), folder)
