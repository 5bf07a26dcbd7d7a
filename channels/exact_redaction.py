"""Finds texts in an upstream's bytes exactly, and redacts them.

All other bytes are unchanged. Secrets are also found with JSON's escapes, as in `https:\\/\\/` and
`\\u002d`; a host must be a whole word. `Redactor` (`redaction.py`) hides more, in messages.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

# Bytes searched at once, and the time after which other tasks get a turn.
WINDOW_BYTES = 64 * 1024
TURN_SECONDS = 0.005
# Texts with the same first characters are searched once, by these.
STEM_CHARACTERS = 6
STEM_TEXTS_MIN = 3
# So many are searched one by one; more by one pattern, which is slower for a few.
NEEDLES_SEARCHED_MAX = 12

# JSON's longest escape of a character, and the escapes that may be part of a text.
_ESCAPED_SIZE = len(r"\u0000")
# JSON within a JSON string has several backslashes before them. The first one is matched only if
# none precedes it, so that a row of backslashes is scanned once.
_ESCAPE = re.compile(rb"\\(?<!\\\\)\\*+(?:/|u00([2-7][0-9a-fA-F]))")
# What may precede a whole word: no letter, unless it is part of an escape.
_BEFORE_WORD = re.compile(rb"(?:\\[bfnrt]|\\u[0-9a-fA-F]{4}|[^\w-]|\A)\Z")
_AFTER_WORD = re.compile(rb"[^\w-]|\Z")
# The links to images in an images response, which the client has paid for.
_LINKS = re.compile(rb'"url"\s*:\s*"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class RedactedText(Struct, frozen=True):
    """A text to find, and its replacement."""

    text: str
    replacement: str
    is_host: bool = False


class _Edit(Struct, frozen=True):
    """The span of a secret in some bytes."""

    start: int
    end: int
    secret: RedactedText


class ExactRedaction:
    """Finds a set of secrets. Immutable; `length_max` is the maximum length of one in bytes."""

    __slots__ = ("_needles", "_pattern", "_secrets", "length_max")

    def __init__(self, secrets: Iterable[RedactedText]) -> None:
        self._secrets = sorted(set(secrets), key=lambda one: one.text)
        needles = _needles([one.text for one in self._secrets])
        is_many = len(needles) > NEEDLES_SEARCHED_MAX
        self._pattern = re.compile(b"|".join(map(re.escape, needles))) if is_many else None
        self._needles = () if is_many else needles
        self.length_max = max((len(one.text) for one in self._secrets), default=0) * _ESCAPED_SIZE

    def is_clear(self, body: bytes) -> bool:
        """Whether none is found; also False if a single search cannot decide."""
        if len(body) > WINDOW_BYTES:
            return False
        for needle in self._needles:
            if needle in body:
                return False
        if self._pattern is not None and self._pattern.search(body) is not None:
            return False
        if b"\\" not in body or (b"\\/" not in body and b"\\u00" not in body):
            return True
        return not self._is_escaped_near(body, 0, len(body))

    def redacted(self, body: bytes) -> bytes:
        """Return the body without secrets; usually the same object."""
        return body if self.is_clear(body) else _applied(body, self.edits(body))

    def redacted_text(self, text: str) -> str:
        """Return the text without secrets; it may have lone surrogates."""
        body = text.encode("utf-8", "surrogatepass")
        shown = self.redacted(body)
        return text if shown is body else shown.decode("utf-8", "surrogatepass")

    def edits(self, body: bytes) -> list[_Edit]:
        """Return the spans of secrets, in order."""
        starts = range(0, len(body), WINDOW_BYTES)
        return [edit for start in starts for edit in self._edits(body, start)]

    async def redact_whole(self, body: bytes, *, keeps_links: bool = False) -> bytes:
        """Redact a body of any size; `keeps_links` keeps the hosts in links to images."""
        if self.is_clear(body):
            return body
        edits: list[_Edit] = []
        loop = asyncio.get_running_loop()
        began = loop.time()
        for start in range(0, len(body), WINDOW_BYTES):
            if loop.time() - began > TURN_SECONDS:
                await asyncio.sleep(0)
                began = loop.time()
            edits += self._edits(body, start)
        if keeps_links and edits:
            edits = _outside_links(body, edits)
        return _applied(body, edits)

    def _edits(self, body: bytes, start: int) -> list[_Edit]:
        """Return the edits that begin in the window at `start`, in order."""
        stop = start + WINDOW_BYTES
        end = min(stop + self.length_max, len(body))
        if not self._is_near(body, start, end):
            return []
        # A margin on either side shows whether a host is a whole word.
        window = _Unescaped(body, max(0, start - _ESCAPED_SIZE), end + 1)
        edits = [edit for secret in self._secrets for edit in window.found(secret)]
        edits = [edit for edit in edits if start <= edit.start < stop]
        # The longer one first, so that none hides the beginning of another.
        return sorted(edits, key=lambda edit: (edit.start, -edit.end))

    def _is_near(self, body: bytes, start: int, end: int) -> bool:
        """Whether a secret may be there; a cheap search."""
        return self._has_needle(body, start, end) or self._is_escaped_near(body, start, end)

    def _is_escaped_near(self, body: bytes, start: int, end: int) -> bool:
        if _ESCAPE.search(body, start, end) is None:
            return False
        plain = _ESCAPE.sub(_character, body[start:end])
        return self._has_needle(plain, 0, len(plain))

    def _has_needle(self, body: bytes, start: int, end: int) -> bool:
        if self._pattern is not None:
            return self._pattern.search(body, start, end) is not None
        return any(body.find(needle, start, end) >= 0 for needle in self._needles)


class LinesRedaction:
    """Redacts bytes in pieces; a secret split over two pieces is found, too.

    No secret crosses a line end. Of an incomplete line, the last `length_max` bytes are pending.
    """

    __slots__ = ("_pending", "_redaction")

    def __init__(self, redaction: ExactRedaction) -> None:
        self._redaction = redaction
        self._pending = b""

    def take(self, piece: bytes) -> bytes:
        """Return what can be passed on with this piece."""
        body = self._pending + piece
        end = max(body.rfind(b"\n") + 1, len(body) - self._redaction.length_max)
        edits = [edit for edit in self._redaction.edits(body) if edit.start < end]
        end = max([end, *[edit.end for edit in edits]])
        self._pending = body[end:]
        return _applied(body[:end], edits)

    def end(self) -> bytes:
        """Return the rest."""
        return self._redaction.redacted(self._pending)


class _Unescaped:
    """A part of some bytes without JSON's escapes, with the original offset of each byte."""

    __slots__ = ("_begins", "_shifts", "_text")

    def __init__(self, body: bytes, start: int, end: int) -> None:
        # From each of these offsets on, the original offset is larger by the shift.
        self._begins, self._shifts = [0], [start]
        pieces: list[bytes] = []
        position, size = start, 0
        for found in _ESCAPE.finditer(body, start, end):
            pieces += (body[position : found.start()], _character(found))
            size += found.start() - position + 1
            position = found.end()
            self._begins.append(size)
            self._shifts.append(position - size)
        pieces.append(body[position:end])
        self._text = b"".join(pieces)

    def found(self, secret: RedactedText) -> Iterator[_Edit]:
        """Yield every occurrence, in order."""
        needle, text = secret.text.encode(), self._text
        hit = text.find(needle)
        while hit >= 0:
            end = hit + len(needle)
            if not secret.is_host or self._is_word(hit, end):
                yield _Edit(self._offset(hit), self._offset(end), secret)
            hit = text.find(needle, end)

    def _offset(self, index: int) -> int:
        """Return the original offset of a byte; after an escape, the end of the escape."""
        return index + self._shifts[bisect_right(self._begins, index) - 1]

    def _is_word(self, start: int, end: int) -> bool:
        before = self._text[max(0, start - _ESCAPED_SIZE) : start]
        return (
            _BEFORE_WORD.search(before) is not None
            and _AFTER_WORD.match(self._text, end) is not None
        )


