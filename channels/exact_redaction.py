"""Find the configured keys and hosts in an upstream's bytes, exactly, and redact them.

All other bytes stay. What is looked for is found in the spellings of JSON too, as in `https:\\/\\/`
and `\\u002d`; a host counts as a whole word. Messages, which hide more, are `redact.py`'s.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote, quote_plus, urlsplit

from msgspec import Struct

from channels.registry import ChannelSpec

# Below this a configured key is a placeholder, and would be found inside ordinary words.
KEY_CHARACTERS_MIN = 6
REDACTED_KEY = "[redacted]"
_REDACTED_KEY = REDACTED_KEY.encode()
REDACTED_HOST = "[host]"
# So much is looked at in one go, and for so long until others have a turn.
WINDOW_BYTES = 64 * 1024
TURN_SECONDS = 0.005
# Texts that begin with so many equal characters are looked for once, by these.
STEM_CHARACTERS = 6
STEM_TEXTS_MIN = 3

# JSON's longest spelling of a character, and those spellings that a text may be found behind.
_ESCAPED_SIZE = len(r"\u0000")
_ESCAPE = re.compile(rb"\\(?:/|u00([2-7][0-9a-fA-F]))")
# What may stand before a whole word: no letter, unless it belongs to an escape.
_BEFORE_WORD = re.compile(rb"(?:\\[bfnrt]|\\u[0-9a-fA-F]{4}|[^\w-]|\A)\Z")
_AFTER_WORD = re.compile(rb"[^\w-]|\Z")
# The pictures of an images answer: links to them are what was paid for.
_LINKS = re.compile(rb'"url"\s*:\s*"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class RedactedText(Struct, frozen=True):
    """A text to be found, and its replacement."""

    text: str
    replacement: str
    is_host: bool = False


class _Edit(Struct, frozen=True):
    """The span of a secret in some bytes."""

    start: int
    end: int
    secret: RedactedText


class ExactRedaction:
    """Knows some secrets. Immutable."""

    __slots__ = ("_needles", "_reach", "_secrets")

    def __init__(self, secrets: Iterable[RedactedText]) -> None:
        self._secrets = sorted(set(secrets), key=lambda one: one.text)
        self._needles = _needles([one.text for one in self._secrets])
        self._reach = max((len(one.text) for one in self._secrets), default=0) * _ESCAPED_SIZE

    def __repr__(self) -> str:
        return f"<ExactRedaction {len(self._secrets)} texts>"

    def is_clear(self, body: bytes) -> bool:
        """Whether none of them is there; False, too, where one look cannot tell."""
        return len(body) <= WINDOW_BYTES and not self._is_near(body, 0, len(body))

    def redacted(self, body: bytes) -> bytes:
        """The body without them. Nearly always the same bytes come back."""
        if self.is_clear(body):
            return body
        starts = range(0, len(body), WINDOW_BYTES)
        return _applied(body, [edit for start in starts for edit in self._edits(body, start)])

    async def redact_whole(self, body: bytes, *, keeps_links: bool = False) -> bytes:
        """Redact a body of any size; `keeps_links` leaves the hosts in links to pictures."""
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
        """The edits that begin in the window that begins here, in order."""
        stop = start + WINDOW_BYTES
        end = min(stop + self._reach, len(body))
        if not self._is_near(body, start, end):
            return []
        # A little more on either side says whether it is a whole word.
        window = _Unescaped(body, max(0, start - _ESCAPED_SIZE), end + 1)
        edits = [edit for secret in self._secrets for edit in window.found(secret)]
        edits = [edit for edit in edits if start <= edit.start < stop]
        # The longer one first: none hides the beginning of another.
        return sorted(edits, key=lambda edit: (edit.start, -edit.end))

    def _is_near(self, body: bytes, start: int, end: int) -> bool:
        """Whether one of them may be there; told by searches that cost next to nothing."""
        needles = self._needles
        for needle in needles:
            if body.find(needle, start, end) >= 0:
                return True
        if body.find(b"\\", start, end) < 0:
            return False
        if body.find(b"\\u00", start, end) < 0 and body.find(b"\\/", start, end) < 0:
            return False
        plain = _ESCAPE.sub(_character, body[start:end])
        return any(needle in plain for needle in needles)


class _Unescaped:
    """A part of some bytes without JSON's escapes, and where each byte of it stood."""

    __slots__ = ("_begins", "_shifts", "_text")

    def __init__(self, body: bytes, start: int, end: int) -> None:
        # Behind each of these offsets the bytes stood so much further on.
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
        """Every place of it, one after the other."""
        needle, text = secret.text.encode(), self._text
        hit = text.find(needle)
        while hit >= 0:
            end = hit + len(needle)
            if not secret.is_host or self._is_word(hit, end):
                yield _Edit(self._offset(hit), self._offset(end), secret)
            hit = text.find(needle, end)

    def _offset(self, index: int) -> int:
        """Where a byte stood; of the one behind an escape, where the escape had ended."""
        return index + self._shifts[bisect_right(self._begins, index) - 1]

    def _is_word(self, start: int, end: int) -> bool:
        before = self._text[max(0, start - _ESCAPED_SIZE) : start]
        return (
            _BEFORE_WORD.search(before) is not None
            and _AFTER_WORD.match(self._text, end) is not None
        )


