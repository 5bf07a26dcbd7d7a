"""Searches bases: matches and their order.

The order (reference 8.4): number of terms, a name equal to the search, the best field, then
frequency, proximity and rarity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from actors.store.session import Statements
from gw.knowledge.bases import SQL, Base
from gw.knowledge.fields import lexeme_prefix
from gw.knowledge.query import NEAR_TERMS_MAX, Term, near_tsquery, parse_query
from gw.knowledge.snippet import STRETCH_CHARACTERS_MAX, Finder, plain_snippet, snippet
from gw.knowledge.words import folded_name

# The number of best pages whose order includes the proximity of terms.
NEAR_PAGES = 50
# Pages weighed for a search, each once per term that it has; above this the most frequent terms are
# ignored.
WEIGHED_PAGES_MAX = 100_000
# The cost of a phrase, which reads the terms of a page, relative to that of a word.
PHRASE_COST = 8
# Placeholder of a base's prefix in conditions for several bases; no lexeme contains it.
PREFIX_MARK = "\x01"
# The bits of the database's rank of a page (see kb_rank), and the parts of a score.
_FOUND_BIT, _EQUAL_BIT, _FIELD_BIT = 50, 49, 44
_TERM, _EQUAL, _FIELD, _FRACTION = 1000.0, 500.0, 20.0, 19.0
# Half of the maximum of the fraction.
_HALF_WEIGHT = float(4096 * 256 * 5)
# The characters read of a body without matches.
BEGINNING_CHARACTERS = 1000

Match = Literal["all", "any", "none"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A page in the result."""

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
class SearchResult:
    """The hits of one window, and their total; `match` is whether they have all terms or any."""

    total: int
    hits: list[Hit]
    match: Match


@dataclass(frozen=True, slots=True)
class Ranked:
    """A page's rank, without its text."""

    page_no: int
    base_no: int
    score: float


async def search(
    store: Statements, bases: Sequence[Base], text: str, *, offset: int, limit: int
) -> SearchResult:
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
    return SearchResult(total, hits, match if total else "none")


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
    """Return the number of pages with all (or any) terms, and those of one window, best first."""
    bases = [base for base in bases if base.no and base.pages]
    if not bases or not terms:
        return 0, []
    params = {
        "bases": [base.no for base in bases],
        "name": folded_name(text),
        "every": every,
        **asked(terms),
        "offset": offset,
        "limit": limit,
    }
    rows = await store.fetch_all(SQL["rank"], params)
    return rows[0][0], [_ranked(*row[1:]) for row in rows if row[1] is not None]


def asked(terms: Sequence[Term]) -> dict[str, Any]:
    """Return the terms as parameters of `kb_rank`, independent of the bases."""
    numbers, alternatives, lexemes = [], [], []
    for n, term in enumerate(terms):
        for alternative, sequence in enumerate(term.sequences):
            numbers += [n] * len(sequence)
            alternatives += [alternative] * len(sequence)
            lexemes += [lexeme for _, lexeme in sequence]
    phrases = [(n, term) for n, term in enumerate(terms) if not term.is_lexeme]
    near = near_tsquery(terms, PREFIX_MARK)
    return {
        "numbers": numbers,
        "alternatives": alternatives,
        "lexemes": lexemes,
        "costs": [1 if term.is_lexeme else PHRASE_COST for term in terms],
        "phrase_numbers": [n for n, _ in phrases],
        "phrases": [term.tsquery(PREFIX_MARK) for _, term in phrases],
        "phrase_lexemes": [term.any_lexeme(PREFIX_MARK) for _, term in phrases],
        "near": NEAR_PAGES if near else 0,
        "near_terms": min(len(terms), NEAR_TERMS_MAX) if near else 0,
        "near_query": near,
        "mark": PREFIX_MARK,
        "budget": WEIGHED_PAGES_MAX,
    }


def _ranked(page_no: int, base_no: int, key: int, nearness: float) -> Ranked:
    weight = (key & (1 << _FIELD_BIT) - 1) * (1 + nearness / (1 + nearness))
    score = (
        (key >> _FOUND_BIT) * _TERM
        + (key >> _EQUAL_BIT & 1) * _EQUAL
        + (key >> _FIELD_BIT & 15) * _FIELD
        + weight / (weight + _HALF_WEIGHT) * _FRACTION
    )
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
    hits = []
    for one in ranked:
        hits.append(_hit(by_no[one.base_no], one.score, finder, *rows[one.page_no]))
        await asyncio.sleep(0)  # let other tasks run
    return hits


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
    ends = starts + len(stretch)
    text = (
        snippet(stretch, finder, is_beginning=starts == 0, is_end=ends >= characters)
        or snippet(summary, finder, is_beginning=True, is_end=True)
        or plain_snippet(beginning, is_end=len(beginning) >= characters)
    )
    return Hit(base, page_id, title, summary, text, tags, confidence, needs_review, score)


class HitEntry(TypedDict):
    """A page that was found."""

    id: Annotated[str, Meta(description="The page's id.")]
    title: Annotated[str, Meta(description="The page's title.")]
    summary: Annotated[str, Meta(description="What the page is about.")]
    snippet: Annotated[str, Meta(description="Text around the best match, found words in `**`.")]
    tags: Annotated[list[str], Meta(description="Its tags.")]
    confidence: Annotated[str, Meta(description="How sure it is, in its author's words.")]
    needs_review: Annotated[bool, Meta(description="Whether somebody is to look at it.")]
    score: Annotated[float, Meta(description="How well it fits; it only falls along the list.")]


class FoundPages(TypedDict):
    """A part of the pages that were found."""

    query: Annotated[str, Meta(description="The words, as they were sent.")]
    total_hits: Annotated[int, Meta(description="The number of pages that match.")]
    offset: Annotated[int, Meta(description="How many better ones are left out.")]
    returned: Annotated[int, Meta(description="The number of `results`.")]
    has_more: Annotated[bool, Meta(description="Whether more follow.")]
    results: Annotated[list[HitEntry], Meta(description="The pages, best first.")]


def found_body(text: str, offset: int, found: SearchResult) -> FoundPages:
    """Return the body of one window of results."""
    return {
        "query": text,
        "total_hits": found.total,
        "offset": offset,
        "returned": len(found.hits),
        "has_more": offset + len(found.hits) < found.total and bool(found.hits),
        "results": [hit_entry(hit) for hit in found.hits],
    }


def hit_entry(hit: Hit) -> HitEntry:
    """Return a hit as JSON values."""
    return {
        "id": hit.id,
        "title": hit.title,
        "summary": hit.summary,
        "snippet": hit.snippet,
        "tags": hit.tags,
        "confidence": hit.confidence,
        "needs_review": hit.needs_review,
        "score": hit.score,
    }
