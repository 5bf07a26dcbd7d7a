"""The order of searches, judged by hand, beside bm25's (loadtests/knowledge/relevance)."""

from __future__ import annotations

from pathlib import Path

from loadtests.knowledge.relevance import DEPTH, OURS, RIVALS, judged, measure, pages, table
from tests.integration.knowledge.importing import bases_in


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