class StreamRedaction(Struct, frozen=True):
    """What is redacted in a stream: the channel's own secrets in any block, all else where an error
    is.

    `key` is the first of its secrets, which most channels have no others beside. One that comes in
    two pieces of a response's text is not found.
    """

    key: bytes | None
    more: tuple[bytes, ...]
    errors: ExactRedaction

    @classmethod
    def of(cls, channel: ChannelSpec, errors: ExactRedaction) -> StreamRedaction:
        """Of a stream that comes from this channel."""
        secrets: tuple[bytes, ...] | None = channel.made.get(cls)
        if secrets is None:
            long = [one for one in channel.secrets if len(one) >= KEY_CHARACTERS_MIN]
            # The longest first: none hides the beginning of another.
            secrets = tuple(one.encode() for one in sorted(long, key=len, reverse=True))
            channel.made[cls] = secrets
        return cls(secrets[0] if secrets else None, secrets[1:], errors)

    def without_key(self, block: bytes) -> bytes:
        """A block without any of the secrets."""
        assert self.key is not None
        for secret in (self.key, *self.more):
            block = block.replace(secret, _REDACTED_KEY)
        return block


def secrets_of(channels: Iterable[ChannelSpec], *, is_response: bool) -> Iterator[RedactedText]:
    """What is configured of these channels: their keys and secrets, and the hosts they are on.

    In a response, `localhost` and names of one word are ordinary words, such as of a program that
    the model writes; there they count with their port only.
    """
    for channel in channels:
        for key in key_spellings(channel):
            yield RedactedText(key, REDACTED_KEY)
        address = urlsplit(channel.base_url)
        host = (address.hostname or "").rstrip(".")
        if not host:
            continue
        if not (is_response and _is_ordinary(host)):
            yield RedactedText(host, REDACTED_HOST, is_host=True)
        elif address.port is not None:
            yield RedactedText(
                f"{host}:{address.port}", f"{REDACTED_HOST}:{address.port}", is_host=True
            )


def key_spellings(channel: ChannelSpec) -> set[str]:
    """Its secrets as they are and as they stand in an address; none that is a placeholder."""
    long = [one for one in channel.secrets if len(one) >= KEY_CHARACTERS_MIN]
    return {*long, *(quote(one, safe="") for one in long), *map(quote_plus, long)}


def _is_ordinary(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return "." not in host


def _needles(texts: Sequence[str]) -> Sequence[bytes]:
    """Bytes of which one is wherever one of the texts is."""
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
    """The edits but for those of hosts in links; both are in order, and each is passed once."""
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
