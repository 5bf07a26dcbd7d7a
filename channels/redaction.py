"""Redact what an upstream's bytes reveal: its address, its key, its channel.

There is one list of secrets, `ChannelSpec.secrets`: keys, other credentials, and what was obtained
with them, such as access tokens. `redaction_of` finds those of one channel in what it sends, before
anything else reads it; a `Redactor` finds those of all channels, and their hosts, in what is sent
to clients, written to rows and logged. `exact_redaction.py` searches the bytes;
`channels/dialects/error_body.py` finds the message in an error body.
"""

from __future__ import annotations

import ipaddress
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from msgspec import Struct

from channels.exact_redaction import ExactRedaction, RedactedText
from channels.registry import ChannelSpec
from channels.storable_text import fit

# A shorter configured key is a placeholder, and would be found inside ordinary words.
KEY_CHARACTERS_MIN = 6
REDACTED_KEY = "[redacted]"
REDACTED_HOST = "[host]"
# Of a secret of several lines, such as a private key, each line of this length is a secret.
LINE_CHARACTERS_MIN = 16


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