def _needles(texts: Sequence[str]) -> Sequence[bytes]:
    """Return bytes such that each text contains one of them."""
    stems: dict[str, list[str]] = {}
    for text in texts:
        stems.setdefault(text[:STEM_CHARACTERS], []).append(text)
    needles: list[str] = []
    for stem, those in stems.items():
        needles += those if len(those) < STEM_TEXTS_MIN else [stem]
    return [needle.encode() for needle in needles]


def _character(found: re.Match[bytes]) -> bytes:
    code: bytes | None = found[1]
    return b"/" if code is None else bytes([int(code, 16)])


def _outside_links(body: bytes, edits: list[_Edit]) -> list[_Edit]:
    """Drop the edits of hosts within links; both are in order, and each is visited once."""
    links = _LINKS.finditer(body)
    link = next(links, None)
    kept: list[_Edit] = []
    for edit in edits:
        while link is not None and link.end() <= edit.start:
            link = next(links, None)
        if not (edit.secret.is_host and link is not None and link.start() <= edit.start):
            kept.append(edit)
    return kept


def _applied(body: bytes, edits: Sequence[_Edit]) -> bytes:
    if not edits:
        return body
    pieces: list[bytes] = []
    position = 0
    for edit in edits:
        if edit.start >= position:
            pieces += (body[position : edit.start], edit.secret.replacement.encode())
            position = edit.end
    pieces.append(body[position:])
    return b"".join(pieces)
