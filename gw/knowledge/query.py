"""Parses a search into terms and PostgreSQL's `tsquery` texts; no input is an error.

A term is a word, a phrase or a CJK run. A page must have every term; if no page has, any term is
enough, and runs are then replaced by the pairs of their characters. Linear in the query's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gw.knowledge import words
from gw.knowledge.fields import quoted

_QUOTED = re.compile('["\u201c\u201d]([^"\u201c\u201d]*)["\u201c\u201d]')
# The number of terms whose proximity is ranked.
NEAR_TERMS_MAX = 8

# Lexemes, each with its distance from the previous one.
Sequence_ = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Term:
    """One search term: any of some sequences of lexemes.

    `shown` are the parts visible to a reader: lexemes of words, and runs.
    """

    sequences: tuple[Sequence_, ...]
    shown: tuple[str, ...] = ()
    run: str = ""

    @property
    def is_lexeme(self) -> bool:
        """Whether it consists of a single lexeme."""
        return len(self.sequences) == 1 and len(self.sequences[0]) == 1

    def tsquery(self, prefix: str) -> str:
        """Return the condition on a row of terms of the base with this prefix."""
        alternatives = (_sequence(sequence, prefix) for sequence in self.sequences)
        return f"({' | '.join(alternatives)})"

    def any_lexeme(self, prefix: str) -> str:
        """Return the condition that one of its lexemes is present."""
        lexemes = dict.fromkeys(lexeme for sequence in self.sequences for _, lexeme in sequence)
        return " | ".join(quoted(prefix + lexeme) for lexeme in lexemes)


@dataclass(frozen=True, slots=True)
class Query:
    """The terms of which all are required, and those of which any is enough."""

    every: tuple[Term, ...]
    any: tuple[Term, ...]


def parse_query(text: str) -> Query:
    """Parse a search. Without any term both tuples are empty."""
    normalised = words.normalise(text.replace("\0", " "))
    terms: dict[Term, bool] = {}  # whether it is only a stop word
    position = 0
    for match in _QUOTED.finditer(normalised):
        _add_plain(terms, normalised[position : match.start()])
        _add_phrase(terms, match[1])
        position = match.end()
    _add_plain(terms, normalised[position:])
    wanted = tuple(term for term, is_stop in terms.items() if not is_stop) or tuple(terms)
    any_of = dict.fromkeys(pair for term in wanted for pair in _pairs(term))
    return Query(wanted, tuple(any_of))


def near_tsquery(terms: Iterable[Term], prefix: str) -> str:
    """Return the condition that one row has all terms; empty for a single term."""
    few = list(terms)[:NEAR_TERMS_MAX]
    return " & ".join(term.tsquery(prefix) for term in few) if len(few) > 1 else ""


def _add_plain(terms: dict[Term, bool], text: str) -> None:
    for group in words.groups(text):
        if group.run:
            terms[_run_term(group.run)] = False
        else:
            terms.setdefault(_word_term(group), group.plain in words.STOP_WORDS)


def _add_phrase(terms: dict[Term, bool], text: str) -> None:
    found = list(words.groups(text))
    if len(found) == 1:
        _add_plain(terms, text)
        return
    sequence: list[tuple[int, str]] = []
    shown: list[str] = []
    position = last = 0
    for group in found:
        lexemes = _run_lexemes(group.run) if group.run else list(enumerate(group.parts))
        for offset, lexeme in lexemes:
            sequence.append((position + offset - last, lexeme))
            last = position + offset
        position += len(group.run) or len(group.parts)
        shown += [group.run] if group.run else group.parts
    if sequence:
        terms[Term((tuple(sequence),), tuple(shown))] = False


def _word_term(group: words.WordGroup) -> Term:
    parts = tuple((min(at, 1), lexeme) for at, lexeme in enumerate(group.parts))
    if not group.whole:
        return Term((parts,), group.parts)
    return Term((((0, group.whole),), parts), (group.whole, *group.parts))


def _run_term(run: str) -> Term:
    sequence, last = [], 0
    for offset, lexeme in _run_lexemes(run):
        sequence.append((offset - last, lexeme))
        last = offset
    return Term((tuple(sequence),), (run,), run)


def _run_lexemes(run: str) -> list[tuple[int, str]]:
    """Return the fewest pairs that cover a run, with their positions; or its only character."""
    if len(run) == 1:
        return [(0, run)]
    offsets = [*range(0, len(run) - 1, 2)]
    if len(run) % 2:
        offsets.append(len(run) - 2)
    return [(at, run[at : at + 2]) for at in offsets]


def _pairs(term: Term) -> Iterator[Term]:
    if len(term.run) <= 2:
        yield term
        return
    for at in range(len(term.run) - 1):
        yield _run_term(term.run[at : at + 2])


def _sequence(sequence: Sequence_, prefix: str) -> str:
    (_, first), *others = sequence
    return quoted(prefix + first) + "".join(
        f" <{distance}> {quoted(prefix + lexeme)}" for distance, lexeme in others
    )
