"""Redact what an upstream's bytes reveal: its address, its key, its channel.

There is one list of secrets, `ChannelSpec.secrets`: keys, other credentials, and what was obtained
with them, such as access tokens. `redaction_of` finds those of one channel in what it sends, before
anything else reads it; a `Redactor` finds those of all channels, and their hosts, in what is sent
to clients, written to rows and logged. `channels/dialects/error_body.py` finds the message in an
error body.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import string
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from msgspec import Struct

from channels.registry import ChannelSpec
from channels.storable_text import fit

# Finds secrets and hosts in an upstream's bytes exactly, and redacts them.
#
# All other bytes are unchanged. Secrets are also found with JSON's escapes, as in `https:\/\/` and
# `\u002d`; a host must be a whole word. `redacted` hides more, in messages.

# A shorter configured key is a placeholder, and would be found inside ordinary words.
KEY_CHARACTERS_MIN = 6
REDACTED_KEY = "[redacted]"
REDACTED_HOST = "[host]"
# Bytes searched at once, and the time after which other tasks get a turn.
WINDOW_BYTES = 64 * 1024
TURN_SECONDS = 0.005
# Texts with the same first characters are searched once, by these.
STEM_CHARACTERS = 6
STEM_TEXTS_MIN = 3
# So many are searched one by one; more by one pattern, which is slower for a few.
NEEDLES_SEARCHED_MAX = 12
# Of a secret of several lines, such as a private key, each line of this length is a secret.
LINE_CHARACTERS_MIN = 16

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

    def __repr__(self) -> str:
        return f"<ExactRedaction {len(self._secrets)} texts>"

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


def redaction_of(channel: ChannelSpec) -> ExactRedaction:
    """Return the redaction of one channel's secrets, including those obtained so far.

    In a stream it is applied to each event: a secret split over two text deltas is not found.
    """
    version, found = channel.derived.get(redaction_of, (-1, None))
    if found is None or version != channel.obtained.version:
        version = channel.obtained.version
        found = ExactRedaction(RedactedText(one, REDACTED_KEY) for one in key_spellings(channel))
        channel.derived[redaction_of] = (version, found)
    redaction: ExactRedaction = found
    return redaction


def secrets_of(channels: Iterable[ChannelSpec], *, is_response: bool) -> Iterator[RedactedText]:
    """Yield the secrets and the hosts of these channels.

    In a response, `localhost` and names of one word are ordinary words, for example of a program
    that the model writes; there they count only with their port.
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
    """Return its secrets, plain and quoted for a URL, without placeholders."""
    long = [line for one in channel.secrets for line in _lines(one)]
    return {*long, *(quote(one, safe="") for one in long), *map(quote_plus, long)}


def _lines(secret: str) -> list[str]:
    """Return the searched parts of a secret: all of it, or each of its lines."""
    lines = secret.split()
    if len(lines) > 1 and "\n" in secret:
        return [one for one in lines if len(one) >= LINE_CHARACTERS_MIN]
    return [secret] if len(secret) >= KEY_CHARACTERS_MIN else []


def _is_ordinary(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return "." not in host


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


MESSAGE_CHARACTERS_MAX = 1000
# The part of a message that is read. Words split at this length are dropped whole.
READ_CHARACTERS_MAX = 16_000
# A channel id of one or two letters identifies nothing, and would redact every "a".
CHANNEL_ID_CHARACTERS_MIN = 3

_URL = "[url]"
_HOST = REDACTED_HOST
_KEY = REDACTED_KEY
_CHANNEL = "[channel]"

# Words are ASCII throughout: a Chinese sentence adjoins an address without a space.
# A scheme and what follows it, up to a character that no address has. Also in escaped forms, as in
# https:\/\/… and https%3A%2F%2F….
_ANY_URL = re.compile(
    r"\b(?:https?|wss?|unix|tcp|grpcs?|redis|postgres(?:ql)?)"
    r"(?::\\?/\\?/|%3a%2f%2f)[^\s\"'<>`()\[\]{},|\u3000-\u303f\uff00-\uffef]*",
    re.IGNORECASE | re.ASCII,
)
_HEX = r"[0-9a-f]{1,4}"
_ADDRESS = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\w)(?::\d{1,5})?"
    rf"|(?<![\w:])\[?(?=[0-9a-f:]*\d)(?:(?:{_HEX}:){{7}}{_HEX}"
    rf"|(?:{_HEX}(?::{_HEX}){{0,6}})?::(?:{_HEX}(?::{_HEX}){{0,6}})?)(?:%\w+)?(?![\w:])(?:\](?::\d{{1,5}})?)?"
    r"|\blocalhost:\d{1,5}\b",
    re.IGNORECASE | re.ASCII,
)
_LABEL_CHARACTERS = frozenset(string.ascii_letters + string.digits + "-._")
# Keys by their shape, of any owner: ours, configured ones, another customer's. Lookaheads are
# bounded, or a message could be made to take seconds.
_SECRETS = re.compile(
    r"\b(?P<scheme>(?:Bearer|Basic)(?:\s|%20|\+)+)"
    r"(?=[^\s\"',;]{0,200}\d|[^\s\"',;]{20})[^\s\"',;]{8,}"
    r"|(?P<name>\b(?:x-)?(?:alt-|goog-)?(?:api[-_ ]?)?(?:key|token|secret|password)[\"']?\s*[=:]\s*"
    r"[\"']?)(?=[^\s\"',;&]{0,200}[\d*])[^\s\"',;&)]{6,}"
    r"|(?P<query>[?&](?:api[-_]?)?(?:key|token|sig|signature)=)[^\s\"'&]+"
    r"|\bsk-[\w*.…-]{4,}"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|gho|glpat|fw|r8)[-_](?=[\w*.…-]{0,200}[\d*…]|[\w-]{20})[\w*.…-]{6,}"
    r"|(?-i:\bAIza[\w*…-]{8,}|\bya29\.[\w*.…-]{8,}|\bA(?:KIA|SIA)[A-Z0-9*]{8,}|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?)",
    re.IGNORECASE | re.ASCII,
)


