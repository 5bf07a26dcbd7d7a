"""How long the longest statement of an import takes: 20,000 pages come, half change, all go.

Each step is made on the statistics of the step before. Besides there are pages that link a lot, and
one of 1 MiB whose words are all different, which comes and goes. Prints JSON; of each step the
seconds, the statements, and the longest of them in seconds with its name.
"""

from __future__ import annotations

import json
import random
import time
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from actors.store.connection import Params, Row
from actors.store.database import Database, Session
from gw.knowledge.importing import ImportTarget
from gw.knowledge.reading import SQL
from gw.knowledge.removing import remove_base, remove_page
from loadtests.knowledge.base import Bases, empty_bases
from loadtests.knowledge.latency import Language

T = TypeVar("T")
PAGES, LINKED_PAGES, LINKS = 20_000, 500, 100
WORDS_OF_A_LONG_PAGE = 130_000
_NAMES = {sql: name for name, sql in SQL.items()}


class Stopwatch:
    """A database, or a transaction of it, that keeps how long the statements take."""

    def __init__(self, inner: Database | Session, times: list[tuple[float, str]]) -> None:
        self._inner = inner
        self._times = times

    def __repr__(self) -> str:
        return f"<Stopwatch {self._inner!r}>"

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]:
        """As of the database."""
        return await self._timed(sql, self._inner.fetch_all(sql, params))

    async def fetch_one(self, sql: str, params: Params = ()) -> Row | None:
        """As of the database."""
        return await self._timed(sql, self._inner.fetch_one(sql, params))

    async def execute(self, sql: str, params: Params = ()) -> int:
        """As of the database."""
        return await self._timed(sql, self._inner.execute(sql, params))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Stopwatch]:
        """As of the database."""
        async with self._inner.transaction() as session:
            yield Stopwatch(session, self._times)

    async def _timed(self, sql: str, statement: Awaitable[T]) -> T:
        start = time.perf_counter()
        try:
            return await statement
        finally:
            self._times.append((time.perf_counter() - start, _NAMES.get(sql, sql[:30])))


def add_options(parser: ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("--pages", type=int, default=PAGES)
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(run=run)


async def run(options: Namespace) -> None:
    """Measure and print."""
    language = Language(random.Random(options.seed))
    texts = {f"page{n}": language.page(n) for n in range(options.pages)}
    linked = {
        f"link{n}": "".join(f"[[link{(n * 7 + k) % LINKED_PAGES}]] " for k in range(LINKS))
        for n in range(LINKED_PAGES)
    }
    long = " ".join(f"w{n:x}" for n in range(WORDS_OF_A_LONG_PAGE))
    async with empty_bases() as bases:
        step = _Steps(bases)
        await step.imported("fresh", texts)
        changed = {name: language.page(n) for n, name in enumerate(texts) if n % 2}
        await step.imported("half changed", texts | changed)
        await step.imported("linked, and a long page", texts | changed | linked | {"long": long})
        await step.timed("long page removed", lambda db: _remove_page(step, db, "long"))
        await step.imported("linked removed", texts | changed)
        await step.timed("removed", lambda db: remove_base(db, step.target))
        print(json.dumps(step.report, indent=1))


async def _remove_page(step: _Steps, database: Database, name: str) -> None:
    await remove_page(database, step.target, name)


class _Steps:
    """What is done to one base, and how long the statements of each step took."""

    def __init__(self, bases: Bases) -> None:
        self._bases = bases
        self.target = ImportTarget(account_id=bases.account_id, kb_id="big")
        self.report: list[dict[str, Any]] = []

    async def imported(self, name: str, texts: dict[str, str]) -> None:
        folder = self._bases.folder / "big"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for page, text in texts.items():
            (folder / f"{page}.md").write_text(text, encoding="utf-8")
        await self.timed(name, lambda database: self._bases.become("big", database))

    async def timed(self, name: str, change: Callable[[Database], Awaitable[None]]) -> None:
        times: list[tuple[float, str]] = []
        start = time.perf_counter()
        await change(cast(Database, Stopwatch(self._bases.database, times)))
        longest, statement = max(times)
        found = {"step": name, "seconds": time.perf_counter() - start, "statements": len(times)}
        self.report.append(found | {"longest": longest, "longest_is": statement})
