"""Hide what an upstream's message gives away: where it lives, whose key it was, which channel.

Every upstream message passes here before a client sees it or a row of the call log keeps it. What
remains stays readable: a reason, a parameter, a model. Finding the message in an error body is
`channels/dialects/error_body.py`.
"""

from __future__ import annotations

import ipaddress
import re
import string
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from channels.exact_redaction import (
    REDACTED_HOST,
    REDACTED_KEY,
    ExactRedaction,
    key_spellings,
    secrets_of,
)
from channels.registry import ChannelSpec
from channels.text import fit

MESSAGE_CHARACTERS_MAX = 1000
# What is read of a message. Words cut at this length are dropped whole, never shown by half.
READ_CHARACTERS_MAX = 16_000
# A channel named with one or two letters identifies nothing, and would redact every "a".
CHANNEL_ID_CHARACTERS_MIN = 3

_URL = "[url]"
_HOST = REDACTED_HOST
_KEY = REDACTED_KEY
_CHANNEL = "[channel]"

# Words are ASCII throughout: a Chinese sentence runs up to an address without a space.
# A scheme and what follows it, up to what cannot be part of an address. Escaped forms too, as in
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
# Keys by their shape, whosever they are: ours, the configured ones', another customer's. What
# lies ahead is looked at only so far, or a message could be made to take seconds.
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


class Redactor:
    """Knows what to hide for one set of channels. Immutable; a reload makes a new one.

    `errors` masks the bodies of errors that are passed on, and error events; `responses` masks
    whole responses.
    """

    def __init__(self, channels: Iterable[ChannelSpec]) -> None:
        channels = tuple(channels)
        self.errors = ExactRedaction(secrets_of(channels, is_response=False))
        self.responses = ExactRedaction(secrets_of(channels, is_response=True))
        hosts: set[str] = set()
        words: set[str] = set()
        keys: set[str] = set()
        ids: set[str] = set()
        for channel in channels:
            host = (urlsplit(channel.base_url).hostname or "").rstrip(".")
            (hosts if "." in host or ":" in host else words).add(host)
            keys |= key_spellings(channel)
            ids.add(channel.id)
        self._keys = _any_of(keys)
        self._hosts = _hosts(hosts - {""}, words - {""})
        self._ids = _any_of(
            (name for name in ids if len(name) >= CHANNEL_ID_CHARACTERS_MIN), whole_words=True
        )

    def __repr__(self) -> str:
        return "<Redactor>"

    def text(self, message: str) -> str:
        """The message without addresses, keys and channel names, at most 1000 characters."""
        message = fit(_beginning(message), READ_CHARACTERS_MAX)
        # Keys first, exactly as configured: no later pattern may take half of one.
        if self._keys is not None:
            message = self._keys.sub(_KEY, message)
        message = _ANY_URL.sub(_URL, message)
        message = _SECRETS.sub(_redacted_secret, message)
        if self._hosts is not None:
            message = _without_hosts(message, self._hosts)
        message = _ADDRESS.sub(_HOST, message)
        if self._ids is not None:
            message = self._ids.sub(_CHANNEL, message)
        return fit(message.strip(), MESSAGE_CHARACTERS_MAX)

    def value(self, value: Any) -> Any:
        """A JSON value fit to be sent, whose strings hide keys, configured hosts, channel names.

        Names of members and other addresses stay: they are what client libraries act on. The caller
        bounds its depth.
        """
        if isinstance(value, str):
            return self._exactly(value)
        if isinstance(value, Mapping):
            return {self._exactly(name): self.value(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return value

    def _exactly(self, text: str) -> str:
        text = self.errors.redacted(text.encode()).decode()
        if self._ids is not None:
            text = self._ids.sub(_CHANNEL, text)
        return _SECRETS.sub(_redacted_secret, text)


def _beginning(message: str) -> str:
    """As many whole words as are read of a message."""
    if len(message) <= READ_CHARACTERS_MAX:
        return message
    head = message[:READ_CHARACTERS_MAX]
    return head[: max(head.rfind(" "), head.rfind("\n"), 0)]


def _redacted_secret(found: re.Match[str]) -> str:
    """Keep the word that says what it was: Bearer, key=."""
    return (found["scheme"] or found["name"] or found["query"] or "") + _KEY


def _hosts(hosts: set[str], words: set[str]) -> re.Pattern[str] | None:
    """A pattern for hosts wherever they stand, and their ports.

    Of a host with three labels and more the parent domain is hidden too: the upstream's other
    names tell who it is just as well. A host of one word is hidden only as a word.
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
    """Redact each host with the labels before it; stepping back by hand keeps this linear."""
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


def _any_of(texts: Iterable[str], *, whole_words: bool = False) -> re.Pattern[str] | None:
    """A pattern for any of `texts`, the longest first: none hides the beginning of another."""
    ordered = sorted(set(texts), key=lambda text: (-len(text), text))
    if not ordered:
        return None
    pattern = "|".join(re.escape(text) for text in ordered)
    return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])" if whole_words else pattern, re.ASCII)
