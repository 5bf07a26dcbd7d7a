"""SQLite's FTS5 with bm25 over the relevance set, for comparison; in memory.

Asked by the rule that the gateway has, so that orders are compared: pages that have every word but
stop words, else those that have any; and for any word at once. The trigram tokenizer finds parts of
a text without spaces from three characters on; where a run is nowhere in full, any three neighbours
of it will do.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from gw.knowledge.query import STOP_WORDS
from loadtests.knowledge.judgements import DEPTH, WrittenPage

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
