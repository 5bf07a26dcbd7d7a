"""How long a search of 20,000 pages takes, and the import of 2,000; and bases to be searched.

Words are drawn as rarely as those of a language are (Zipf), of a vocabulary that the seed makes; a
fifth of the pages are Chinese. Besides searches as readers write them there are some that no reader
writes: 500 characters of the commonest words, of their phrases, of Chinese. Prints JSON; nothing is
asserted here.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.store.database import Database
from actors.store.schema import migrate
from gw import accounts
from gw.knowledge.bases import one_state, readable_base
from gw.knowledge.folder import read_folder
from gw.knowledge.importing import ImportTarget, import_folder
from gw.knowledge.search import SearchResult, search
from gw.knowledge.sources import Sources
from loadtests.bench.figures import percentile
from loadtests.rig.targets import database_in


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
        async with database_in(folder / "var", size=1) as database:
            await migrate(database)
            account = await accounts.create(database, "loads", with_trial=False)
            yield Bases(database, account.id, folder)


WORDS, CHARACTERS = 30_000, 3_000
PAGE_WORDS = (120, 500)
LIMIT = 20


class Language:
    """Words of a made-up language, the n-th of them n times as rare as the first."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or")]
        self.words = sorted(
            {"".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(WORDS * 2)}
        )
        chance.shuffle(self.words)
        self._weights = list(accumulate(1 / (n + 10) for n in range(len(self.words))))
        self._han = [chr(0x4E00 + n) for n in range(CHARACTERS)]
        chance.shuffle(self._han)
        self._han_weights = list(accumulate(1 / (n + 20) for n in range(CHARACTERS)))

    def draw(self, count: int) -> list[str]:
        """So many words."""
        return self._chance.choices(self.words, cum_weights=self._weights, k=count)

    def han(self, count: int) -> str:
        """So many characters."""
        return "".join(self._chance.choices(self._han, cum_weights=self._han_weights, k=count))

    def page(self, number: int) -> str:
        """The file of a page."""
        length = self._chance.randint(*PAGE_WORDS)
        if number % 5:
            title = " ".join(self.draw(3))
            lines = [" ".join(self.draw(12)) + "." for _ in range(length // 12)]
        else:
            title = self.han(6)
            lines = [self.han(20) + "。" for _ in range(length // 12)]
        tags = ", ".join(self.draw(2))
        return f"---\ntitle: {title}\ntags: [{tags}]\n---\n" + "\n".join(lines)

    def queries(self, count: int) -> Iterator[str]:
        """What readers ask: one to four words, as common as those of pages; some Chinese."""
        for number in range(count):
            if number % 5:
                yield " ".join(self.draw(self._chance.randint(1, 4)))
            else:
                yield self.han(self._chance.randint(2, 5))

    def hostile(self, count: int) -> dict[str, list[str]]:
        """Questions that no reader asks."""
        common = self.words[:60]
        pairs = [f'"{a} {b}"' for a, b in zip(common, reversed(common), strict=True)]
        kinds = {"common words": common, "common phrases": pairs, "characters": [self.han(500)]}
        return {
            name: [" ".join(self._chance.sample(words, len(words)))[:500] for _ in range(count)]
            for name, words in kinds.items()
        }


def latency(pages: int = 20_000, imported: int = 2_000, searches: int = 500, seed: int = 7) -> None:
    """Import twice, into bases of both sizes, and search the larger one."""
    asyncio.run(_latency(Language(random.Random(seed)), pages, imported, searches))


async def _latency(language: Language, pages: int, imported: int, searches: int) -> None:
    async with empty_bases() as bases:
        figures: dict[str, object] = {}
        for name, count in (("small", imported), ("large", pages)):
            bases.write(name, ((f"page-{n:05}", language.page(n)) for n in range(count)))
            began = time.perf_counter()
            await bases.become(name)
            figures[f"seconds to import {count} pages"] = round(time.perf_counter() - began, 2)
        await _timed(bases, language.queries(20))
        queries = language.queries(searches)
        figures[f"{searches} searches, ms"] = await _timed(bases, queries)
        for name, hostile in language.hostile(10).items():
            figures[f"10 searches of {name}, ms"] = await _timed(bases, hostile)
    print(json.dumps(figures, indent=2))


async def _timed(bases: Bases, queries: Iterable[str]) -> dict[str, float]:
    """Percentiles of how long each took."""
    milliseconds = []
    for query in queries:
        began = time.perf_counter()
        await bases.search("large", query, limit=LIMIT)
        milliseconds.append((time.perf_counter() - began) * 1000)
    return {f"p{p}": round(percentile(milliseconds, p / 100), 1) for p in (50, 90, 95, 99, 100)}
