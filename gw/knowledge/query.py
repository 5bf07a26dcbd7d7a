"""Parses a search into terms and PostgreSQL's `tsquery` texts; no input is an error.

A term is a word, a phrase or a CJK run. A page must have every term; if no page has, any term is
enough, and runs are then replaced by the pairs of their characters. Linear in the query's length.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from snowballstemmer import stemmer

from gw.knowledge.pages import Page

# Splits text into searchable words, characters and emoji (contract on knowledge bases §4).
#
# Text is normalised first: NFKC, without accents; a token is case-folded as well. English endings
# are stemmed by the Snowball algorithm, whatever the language. Everything is linear in the text's
# length.

# A longer word is indexed by its prefix.
WORD_CHARACTERS_MAX = 60
# Longer words are not stemmed.
STEMMED_CHARACTERS_MAX = 40
WORDS_KEPT = 65_536

_HAN = "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff" + (
    "\U00020000-\U0003ffff"
)
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3099\u309a"
_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
CJK = _HAN + _KANA + _HANGUL
# Marks that are part of the preceding letter, in scripts that have them.
_MARKS = "".join(
    chr(code)
    for block in (range(0x300, 0x1100), range(0x1700, 0x1C00), range(0xA800, 0xAC00))
    for code in block
    if unicodedata.category(chr(code)).startswith("M")
)
_PICTURE = (
    "[\u203c\u2049\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\U0001f000-\U0001faff]"
)
_LETTER = f"(?:[^\\W{CJK}][{_MARKS}]*)"
_TOKEN = re.compile(
    f"(?P<word>{_LETTER}+(?:['.\u2019-]{_LETTER}+)*)"
    f"|(?P<run>[{CJK}]+)"
    "|(?P<emoji>[\U0001f1e6-\U0001f1ff]{2}"
    f"|{_PICTURE}[\ufe0f\U0001f3fb-\U0001f3ff]*(?:\u200d{_PICTURE}[\ufe0f\U0001f3fb-\U0001f3ff]*)*)"
)
# Line breaks between the characters of a run, ignored because these scripts have no spaces.
LINE_BREAK = re.compile(r"[^\S\n]*\n[^\S\n]*")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_SEPARATORS = re.compile(r"[._\-]+")
_CONTRACTION = re.compile(r"(?i)(.+?)'(?:s|t|re|ve|ll|d|m)")
_ACCENTS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")

_stemmer = stemmer("english")


class Group(NamedTuple):
    """A unit of text: a word with its parts, a CJK run or an emoji.

    `parts` are the lexemes of consecutive positions; `whole` has the position of the first. A run
    has its text in `run`, and no parts.
    """

    start: int  # in the normalised text
    end: int
    parts: tuple[str, ...]
    whole: str = ""
    run: str = ""
    plain: str = ""  # the word in lower case, not stemmed
    is_continued: bool = False  # continues the previous run after the end of a line


def normalise(text: str) -> str:
    """Normalise characters and remove accents; lines stay lines."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", bare)


def folded_name(text: str) -> str:
    """Return the form of a name that is equal for names equal to a reader."""
    return " ".join(normalise(text).casefold().replace("\0", "").split())


def groups(normalised: str) -> Iterator[Group]:
    """Yield the groups of normalised text, in order."""
    run_end = 0  # of the last one
    for match in _TOKEN.finditer(normalised):
        kind, text = match.lastgroup, match[0]
        start, end = match.span()
        if kind == "run":
            is_continued = LINE_BREAK.fullmatch(normalised, run_end, start) is not None
            yield Group(start, end, (), run=text, is_continued=is_continued)
            run_end = end
        elif kind == "emoji":
            lexeme = text.replace("\ufe0f", "")[:WORD_CHARACTERS_MAX]
            yield Group(start, end, (lexeme,), plain=lexeme)
        else:
            parts, whole, plain = _word(text)
            if parts:
                yield Group(start, end, parts, whole, plain=plain)


@lru_cache(WORDS_KEPT)
def _word(text: str) -> tuple[tuple[str, ...], str, str]:
    """Return the lexemes of a word's parts; those of the whole and its plain form, if different."""
    text = text.replace("\u2019", "'")
    contraction = _CONTRACTION.fullmatch(text)
    if contraction is not None and "'" not in contraction[1]:
        text = contraction[1] if text[-2:].lower() == "'s" else text.replace("'", "")
    found: list[str] = []
    for piece in _SEPARATORS.split(text.replace("'", "-")):
        found += _PARTS.findall(piece) if piece.isascii() else [piece]
    parts = tuple(lexeme for part in found if (lexeme := _lexeme(part)))
    plain = text.casefold()
    if len(parts) == 1:
        return parts, "", plain
    return parts, _lexeme(text), plain


def _lexeme(text: str) -> str:
    word = text.casefold().strip("_")
    if len(word) <= STEMMED_CHARACTERS_MAX:
        word = stem(word)
    return word[:WORD_CHARACTERS_MAX]


@lru_cache(WORDS_KEPT)
def stem(word: str) -> str:
    """Stem the English ending of a word in lower case."""
    folded: str = _stemmer.stemWord(word) if word.isascii() else word
    return folded


# Stop words of English, with and without their apostrophes.

_WORDS = """
    a about after again all also am an and any are as at be because been before being both but by
    can cannot could did do does doing done during each either else ever every few for from get gets
    had has have having he her here hers him his how i if in into is it its itself just let may me
    might more most much must my myself no nor not now of off on once only or other our ours out
    over own please same shall she should so some such than that the their theirs them then there
    these they this those through to too under until up upon us very was we were what when where
    which while who whom whose why will with without would yes yet you your yours
    dont doesnt didnt isnt arent wasnt werent cant couldnt wont wouldnt shouldnt hasnt havent hadnt
    im ive youre youve youll theyre theyve weve theres
    don't doesn't didn't isn't aren't wasn't weren't can't couldn't won't wouldn't shouldn't hasn't
    haven't hadn't i'm i've i'd i'll you're you've you'll they're they've we've we'll
"""
STOP_WORDS = frozenset(_WORDS.split())


# The fields of a page as PostgreSQL stores them: `tsvector` texts with explicit positions.
#
# A position in a vector is at most 16,383 and a vector at most a megabyte, so a long field is split
# into parts. They overlap by more positions than a query has, so that every match within the field
# is within one part.

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
class _Term:
    lexeme: str
    position: int
    start: int
    end: int


def field_parts(page: Page, base_no: int) -> list[FieldPart]:
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
    """Yield the parts of a field; the first begins and the last ends with its text."""
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
    normalised = normalise(text.replace("\0", " "))
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
    for group in groups(text):
        if group.run:
            terms[_run_term(group.run)] = False
        else:
            terms.setdefault(_word_term(group), group.plain in STOP_WORDS)


def _add_phrase(terms: dict[Term, bool], text: str) -> None:
    found = list(groups(text))
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


def _word_term(group: Group) -> Term:
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
