"""The windows of a search are those of an order in which every page is weighed"""

import random
from collections.abc import Iterable
from math import log
from pathlib import Path
from typing import Any

from gw.knowledge.bases import SQL
from gw.knowledge.query import parse_query
from gw.knowledge.search import asked
from gw.knowledge.words import folded_name
from loadtests.knowledge.relevance import DEPTH, OURS, RIVALS, judged, measure, pages, table
from tests.integration.knowledge.importing import Bases, bases_in

ENTRIES = """
SELECT p.base_no, substr(k.lexeme, strpos(k.lexeme, ':') + 1), p.id, p.no, e >> 16 & 15, e & 65535
FROM kb_postings k CROSS JOIN unnest(k.entries) e
JOIN kb_pages p ON p.base_no = k.base_no AND p.slot = e >> 20
"""
WORDS = [f"{a}{b}" for a in ("ba", "do", "ki", "lum", "nor", "pez", "sa", "tur") for b in "gkmvxz"]
Row = tuple[int, int, int]  # base, page, key


class EveryPage:
    """Weighs each page that has a term, by the lists of all lexemes."""

    def __init__(self, rows: Iterable[tuple[Any, ...]], ranked_pages: int) -> None:
        self.lists: dict[str, list[tuple[Any, ...]]] = {}
        self.pages = ranked_pages
        for base_no, lexeme, *entry in rows:
            self.lists.setdefault(lexeme, []).append((base_no, *entry))

    def rank(self, text: str, *, every: bool) -> list[Row]:
        """All pages that are found, best first."""
        found: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        lexemes = [term.sequences[0][0][1] for term in parse_query(text).every]
        for lexeme in lexemes:
            entries = self.lists.get(lexeme, [])
            rarity = round(256 * log(1 + self.pages / max(1, len(entries))))
            for base_no, page_id, no, field, weight in entries:
                found.setdefault((base_no, no), []).append((page_id, field, weight * rarity))
        placed = []
        for (base_no, no), hits in found.items():
            if every and len(hits) < len(lexemes):
                continue
            key = len(hits) << 50 | (15 - min(field for _, field, _ in hits)) << 44
            key |= (hits[0][0] == folded_name(text)) << 49
            placed.append((-(key + sum(weight for *_, weight in hits)), hits[0][0], base_no, no))
        return [(base_no, no, -key) for key, _, base_no, no in sorted(placed)]


def ranked_pages(chance: random.Random, ids: Iterable[int]) -> dict[str, str]:
    """Pages of words of which the first are on nearly all and the last on few."""
    weights = [1 / (n + 1) for n in range(len(WORDS))]
    made = {}
    for number in ids:
        title = " ".join(chance.choices(WORDS, k=2))
        body = " ".join(chance.choices(WORDS, weights, k=chance.randint(3, 60)))
        made[f"{WORDS[number % len(WORDS)]}{'' if number < len(WORDS) else number}"] = (
            f"---\ntitle: the {title}\n---\n{body}"
        )
    return made


async def ranked(bases: Bases, nos: list[int], text: str, **window: Any) -> list[tuple[Any, ...]]:
    """What the database says without nearness, and where nothing is near."""
    params = {"bases": nos, "name": folded_name(text), **asked(parse_query(text).every), **window}
    far = {"near": 50, "near_terms": 1, "near_query": "('absent')"}
    unordered = {"near": 0, "near_terms": 0, "near_query": ""}
    found = await bases.database.fetch_all(SQL["rank"], params | unordered)
    assert await bases.database.fetch_all(SQL["rank"], params | far) == found
    return found


async def test_a_window_is_a_part_of_the_whole_order(database_url: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    async with bases_in(database_url, tmp_path) as bases:
        first = ranked_pages(chance, range(200))
        await bases.become(first)
        await bases.become(ranked_pages(chance, range(40)), "other")
        # Some are gone, some are others; their slots are taken by new ones.
        kept = {page: text for page, text in first.items() if chance.random() < 0.7}
        await bases.become({**kept, **ranked_pages(chance, range(150, 230))})
        both = [await bases.base("kb"), await bases.base("other")]
        seen: set[tuple[bool, int]] = set()
        for size in (1, 2):
            nos = [base.no for base in both[:size]]
            rows = await bases.database.fetch_all(ENTRIES)
            whole = EveryPage(
                (row for row in rows if row[0] in nos), sum(base.pages for base in both[:size])
            )
            for turn in range(60):
                text = " ".join(chance.sample(WORDS, chance.randint(1, 12)))
                every, offset, limit = bool(turn % 2), chance.choice((0, 0, 3, 90)), turn % 7 + 1
                order = whole.rank(text, every=every)
                found = await ranked(bases, nos, text, every=every, offset=offset, limit=limit)
                assert found[0][0] == len(order), text
                window = [(base_no, no, key) for _, no, base_no, key, _ in found if no is not None]
                assert window == order[offset : offset + limit], (text, every, offset, limit)
                seen.add((every, len(window)))
        assert seen >= {(False, 7), (True, 0), (True, 1)}


def test_the_set_is_whole() -> None:
    written = [page.id for page in pages()]
    assert len(written) == len(set(written)) >= 200
    searches = judged()
    assert len({(one.group, one.query) for one in searches}) == len(searches) >= 60
    for one in searches:
        assert one.grades.keys() <= set(written), one.query
        assert one.ndcg(sorted(one.grades, key=lambda page: -one.grades[page])) == 1
        assert one.ndcg([]) == 0


async def test_the_order_is_no_worse_than_bm25s_and_better_in_chinese(
    database_url: str, tmp_path: Path
) -> None:
    async with bases_in(database_url, tmp_path) as bases:
        await bases.become({page.id: page.markdown() for page in pages()})

        async def ours(query: str) -> list[str]:
            return [hit.id for hit in (await bases.search(query, limit=DEPTH)).hits]

        figures = await measure(ours)
    us = figures[OURS]
    same_rule = [figures[name] for name, (_, _, is_any) in RIVALS.items() if not is_any]
    for them in same_rule:
        assert us["en"].ndcg >= them["en"].ndcg
        assert us["zh"].ndcg > them["zh"].ndcg + 0.2
        assert us["other"].ndcg > them["other"].ndcg
    for them in figures.values():
        assert us["en"].best_first >= them["en"].best_first
        assert us["zh"].best_first >= them["zh"].best_first
    assert f"{us['en'].ndcg:.3f} · {us['en'].best_first:.0%}" in table(figures)
