"""A database of one's own, with one account, whose bases are made of texts and searched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.store.database import Database
from actors.store.embedded.cluster import EmbeddedPostgres
from actors.store.schema import migrate
from gw import accounts as accounts
from gw.knowledge.folder import read_folder
from gw.knowledge.importing import ImportTarget, import_folder
from gw.knowledge.reading import one_state, readable_base
from gw.knowledge.search import SearchResult, search
from gw.knowledge.sources import Sources


@dataclass(frozen=True, slots=True)
class Bases:
    """The bases of the account; their folders stand below `folder`."""

    database: Database
    account_id: str
    folder: Path

    def write(self, kb_id: str, files: Iterable[tuple[str, str]]) -> None:
        """Make the folder of a base, of names and texts."""
        (self.folder / kb_id).mkdir()
        for name, text in files:
            (self.folder / kb_id / f"{name}.md").write_text(text, encoding="utf-8")

    async def become(self, kb_id: str, database: Database | None = None) -> None:
        """Import a base from its folder, through another view of the database if one is given."""
        target = ImportTarget(account_id=self.account_id, kb_id=kb_id)
        read = read_folder(self.folder / kb_id, source_mb_max=1)
        sources = Sources(self.folder / "sources")
        await import_folder(database or self.database, target, read, sources, keep=False)

    async def search(self, kb_id: str, query: str, *, limit: int) -> SearchResult:
        """Search a base as an endpoint does."""
        async with one_state(self.database) as session:
            base = await readable_base(session, kb_id, account_id=self.account_id, user="owner")
            assert base is not None
            return await search(session, [base], query, offset=0, limit=limit)


@asynccontextmanager
async def empty_bases() -> AsyncIterator[Bases]:
    """A database that is gone afterwards."""
    with TemporaryDirectory(prefix="gw-kb-") as name:
        folder = Path(name)
        embedded = EmbeddedPostgres(folder / "var")
        url = await embedded.start()
        try:
            async with Database(url, size=1) as database:
                await migrate(database)
                account = await accounts.create(
                    database,
                    "loads",
                    rpm_limit=None,
                    concurrency_limit=None,
                    credit_nano_usd=0,
                    with_trial=False,
                )
                yield Bases(database, account.id, folder)
        finally:
            await embedded.stop()
