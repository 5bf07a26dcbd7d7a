"""Splits text into searchable words, characters and emoji (reference 8.4).

Text is normalised first: NFKC, without accents; a token is case-folded as well. English endings
are stemmed by the Snowball algorithm, whatever the language. Everything is linear in the text's
length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from snowballstemmer import stemmer

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


class WordGroup(NamedTuple):
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


def groups(normalised: str) -> Iterator[WordGroup]:
    """Yield the groups of normalised text, in order."""
    run_end = 0  # of the last one
    for match in _TOKEN.finditer(normalised):
        kind, text = match.lastgroup, match[0]
        start, end = match.span()
        if kind == "run":
            is_continued = LINE_BREAK.fullmatch(normalised, run_end, start) is not None
            yield WordGroup(start, end, (), run=text, is_continued=is_continued)
            run_end = end
        elif kind == "emoji":
            lexeme = text.replace("\ufe0f", "")[:WORD_CHARACTERS_MAX]
            yield WordGroup(start, end, (lexeme,), plain=lexeme)
        else:
            parts, whole, plain = _word(text)
            if parts:
                yield WordGroup(start, end, parts, whole, plain=plain)


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
