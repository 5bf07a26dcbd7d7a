"""The snippet of a page around the matches of a search, on one line; pure.

It is cut from a stretch of the body, of bounded length, chosen by the database. Its window is
found by the prefixes of words, which is cheap for any length of stretch and search; only the text
of the window is split into words and looked up.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache

from gw.knowledge import words
from gw.knowledge.query import Term

SNIPPET_CHARACTERS = 240
CUT = "…"
# The length of the stretch.
STRETCH_CHARACTERS_MAX = 16_000
# The numbers of terms used to find a window, and of positions of each.
STARTS_MAX = 48
POSITIONS_MAX = 8
# The best windows that are checked, because a prefix may belong to another word.
WINDOWS_MAX = 4
WINDOW_CHARACTERS = 3 * SNIPPET_CHARACTERS
# How far a cut is moved to a word's boundary.
WORD_SLACK = 20

_TOKEN = re.compile(rf"[^\W{words.CJK}]+(?:['.\u2019-][^\W{words.CJK}]+)*|[{words.CJK}]+|[^\w\s]+")
_PART = re.compile(r"[^\W_]+")
# A word of one part: no upper-case letter follows a lower-case one.
_PLAIN = re.compile(r"[^\W_](?:[^\W_A-Z]*|[A-Z]*)")
_RUN = re.compile(f"[{words.CJK}]+")
_BROKEN_RUN = re.compile(f"(?<=[{words.CJK}]){words.LINE_BREAK.pattern}(?=[{words.CJK}])")
_WORD_END = re.compile(rf"[^\w]|[{words.CJK}]")

Span = tuple[int, int]


class _Folds(dict[int, str]):
    """Maps each character to one in lower case without accent."""

    def __missing__(self, code: int) -> str:
        folded = words.normalise(chr(code)).casefold()
        self[code] = folded if len(folded) == 1 else chr(code).lower()[:1]
        return self[code]


_FOLDS = _Folds()


class Finder:
    """Finds the terms of one search in texts."""

    def __init__(self, terms: Sequence[Term]) -> None:
        shown = dict.fromkeys(one for term in terms for one in term.shown)
        self._runs = [one for one in shown if _RUN.fullmatch(one)]
        self._lexemes = frozenset(shown) - frozenset(self._runs)
        # Stemming may have changed the ending: happi, happy.
        starts = (
            one[:-1] if len(one) > 3 and one[-1] in "aeiy" and one.isascii() else one
            for one in shown
        )
        self._starts = tuple(dict.fromkeys(starts))

    def window(self, text: str) -> tuple[int, list[Span]] | None:
        """Return the start of the window with the most terms, and their spans; None without any."""
        positions = sorted(self._positions(text))
        ats = [at for at, _ in positions]
        scored = []
        for first, (at, _) in enumerate(positions):
            last = bisect_left(ats, at + SNIPPET_CHARACTERS - 40)
            kinds = len({which for _, which in positions[first:last]})
            scored.append((-kinds, first - last, at))
        for _, _, at in sorted(scored)[:WINDOWS_MAX]:
            start = max(0, at - SNIPPET_CHARACTERS)
            if spans := self.spans(text[start : start + WINDOW_CHARACTERS]):
                return start, spans
        return None

    def spans(self, text: str) -> list[Span]:
        """Return the spans of the terms, in order, without overlaps."""
        found: list[Span] = []
        for start, end in self._each(text):
            if found and start < found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            elif found and start == found[-1][1] and _RUN.match(text, start):
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
        return found

    def _positions(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the starts of words that have a term as prefix, with the term's index."""
        folded = text.lower() if text.isascii() else text.translate(_FOLDS)
        for which, start in enumerate(self._starts[:STARTS_MAX]):
            at = folded.find(start)
            for _ in range(POSITIONS_MAX):
                if at < 0:
                    break
                is_inner = at > 0 and folded[at - 1].isalnum() and not _RUN.match(folded, at - 1)
                if not is_inner or text[at].isupper() or _RUN.match(start):
                    yield at, which
                at = folded.find(start, at + len(start))

    def _each(self, text: str) -> Iterator[Span]:
        for match in _TOKEN.finditer(text):
            start, token = match.start(), match[0]
            if _RUN.match(token):
                folded = token.translate(_FOLDS)
                yield from sorted(
                    (start + at, start + at + len(run))
                    for run in self._runs
                    for at in _occurrences(folded, run)
                )
            elif not self._may_be_meant(token) or self._lexemes.isdisjoint(_lexemes(token)):
                continue
            else:
                parts = [
                    (start + part.start(), start + part.end())
                    for part in _PART.finditer(token)
                    if not self._lexemes.isdisjoint(_lexemes(part[0]))
                ]
                is_whole = _lexemes(token)[0] in self._lexemes
                yield from [match.span()] if is_whole or not parts else parts

    def _may_be_meant(self, token: str) -> bool:
        """Whether a word may match: it has a prefix or parts. Stemming every word is expensive."""
        return token.translate(_FOLDS).startswith(self._starts) or not _PLAIN.fullmatch(token)


