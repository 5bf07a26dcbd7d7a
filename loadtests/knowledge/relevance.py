"""How good the order of a search is, beside FTS5's bm25 over the same pages in the same run.

Writes `loadtests/relevance.md`. Bounds are asserted in tests/integration/knowledge. The set is
written by hand: `english.txt` and `chinese.txt` are pages, a line `id | title | tags | summary |
aliases`, then the body, then an empty line. `queries.txt` is `group | search | page:grade …` with
grades 3 (answers it) to 1 (has something to do with it); the pages of the highest grade are the
best ones.

FTS5 is asked by the rule that the gateway has, so that orders are compared: pages that have every
word but stop words, else those that have any; and for any word at once. The trigram tokenizer finds
parts of a text without spaces from three characters on; where a run is nowhere in full, any three
neighbours of it will do.
"""

from __future__ import annotations

import asyncio
import math
import re
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gw.knowledge.words import STOP_WORDS
from loadtests.knowledge.latency import empty_bases

FOLDER = Path(__file__).parent / "relevance"
PAGE_FILES = ("english.txt", "chinese.txt")
QUERIES_FILE = "queries.txt"
DEPTH = 10


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page of the set; tags and aliases as written, separated by commas."""

    id: str
    title: str
    tags: str
    summary: str
    aliases: str
    body: str

    def markdown(self) -> str:
        """The file of the page."""
        keys = {"title": self.title, "summary": self.summary}
        head = "".join(f'{key}: "{value}"\n' for key, value in keys.items() if value)
        return f"---\n{head}tags: [{self.tags}]\naliases: [{self.aliases}]\n---\n{self.body}\n"


@dataclass(frozen=True, slots=True)
class Judged:
    """A search, and the grades of the pages that have to do with it."""

    group: str
    query: str
    grades: dict[str, int]

    def ndcg(self, found: Sequence[str]) -> float:
        """How good the first DEPTH pages are, from 0 to 1."""
        ideal = _gain(sorted(self.grades.values(), reverse=True))
        return _gain([self.grades.get(page, 0) for page in found]) / ideal

    def is_best_first(self, found: Sequence[str]) -> bool:
        """Whether the first page is one of the best."""
        return bool(found) and self.grades.get(found[0], 0) == max(self.grades.values())


def pages() -> list[WrittenPage]:
    """All pages of the set."""
    blocks = [
        block
        for name in PAGE_FILES
        for block in (FOLDER / name).read_text(encoding="utf-8").strip().split("\n\n")
    ]
    return [_page(*block.split("\n", 1)) for block in blocks]


def judged() -> list[Judged]:
    """All searches of the set."""
    lines = (FOLDER / QUERIES_FILE).read_text(encoding="utf-8").splitlines()
    return [_judged(*line.split(" | ")) for line in lines]


def _page(head: str, body: str) -> WrittenPage:
    page_id, title, tags, summary, aliases = (cell.strip() for cell in head.split("|"))
    return WrittenPage(page_id, title, tags, summary, aliases, body)


def _judged(group: str, query: str, grades: str) -> Judged:
    pairs = (one.rsplit(":", 1) for one in grades.split())
    return Judged(group, query, {page: int(grade) for page, grade in pairs})


def _gain(grades: Sequence[int]) -> float:
    return sum(
        ((1 << grade) - 1) / math.log2(place + 1) for place, grade in enumerate(grades[:DEPTH], 1)
    )


PORTER, TRIGRAM = "porter unicode61", "trigram"
# Of title, aliases, tags, summary and body.
EVEN_WEIGHTS = (1.0, 1.0, 1.0, 1.0, 1.0)
FIELD_WEIGHTS = (8.0, 6.0, 4.0, 3.0, 1.0)
TRIGRAM_CHARACTERS = 3


@dataclass(frozen=True, slots=True)
class Fts5:
    """A table of the pages."""

    connection: sqlite3.Connection
    tokenizer: str
    weights: Sequence[float]
    is_any: bool

    def search(self, query: str) -> list[str]:
        """The ids of the first DEPTH pages, best first."""
        words = re.findall(r'"[^"]+"|[^\s"]+', query)
        if self.is_any:
            return self._match(" OR ".join(self._pieces(words)))
        words = [word for word in words if word.casefold() not in STOP_WORDS] or words
        quoted = ['"' + word.strip('"') + '"' for word in words]
        return self._match(" AND ".join(quoted)) or self._match(" OR ".join(self._pieces(words)))

    def _pieces(self, words: Sequence[str]) -> list[str]:
        bare = [word.strip('"') for word in words]
        if self.tokenizer != TRIGRAM:
            return [f'"{word}"' for word in bare]
        last = TRIGRAM_CHARACTERS - 1
        return [
            f'"{word[at : at + TRIGRAM_CHARACTERS]}"'
            for word in bare
            for at in range(max(1, len(word) - last))
        ]

    def _match(self, expression: str) -> list[str]:
        # The first column is the id, which is not searched: it stands among the aliases.
        weights = ", ".join(str(weight) for weight in (0.0, *self.weights))
        rows = self.connection.execute(
            f"SELECT id FROM pages WHERE pages MATCH ? ORDER BY bm25(pages, {weights}), id LIMIT ?",
            (expression, DEPTH),
        )
        return [row[0] for row in rows]


def fts5(
    pages: Sequence[WrittenPage], tokenizer: str, weights: Sequence[float], *, is_any: bool
) -> Fts5:
    """A table with these pages."""
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE pages USING fts5"
        f"(id UNINDEXED, title, aliases, tags, summary, body, tokenize='{tokenizer}')"
    )
    rows = [(p.id, p.title, f"{p.id} {p.aliases}", p.tags, p.summary, p.body) for p in pages]
    connection.executemany("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?)", rows)
    return Fts5(connection, tokenizer, weights, is_any)


OURS = "gateway"
KB = "set"
RIVALS = {
    ", ".join(["FTS5 bm25", name, *["fields weighted"] * is_weighted, *["any word"] * is_any]): (
        tokenizer,
        FIELD_WEIGHTS if is_weighted else EVEN_WEIGHTS,
        is_any,
    )
    for name, tokenizer in (("porter", PORTER), ("trigram", TRIGRAM))
    for is_any in (False, True)
    for is_weighted in (False, True)
}
GROUPS = {"en": "English", "zh": "Chinese", "other": "Japanese, code, mixed, emoji, phrases"}
TABLE = Path(__file__).parents[1] / "relevance.md"

Search = Callable[[str], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over the searches of a group."""

    searches: int
    ndcg: float
    best_first: float


