"""The fields of a page as PostgreSQL keeps them: `tsvector` texts with positions of our own.

A position in a vector is at most 16,383 and a vector at most a megabyte, so a long field is cut
into parts. They overlap by more positions than a query has, so that whatever stands together in
the field stands together in one part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gw.knowledge.pages import Page
from gw.knowledge.tokens import groups, normalise

TITLE, ALIAS, TAG, SUMMARY, BODY = range(5)
PART_POSITIONS = 2000
# A query has at most 500 characters, and each is at most one position.
OVERLAP_POSITIONS = 500
# PostgreSQL keeps so many of a lexeme's positions.
LEXEME_POSITIONS_MAX = 255
# Between two values of a list: neighbours in different ones are no neighbours.
VALUE_GAP = 10


@dataclass(frozen=True, slots=True)
class FieldPart:
    """A row of terms: the text of a `tsvector`, and where in the field it stands."""

    field: int
    part: int
    starts: int
    ends: int
    terms: str


@dataclass(frozen=True, slots=True)
class _Term:
    lexeme: str
    position: int
    start: int
    end: int


def field_parts(page: Page, base_no: int) -> list[FieldPart]:
    """Every row of terms of a page; a field without terms has none."""
    fields: tuple[tuple[int, tuple[str, ...]], ...] = (
        (TITLE, (page.title,)),
        (ALIAS, (page.id, *page.aliases)),
        (TAG, page.tags),
        (SUMMARY, (page.summary,)),
        (BODY, (page.body,)),
    )
    return [
        part
        for field, values in fields
        for part in _parts(field, _terms(values), lexeme_prefix(base_no), len("".join(values)))
    ]


def lexeme_prefix(base_no: int) -> str:
    """What the lexemes of a base begin with."""
    return f"{base_no}:"


def quoted(lexeme: str) -> str:
    """A lexeme as the texts of `tsvector` and `tsquery` have it."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def _terms(values: Iterable[str]) -> Iterator[_Term]:
    position = 1
    for value in values:
        normalised = normalise(value)
        offset_of = _Offsets(value, normalised)
        last: _Term | None = None  # the last character of a run
        for group in groups(normalised):
            start, end = offset_of(group.start), offset_of(group.end)
            if group.whole:
                yield _Term(group.whole, position, start, end)
            for lexeme in group.parts:
                yield _Term(lexeme, position, start, end)
                position += 1
            run = group.run
            if group.is_continued and last is not None:
                yield _Term(last.lexeme + run[0], position - 1, last.start, start + 1)
            for at, character in enumerate(run):
                start = offset_of(group.start + at)
                yield (last := _Term(character, position, start, start + 1))
                if at + 1 < len(run):
                    yield _Term(run[at : at + 2], position, start, start + 2)
                position += 1
        position += VALUE_GAP


def _parts(field: int, terms: Iterable[_Term], prefix: str, length: int) -> Iterator[FieldPart]:
    """The parts of a field; the first begins and the last ends where its text does."""
    number = 0
    current: list[_Term] = []
    for term in terms:
        if current and term.position - current[0].position >= PART_POSITIONS:
            starts = current[0].start if number else 0
            yield _part(field, number, starts, current[-1].end, current, prefix)
            number += 1
            least = term.position - OVERLAP_POSITIONS
            current = [one for one in current if one.position >= least]
        current.append(term)
    if current:
        starts = current[0].start if number else 0
        yield _part(field, number, starts, length, current, prefix)


def _part(
    field: int, number: int, starts: int, ends: int, terms: list[_Term], prefix: str
) -> FieldPart:
    first = terms[0].position - 1
    positions: dict[str, list[str]] = {}
    for term in terms:
        found = positions.setdefault(term.lexeme, [])
        if len(found) < LEXEME_POSITIONS_MAX:
            found.append(str(term.position - first))
    text = " ".join(
        f"{quoted(prefix + lexeme)}:{','.join(found)}" for lexeme, found in positions.items()
    )
    return FieldPart(field, number, starts, ends, text)


class _Offsets:
    """Maps an offset of the normalised text to that of the text as written; to one near it in lines
    whose length the normalising has changed."""

    def __init__(self, text: str, normalised: str) -> None:
        self._is_same = len(text) == len(normalised)
        if not self._is_same:
            self._before, self._after = _line_starts(normalised), _line_starts(text)

    def __call__(self, at: int) -> int:
        if self._is_same:
            return at
        line = bisect_right(self._before, at) - 1
        offset = self._after[line] + at - self._before[line]
        return min(offset, self._after[line + 1]) if line + 1 < len(self._after) else offset


def _line_starts(text: str) -> list[int]:
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts
