"""Removes secrets from text before it is logged.

A safety net for code that should not log them at all. Upstreams' addresses and names are no
secret to an operator and are kept; `channels/redaction.py` has the redaction for clients, and the
list of the process's known secrets, which are removed first (`hide`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

REDACTED: Final = "***"

# Characters that end a value in a header, a URL, a repr or JSON text. A redacted value is left
# unchanged; of our own keys an operator can see which one it was.
_VALUE: Final = r"(?!sk-platform-[0-9a-f]{4}\*{3}|\[redacted\])[^\s\"'\\&,;)}\]>]+"
# Between a name and its value: `name: value`, `name=value`, `'name': 'value'`, `("name", "value")`.
_BETWEEN: Final = r"(?:\\?[\"']?\s*[:=]\s*|\\?[\"'],\s*)(?:b?\\?[\"'])?"
# The bound on the prefix of `api_key` keeps the search linear.
_NAMES: Final = (
    r"(?:proxy[-_])?authorization|[\w-]{0,40}api[-_]?key|password|passwd"
    r"|(?:client|access|refresh|gw)[-_](?:secret|token)"
)

_OWN_PREFIX: Final = "sk-platform-"
_OWN_KEY: Final = re.compile(r"(sk-platform-[0-9a-f]{4})[0-9a-z]+", re.IGNORECASE)

# In this order: a longer match must precede those of its parts.
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (_OWN_KEY.pattern, rf"\1{REDACTED}"),
        # Headers, fields and parameters, with or without a scheme.
        (rf"\b(Bearer\s+){_VALUE}", rf"\1{REDACTED}"),
        (
            rf"\b((?:{_NAMES}){_BETWEEN}(?:(?:Basic|Bearer|Token)\s+)?+){_VALUE}",
            rf"\1{REDACTED}",
        ),
        (r"\b((?:set[-_])?cookie\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\r\n\"'\\]+", rf"\1{REDACTED}"),
        (rf"([?&]key=){_VALUE}", rf"\1{REDACTED}"),
        # Other providers' keys, as in their error messages.
        (r"(?<![a-z0-9])(sk-)(?!platform-)[\w*.-]{8,}", rf"\1{REDACTED}"),
        (r"(?<![a-z0-9])(AIza)[\w-]{8,}", rf"\1{REDACTED}"),
        # The password in the URL of a database.
        (r"(://[^/\s:@\"']*:)[^/\s@\"']+(@)", rf"\1{REDACTED}\2"),
    )
)

_SECRET_NAME: Final = re.compile(rf"(?:{_NAMES}|(?:set[-_])?cookie|secret)", re.IGNORECASE)

# Removes the known secrets from a text, exactly.
_known: Callable[[str], str] = str


def hide(known: Callable[[str], str]) -> None:
    """Apply `known` to every text from now on, before the patterns."""
    global _known
    _known = known


def redact(text: str) -> str:
    """Return `text` with the secrets in it redacted."""
    text = _known(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def without_keys(text: str) -> str:
    """Return `text` with keys of clients redacted, and nothing else.

    A client may send one in any field, and a message that repeats the field is shown to others.
    """
    return _OWN_KEY.sub(rf"\1{REDACTED}", text) if _OWN_PREFIX in text else text


def names_a_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, whatever its value."""
    return _SECRET_NAME.fullmatch(name) is not None
