"""Searches bases: what is found, in which order, and the line of text that shows why.

The order is the contract's (§4): terms found, a name that equals the search, the best field, then
how often, how near and how rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from actors.store.session import Statements
from gw.knowledge.bases import SQL, Base
from gw.knowledge.query import Query, Term, near_tsquery, parse_query
from gw.knowledge.snippet import STRETCH_CHARACTERS_MAX, Finder, snippet
from gw.knowledge.tokens import folded_name
from gw.knowledge.vectors import BODY, lexeme_prefix

# Of a hit in title, aliases, tags, summary and body.
FIELD_WEIGHTS = (8.0, 6.0, 4.0, 3.0, 1.0)
# So many of the best are ordered by how near their terms stand.
NEAR_PAGES = 100
# What a score is made of, so that the order of pages is the order of scores.
_TERM, _EQUAL, _FIELD, _FRACTION = 1000.0, 500.0, 100.0, 90.0
# Of a body of which nothing was found: no more is needed for its beginning.
BEGINNING_CHARACTERS = 1000

Match = Literal["all", "any", "none"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found."""

    base: Base
    id: str
    title: str
    summary: str
    snippet: str
    tags: list[str]
    confidence: str
    needs_review: bool
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of one window, and how many there are in all; `match` is which terms they have."""

    total: int
    hits: list[Hit]
    match: Match


@dataclass(frozen=True, slots=True)
class Ranked:
    """A page's place in the order, without its text."""

    page_no: int
    base_no: int
    score: float


async def search(
    store: Statements, bases: Sequence[Base], text: str, *, offset: int, limit: int
) -> Found:
    """Find the pages of some bases. Raises StoreUnavailable."""
    query = parse_query(text)
    match: Match = "all"
    terms = query.every
    total, ranked = await rank(store, bases, text, terms, every=True, offset=offset, limit=limit)
    if not total:
        match, terms = "any", query.any
        if len(terms) > 1 or terms != query.every:
            total, ranked = await rank(
                store, bases, text, terms, every=False, offset=offset, limit=limit
            )
    hits = await _hits(store, bases, terms, ranked)
    return Found(total, hits, match if total else "none")


async def search_any(
    store: Statements, bases: Sequence[Base], text: str, *, limit: int
) -> list[Ranked]:
    """Find the best pages that have any term of a text, CJK by pairs. Raises StoreUnavailable."""
    query: Query = parse_query(text)
    _, ranked = await rank(store, bases, text, query.any, every=False, offset=0, limit=limit)
    return ranked


async def rank(
    store: Statements,
    bases: Sequence[Base],
    text: str,
    terms: Sequence[Term],
    *,
    every: bool,
    offset: int,
    limit: int,
) -> tuple[int, list[Ranked]]:
    """How many pages have all (or any) of the terms, and those of one window, best first."""
    bases = [base for base in bases if base.no and base.pages]
    if not bases or not terms:
        return 0, []
    asked = [
        (term.tsquery(lexeme_prefix(base.no)), n) for n, term in enumerate(terms) for base in bases
    ]
    near = [near_tsquery(terms, base.no) for base in bases]
    has_neighbours = bool(near[0])
    params: dict[str, Any] = {
        "queries": [query for query, _ in asked],
        "numbers": [n for _, n in asked],
        "bases": [base.no for base in bases],
        "near_queries": near if has_neighbours else [],
        "near": NEAR_PAGES if has_neighbours else 0,
        "weights": list(FIELD_WEIGHTS),
        "pages": sum(base.pages for base in bases),
        "name": folded_name(text),
        "need": len(terms) if every else 1,
        "offset": offset,
        "limit": limit,
    }
    rows = await store.fetch_all(SQL["rank"], params)
    return rows[0][0], [_ranked(*row[1:]) for row in rows if row[1] is not None]


def _ranked(
    page_no: int, base_no: int, found: int, is_equal: bool, field: int, weight: float
) -> Ranked:
    fraction = weight / (weight + 10.0)
    score = found * _TERM + is_equal * _EQUAL + (BODY - field) * _FIELD + _FRACTION * fraction
    return Ranked(page_no, base_no, round(score, 4))


async def _hits(
    store: Statements, bases: Sequence[Base], terms: Sequence[Term], ranked: Sequence[Ranked]
) -> list[Hit]:
    if not ranked:
        return []
    by_no = {base.no: base for base in bases}
    any_queries = [
        " | ".join(term.tsquery(lexeme_prefix(base.no)) for term in terms) for base in bases
    ]
    params = {
        "nos": [one.page_no for one in ranked],
        "bases": [base.no for base in bases],
        "any_queries": any_queries,
        "characters": STRETCH_CHARACTERS_MAX,
        "beginning": BEGINNING_CHARACTERS,
    }
    rows = {row[0]: row[1:] for row in await store.fetch_all(SQL["hits"], params)}
    finder = Finder(terms)
    return [_hit(by_no[one.base_no], one.score, finder, *rows[one.page_no]) for one in ranked]


def _hit(
    base: Base,
    score: float,
    finder: Finder,
    page_id: str,
    title: str,
    summary: str,
    tags: list[str],
    confidence: str,
    needs_review: bool,
    starts: int,
    stretch: str,
    beginning: str,
    characters: int,
) -> Hit:
    if finder.spans(stretch):
        ends = starts + len(stretch)
        text = snippet(stretch, finder, is_beginning=starts == 0, is_end=ends >= characters)
    elif finder.spans(summary):
        text = snippet(summary, finder, is_beginning=True, is_end=True)
    else:
        is_end = len(beginning) >= characters
        text = snippet(beginning, finder, is_beginning=True, is_end=is_end)
    return Hit(base, page_id, title, summary, text, tags, confidence, needs_review, score)
