"""How long a search of 20,000 pages takes, and the import of 2,000.

`python -m loadtests.knowledge`.
Words are drawn as rarely as those of a language are (Zipf), of a vocabulary that the seed makes; a
fifth of the pages are Chinese. Prints one line of JSON; nothing is asserted here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from actors.store.database import Database
from actors.store.embedded import EmbeddedPostgres
from actors.store.migrations import migrate
from gw.accounts import store as accounts
from gw.knowledge.bases import one_state, readable_base
from gw.knowledge.folder import read_folder
from gw.knowledge.importing import ImportTarget, import_folder
from gw.knowledge.search import search
from gw.knowledge.sources import Sources

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


async def measure(pages: int, imported: int, searches: int, seed: int) -> dict[str, Any]:
    """Import twice, into bases of both sizes, and search the larger one."""
    language = Language(random.Random(seed))
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gw-kb-")))
        embedded = EmbeddedPostgres(folder / "var")
        url = await embedded.start()
        stack.push_async_callback(embedded.stop)
        database = await stack.enter_async_context(Database(url, size=1))
        await migrate(database)
        account = await accounts.create(
            database,
            "latency",
            rpm_limit=None,
            concurrency_limit=None,
            credit_nano_usd=0,
            with_trial=False,
        )
        seconds = {}
        for name, count in (("small", imported), ("large", pages)):
            _write(folder / name, language, count)
            target = ImportTarget(account_id=account.id, kb_id=name)
            began = time.perf_counter()
            read = read_folder(folder / name, source_mb_max=1)
            await import_folder(database, target, read, Sources(folder / "kb"), keep=False)
            seconds[name] = time.perf_counter() - began
        milliseconds = [
            await _search(database, account.id, query) for query in language.queries(searches)
        ]
    milliseconds.sort()
    return {
        "import_seconds": {
            f"{imported} pages": round(seconds["small"], 2),
            f"{pages} pages": round(seconds["large"], 2),
        },
        "searches": searches,
        "milliseconds": {
            f"p{percent}": round(milliseconds[len(milliseconds) * percent // 100 - 1], 1)
            for percent in (50, 90, 95, 99, 100)
        },
    }


def _write(folder: Path, language: Language, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"page-{number:05}.md").write_text(language.page(number), encoding="utf-8")


async def _search(database: Database, account_id: str, query: str) -> float:
    began = time.perf_counter()
    async with one_state(database) as session:
        base = await readable_base(session, "large", account_id=account_id, user="owner")
        assert base is not None
        await search(session, [base], query, offset=0, limit=LIMIT)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--imported", type=int, default=2_000)
    parser.add_argument("--searches", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    figures = measure(options.pages, options.imported, options.searches, options.seed)
    print(json.dumps(asyncio.run(figures)))
