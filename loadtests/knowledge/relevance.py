"""How good the order of a search is, beside FTS5's bm25 over the same pages in the same run.

Writes `loadtests/relevance.md`. Bounds are asserted in
tests/integration/knowledge.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.knowledge.base import empty_bases
from loadtests.knowledge.fts5 import EVEN_WEIGHTS, FIELD_WEIGHTS, PORTER, TRIGRAM, fts5
from loadtests.knowledge.judgements import DEPTH, Judged, judged, pages

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
        "`python -m loadtests.knowledge relevance`.",
        "",
        "FTS5 is asked by the gateway's own rule: pages with every word (stop words out), else",
        "with any. Asked for any word at once, it goes on with pages that lack some, which a sum",
        "to the tenth page rewards and the gateway's rule leaves out.",
        "",
        f"| | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
    ]
    for name, groups in figures.items():
        cells = [f"{one.ndcg:.3f} · {one.best_first:.0%}" for one in groups.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


async def run(options: Namespace) -> None:
    """Import the set, search it and write the page."""
    async with empty_bases() as bases:
        bases.write(KB, ((page.id, page.markdown()) for page in pages()))
        await bases.become(KB)

        async def ours(query: str) -> list[str]:
            return [hit.id for hit in (await bases.search(KB, query, limit=DEPTH)).hits]

        text = table(await measure(ours))
    options.write.write_text(text, encoding="utf-8")
    print(text)


def add_options(parser: ArgumentParser) -> None:
    parser.set_defaults(run=run)
    parser.add_argument("--write", type=Path, default=TABLE, help="the page of results")


def _quality(searches: Sequence[Judged], results: Sequence[list[str]], group: str) -> Quality:
    pairs = [
        (one, found) for one, found in zip(searches, results, strict=True) if one.group == group
    ]
    return Quality(
        len(pairs),
        sum(one.ndcg(found) for one, found in pairs) / len(pairs),
        sum(one.is_best_first(found) for one, found in pairs) / len(pairs),
    )