async def measure(ours: Search) -> dict[str, dict[str, Quality]]:
    """The quality of each engine in each group."""
    written, searches = pages(), judged()
    found = {OURS: [await ours(one.query) for one in searches]}
    for name, (tokenizer, weights, is_any) in RIVALS.items():
        table = fts5(written, tokenizer, weights, is_any=is_any)
        with closing(table.connection):
            found[name] = [table.search(one.query) for one in searches]
    return {
        name: {group: _quality(searches, results, group) for group in GROUPS}
        for name, results in found.items()
    }


def table(figures: dict[str, dict[str, Quality]]) -> str:
    """The page of results."""
    counts = {group: one.searches for group, one in figures[OURS].items()}
    heads = [f"{name} ({counts[group]})" for group, name in GROUPS.items()]
    lines = [
        "# How good the order of a search is",
        "",
        f"nDCG@{DEPTH}, and the share of searches whose first page is a best one; in brackets",
        f"how many searches. {len(pages())} pages in English and Chinese, and searches judged by",
        "hand, are in `loadtests/knowledge/relevance`; written by",
        "`python -m loadtests relevance`.",
        "",
        "FTS5 is asked by the gateway's own rule: pages with every word (stop words out), else",
        "with any; or for any word at once, which a sum to the tenth page rewards.",
        "",
        f"| | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
    ]
    for name, groups in figures.items():
        cells = [f"{one.ndcg:.3f} · {one.best_first:.0%}" for one in groups.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def relevance(write: Path = TABLE) -> None:
    """Import the set, search it and write the page."""
    text = asyncio.run(_relevance())
    write.write_text(text, encoding="utf-8")
    print(text)


async def _relevance() -> str:
    async with empty_bases() as bases:
        bases.write(KB, ((page.id, page.markdown()) for page in pages()))
        await bases.become(KB)

        async def ours(query: str) -> list[str]:
            return [hit.id for hit in (await bases.search(KB, query, limit=DEPTH)).hits]

        return table(await measure(ours))


def _quality(searches: Sequence[Judged], results: Sequence[list[str]], group: str) -> Quality:
    pairs = [
        (one, found) for one, found in zip(searches, results, strict=True) if one.group == group
    ]
    return Quality(
        len(pairs),
        sum(one.ndcg(found) for one, found in pairs) / len(pairs),
        sum(one.is_best_first(found) for one, found in pairs) / len(pairs),
    )