class _Lists(Struct, frozen=True):
    """The exact redactions: secrets alone, and with hosts for errors and for whole responses."""

    secrets: ExactRedaction
    errors: ExactRedaction
    responses: ExactRedaction


class Redactor:
    """Redacts for one set of channels; a reload makes a new one.

    What the channels obtain later is redacted as well.
    """

    def __init__(self, channels: Iterable[ChannelSpec]) -> None:
        self._channels = channels = tuple(channels)
        self._obtained = [one.obtained for one in channels if one.authorizer is not None]
        self._version = -1
        self._lists: _Lists
        hosts: set[str] = set()
        words: set[str] = set()
        ids: set[str] = set()
        for channel in channels:
            host = (urlsplit(channel.base_url).hostname or "").rstrip(".")
            (hosts if "." in host or ":" in host else words).add(host)
            ids.add(channel.id)
        self._hosts = _hosts(hosts - {""}, words - {""})
        self._ids = _any_word_of(name for name in ids if len(name) >= CHANNEL_ID_CHARACTERS_MIN)

    def __repr__(self) -> str:
        return "<Redactor>"

    @property
    def errors(self) -> ExactRedaction:
        """The redaction of error bodies that are passed on, and of error events."""
        return self._current().errors

    @property
    def responses(self) -> ExactRedaction:
        """The redaction of whole responses."""
        return self._current().responses

    def secrets(self, text: str) -> str:
        """Return the text without secrets, for the log: operators may see hosts and names."""
        return self._current().secrets.redacted_text(text)

    def text(self, message: str) -> str:
        """Return the message without addresses, keys and channel names, at most 1000 characters."""
        message = fit(_beginning(message), READ_CHARACTERS_MAX)
        # Secrets first, exactly: no later pattern may match part of one.
        message = self.secrets(message)
        message = _ANY_URL.sub(_URL, message)
        message = _SECRETS.sub(_redacted_secret, message)
        if self._hosts is not None:
            message = _without_hosts(message, self._hosts)
        message = _ADDRESS.sub(_HOST, message)
        if self._ids is not None:
            message = self._ids.sub(_CHANNEL, message)
        return fit(message.strip(), MESSAGE_CHARACTERS_MAX)

    def value(self, value: Any) -> Any:
        """Return a JSON value with keys, configured hosts and channel names redacted in strings.

        Other addresses are kept: client libraries use them. The caller bounds its depth.
        """
        if isinstance(value, str):
            return self._exactly(value)
        if isinstance(value, Mapping):
            return {self._exactly(name): self.value(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return value

    def _exactly(self, text: str) -> str:
        text = self.errors.redacted_text(text)
        if self._ids is not None:
            text = self._ids.sub(_CHANNEL, text)
        return _SECRETS.sub(_redacted_secret, text)

    def _current(self) -> _Lists:
        """Return the redactions, rebuilt if a channel has obtained a secret since."""
        version = sum([one.version for one in self._obtained]) if self._obtained else 0
        if version != self._version:
            keys = {key for channel in self._channels for key in key_spellings(channel)}
            self._lists = _Lists(
                ExactRedaction(RedactedText(key, REDACTED_KEY) for key in keys),
                ExactRedaction(secrets_of(self._channels, is_response=False)),
                ExactRedaction(secrets_of(self._channels, is_response=True)),
            )
            self._version = version
        return self._lists


def _beginning(message: str) -> str:
    """Return the whole words of a message that are read."""
    if len(message) <= READ_CHARACTERS_MAX:
        return message
    head = message[:READ_CHARACTERS_MAX]
    return head[: max(head.rfind(" "), head.rfind("\n"), 0)]


def _redacted_secret(found: re.Match[str]) -> str:
    """Keep the prefix that names the kind of secret: Bearer, key=."""
    return (found["scheme"] or found["name"] or found["query"] or "") + _KEY


def _hosts(hosts: set[str], words: set[str]) -> re.Pattern[str] | None:
    """Return a pattern for hosts anywhere, with their ports.

    For a host with three or more labels the parent domain is redacted too, because the upstream's
    other names identify it as well. A host of one word is redacted only as a word.
    """
    names = set(hosts)
    for host in hosts:
        labels = host.split(".")
        if len(labels) > 2 and not _is_address(host):
            names.add(".".join(labels[1:]))
    patterns = [
        rf"{re.escape(name)}\.?(?::\d{{1,5}}\b)?"
        for name in sorted(names, key=lambda name: (-len(name), name))
    ]
    patterns += [rf"(?<![\w-]){re.escape(word)}(?![\w-])(?::\d{{1,5}})?" for word in sorted(words)]
    return re.compile("|".join(patterns), re.IGNORECASE | re.ASCII) if patterns else None


def _without_hosts(message: str, hosts: re.Pattern[str]) -> str:
    """Redact each host with the labels before it; scanning back by hand keeps this linear."""
    pieces: list[str] = []
    position = 0
    for found in hosts.finditer(message):
        start = found.start()
        while start > position and message[start - 1] in _LABEL_CHARACTERS:
            start -= 1
        pieces += (message[position:start], _HOST)
        position = found.end()
    pieces.append(message[position:])
    return "".join(pieces)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _any_word_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern for any of `texts` as a whole word, the longest first."""
    ordered = sorted(set(texts), key=lambda text: (-len(text), text))
    if not ordered:
        return None
    pattern = "|".join(re.escape(text) for text in ordered)
    return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.ASCII)
