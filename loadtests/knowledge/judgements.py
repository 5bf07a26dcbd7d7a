"""The relevance set: pages in two languages, searches, and which pages answer each of them.

Written by hand. `english.txt` and `chinese.txt` are pages: a line `id | title | tags | summary |
aliases`, then the body, then an empty line. `queries.txt` is `group | search | page:grade …` with
grades 3 (answers it) to 1 (has something to do with it); the pages of the highest grade are the
best ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