def _occurrences(text: str, run: str) -> Iterator[int]:
    at = text.find(run)
    while at >= 0:
        yield at
        at = text.find(run, at + 1)


@lru_cache(words.WORDS_KEPT)
def _lexemes(token: str) -> tuple[str, ...]:
    """Return the lexemes of a word (the whole first), or of a row of signs."""
    found = [
        lexeme
        for group in words.groups(words.normalise(token))
        for lexeme in (group.whole or group.parts[0], *group.parts)
        if not group.run
    ]
    return tuple(found) or ("",)


def snippet(stretch: str, finder: Finder, *, is_beginning: bool, is_end: bool) -> str | None:
    """Mark and cut a stretch of text around its best matches; None without a match."""
    text = _one_line(stretch)
    window = finder.window(text)
    if window is None:
        return None
    start, spans = window
    part = text[start : start + WINDOW_CHARACTERS]
    is_beginning, is_end = is_beginning and start == 0, is_end and start + len(part) == len(text)
    return _cut(part, spans, is_beginning=is_beginning, is_end=is_end)


def plain_snippet(beginning: str, *, is_end: bool) -> str:
    """Return the beginning of a text without matches, on one line."""
    return _cut(_one_line(beginning), [], is_beginning=True, is_end=is_end)


def _one_line(text: str) -> str:
    """Join lines by a space, but without one inside a CJK run."""
    return " ".join(_BROKEN_RUN.sub("", text).split())


def _cut(text: str, spans: list[Span], *, is_beginning: bool, is_end: bool) -> str:
    start = _best_start(text, spans) if spans else 0
    end = min(len(text), start + SNIPPET_CHARACTERS)
    start, end = _at_words(text, start, end, spans)
    cut_before = start > 0 or not is_beginning
    cut_after = end < len(text) or not is_end
    # The marks of the cuts are counted.
    room = SNIPPET_CHARACTERS - cut_before - cut_after
    end = min(end, start + room)
    cut_after = cut_after or end < len(text)
    body = _marked(text, start, end, spans).strip()
    return (CUT if cut_before else "") + body + (CUT if cut_after else "")


def _best_start(text: str, spans: list[Span]) -> int:
    """Return the start of the first window with the most distinct, then the most matches."""
    starts = [start for start, _ in spans]
    best, best_key = 0, (-1, -1)
    for at, (start, _) in enumerate(spans):
        last = bisect_left(starts, start + SNIPPET_CHARACTERS - 40)
        kinds = {text[a:b].casefold() for a, b in spans[at : min(last, at + 20)]}
        key = (len(kinds), last - at)
        if key > best_key:
            best, best_key = start, key
    lead = max(0, best - 40)
    return max(0, min(lead, len(text) - SNIPPET_CHARACTERS))


def _at_words(text: str, start: int, end: int, spans: list[Span]) -> Span:
    """Move the ends of a window to the nearest boundaries of words."""
    if start > 0:
        match = _WORD_END.search(text, start, min(start + WORD_SLACK, end))
        first = min((a for a, _ in spans if a >= start), default=end)
        if match is not None and match.start() < first:
            start = match.start()
    if end < len(text):
        for at in range(end, max(start, end - WORD_SLACK), -1):
            if _WORD_END.match(text, at):
                return start, at
    return start, end


def _marked(text: str, start: int, end: int, spans: list[Span]) -> str:
    pieces, at = [], start
    for a, b in spans:
        if a < start or b > end:
            continue
        pieces += [text[at:a], "**", text[a:b], "**"]
        at = b
    return "".join([*pieces, text[at:end]])
