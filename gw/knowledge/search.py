"""Searches bases: what is found, in which order, and the line of text that shows why.

The order is the contract's (§4): terms found, a name that equals the search, the best field, then
how often, how near and how rare.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from actors.store.session import Statements
from gw.knowledge.bases import SQL, Base
from gw.knowledge.query import NEAR_TERMS_MAX, Term, near_tsquery, parse_query
from gw.knowledge.snippet import STRETCH_CHARACTERS_MAX, Finder, plain_snippet, snippet
from gw.knowledge.tokens import folded_name
from gw.knowledge.vectors import lexeme_prefix

# So many of the best are ordered by how near their terms stand.
NEAR_PAGES = 50
# So many pages are weighed for a search, each once for every term that it has; where terms have
# more, the commonest are left out.
WEIGHED_PAGES_MAX = 100_000
# To find a phrase the terms of a page are read: so much dearer than to know a word is in it.
PHRASE_COST = 8
# Stands for a base's prefix in what is asked of several; no lexeme has it.
PREFIX_MARK = "\x01"
# How the database's number for a page's place is cut (see kb_rank), and what a score is made of.
_FOUND_BIT, _EQUAL_BIT, _FIELD_BIT = 50, 49, 44
_TERM, _EQUAL, _FIELD, _FRACTION = 1000.0, 500.0, 20.0, 19.0
# Half of what a fraction can be.
_HALF_WEIGHT = float(4096 * 256 * 5)
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
    """The terms as `kb_rank` takes them, whatever bases they are looked for in."""
    lexemes = [
        (n, alternative, lexeme)
        for n, term in enumerate(terms)
        for alternative, sequence in enumerate(term.sequences)
        for _, lexeme in sequence
    ]
    phrases = [(n, term) for n, term in enumerate(terms) if not term.is_lexeme]
    near = near_tsquery(terms, PREFIX_MARK)
    return {
        "numbers": [row[0] for row in lexemes],
        "alternatives": [row[1] for row in lexemes],
        "lexemes": [row[2] for row in lexemes],
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
        await asyncio.sleep(0)  # whoever else has waited meanwhile
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
