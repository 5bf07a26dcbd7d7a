"""The text of a page around what a search has found in it, on one line; pure.

Looks at a stretch of the body of bounded length, chosen by the database. Characters are folded one
by one, so that a place in the folded text is the same place in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from gw.knowledge.query import Term
from gw.knowledge.tokens import CJK, groups, normalise

SNIPPET_CHARACTERS = 240
CUT = "…"
# So much of a body is looked at.
STRETCH_CHARACTERS_MAX = 16_000
# Spans beyond these change nothing about which part is best.
SPANS_MAX = 200
_SPACE = re.compile(r"\s+")
_WORD_END = re.compile(rf"[^\w]|[{CJK}]")
# How far a cut moves so as not to go through a word.
WORD_SLACK = 20

Span = tuple[int, int]


class _Folds(dict[int, str]):
    """One character, small and without accent, for each one."""

    def __missing__(self, code: int) -> str:
        folded = normalise(chr(code)).casefold()
        self[code] = folded if len(folded) == 1 else chr(code).lower()[:1]
        return self[code]


_FOLDS = _Folds()


class Finder:
    """Finds the terms of one search in texts."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self._stems: set[str] = set()
        literals: dict[str, None] = {}
        for term in terms:
            for shown in term.shown:
                if re.fullmatch(f"[{CJK}]+", shown):
                    literals[re.escape(shown)] = None
                elif re.match(r"\w", shown):
                    self._stems.add(shown)
                    # A folded ending may have been spelled otherwise: happi, happy.
                    start = shown[:-1] if len(shown) > 3 and shown[-1] in "aeiy" else shown
                    literals[rf"(?<![^\W{CJK}_]){re.escape(start)}[^\W{CJK}]*"] = None
                else:
                    literals[re.escape(shown)] = None
        longest_first = sorted(literals, key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if literals else None

    def spans(self, text: str) -> list[Span]:
        """Where the terms stand, in order and apart; the first PLACES_MAX."""
        if self._pattern is None:
            return []
        found: list[Span] = []
        for match in self._pattern.finditer(text.translate(_FOLDS)):
            if not match[0] or not self._is_meant(match[0]):
                continue
            start, end = match.span()
            if found and start == found[-1][1] and _is_cjk(match[0]):
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
            if len(found) == SPANS_MAX:
                break
        return found

    def _is_meant(self, text: str) -> bool:
        """Whether a word that begins like a term is one."""
        if not re.match(r"\w", text) or _is_cjk(text):
            return True
        return any(
            lexeme in self._stems
            for group in groups(text)
            for lexeme in (group.whole, *group.parts)
        )


def snippet(stretch: str, finder: Finder, *, is_beginning: bool, is_end: bool) -> str:
    """Mark and cut a stretch of text around its best matches; its beginning without any."""
    text = _SPACE.sub(" ", stretch).strip()
    spans = finder.spans(text)
    start = _best_start(text, spans) if spans else 0
    end = min(len(text), start + SNIPPET_CHARACTERS)
    start, end = _at_words(text, start, end, spans)
    cut_before = start > 0 or not is_beginning
    cut_after = end < len(text) or not is_end
    # The cuts count, too.
    room = SNIPPET_CHARACTERS - cut_before - cut_after
    end = min(end, start + room)
    cut_after = cut_after or end < len(text)
    body = _marked(text, start, end, spans).strip()
    return (CUT if cut_before else "") + body + (CUT if cut_after else "")


def plain_beginning(text: str) -> str:
    """The beginning of a text that nothing was found in."""
    return snippet(text, Finder(()), is_beginning=True, is_end=True)


def _best_start(text: str, spans: list[Span]) -> int:
    """Where the window begins that has the most different matches, then the most, then is first."""
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
    """Move the ends of a window so that they cut no word, where one ends near by."""
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


def _is_cjk(text: str) -> bool:
    return re.match(f"[{CJK}]", text) is not None
