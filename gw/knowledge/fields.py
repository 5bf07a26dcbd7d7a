"""The fields of a page as PostgreSQL stores them: `tsvector` texts with explicit positions.

A position in a vector is at most 16,383 and a vector at most a megabyte, so a long field is split
into parts. They overlap by more positions than a query has, so that every match within the field
is within one part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gw.knowledge.pages import KnowledgePage
from gw.knowledge.words import groups, normalise

TITLE, ALIAS, TAG, SUMMARY, BODY = range(5)
PART_POSITIONS = 2000
# A query has at most 500 characters, each at most one position.
OVERLAP_POSITIONS = 500
# PostgreSQL stores at most this many positions of a lexeme.
LEXEME_POSITIONS_MAX = 255
# Between two values of a list, so that no phrase matches across them.
VALUE_GAP = 10


@dataclass(frozen=True, slots=True)
class FieldPart:
    """A row of terms: the text of a `tsvector`, and its range in the field."""

    field: int
    part: int
    starts: int
    ends: int
    terms: str


@dataclass(frozen=True, slots=True)
class FieldTerm:
    lexeme: str
    position: int
    start: int
    end: int


def field_parts(page: KnowledgePage, base_no: int) -> list[FieldPart]:
    """Return the rows of terms of a page; none for a field without terms."""
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
    """Return the prefix of a base's lexemes."""
    return f"{base_no}:"


def quoted(lexeme: str) -> str:
    """Return a lexeme in the syntax of `tsvector` and `tsquery`."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def _terms(values: Iterable[str]) -> Iterator[FieldTerm]:
    position = 1
    for value in values:
        normalised = normalise(value)
        offset_of = _Offsets(value, normalised)
        last: FieldTerm | None = None  # the last character of a run
        for group in groups(normalised):
            start, end = offset_of(group.start), offset_of(group.end)
            if group.whole:
                yield FieldTerm(group.whole, position, start, end)
            for lexeme in group.parts:
                yield FieldTerm(lexeme, position, start, end)
                position += 1
            run = group.run
            if group.is_continued and last is not None:
                yield FieldTerm(last.lexeme + run[0], position - 1, last.start, start + 1)
            for at, character in enumerate(run):
                start = offset_of(group.start + at)
                yield (last := FieldTerm(character, position, start, start + 1))
                if at + 1 < len(run):
                    yield FieldTerm(run[at : at + 2], position, start, start + 2)
                position += 1
        position += VALUE_GAP


def _parts(field: int, terms: Iterable[FieldTerm], prefix: str, length: int) -> Iterator[FieldPart]:
    """Yield the parts of a field; the first begins and the last ends with its text."""
    number = 0
    current: list[FieldTerm] = []
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
    field: int, number: int, starts: int, ends: int, terms: list[FieldTerm], prefix: str
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
    """Maps offsets of the normalised text to the original.

    Approximately in lines whose length was changed by normalising.
    """

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
