"""Takes secrets out of text on its way to the log.

A net behind the code that should not log them in the first place. Upstreams' addresses and names
are no secret to an operator and stay; what clients may see is `channels/redact.py`.
"""

from __future__ import annotations

import re
from typing import Final

REDACTED: Final = "***"

# What a value may not contain: where it ends in a header, a URL, a repr or a JSON text. One of our
# keys that is redacted already stays, so that an operator can tell which it was.
_VALUE: Final = r"(?!sk-platform-[0-9a-f]{4}\*{3})[^\s\"'\\&,;)}\]>]+"
# Between a name and its value: `name: value`, `name=value`, `'name': 'value'`, `("name", "value")`.
_BETWEEN: Final = r"(?:\\?[\"']?\s*[:=]\s*|\\?[\"'],\s*)(?:b?\\?[\"'])?"
# The bound on what may stand before `api_key` keeps the search linear.
_NAMES: Final = (
    r"(?:proxy[-_])?authorization|[\w-]{0,40}api[-_]?key|password|passwd"
    r"|(?:client|access|refresh|gw)[-_](?:secret|token)"
)

# In this order: what is redacted as part of something longer must still be whole.
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        # Our own keys.
        (r"(sk-platform-[0-9a-f]{4})[0-9a-z]+", rf"\1{REDACTED}"),
        # Headers, fields and parameters, with or without a scheme.
        (rf"\b(Bearer\s+){_VALUE}", rf"\1{REDACTED}"),
        (
            rf"\b((?:{_NAMES}){_BETWEEN}(?:(?:Basic|Bearer|Token)\s+)?+){_VALUE}",
            rf"\1{REDACTED}",
        ),
        (r"\b((?:set[-_])?cookie\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\r\n\"'\\]+", rf"\1{REDACTED}"),
        (rf"([?&]key=){_VALUE}", rf"\1{REDACTED}"),
        # Other makers' keys, as they stand in their error messages.
        (r"(?<![a-z0-9])(sk-)(?!platform-)[\w*.-]{8,}", rf"\1{REDACTED}"),
        (r"(?<![a-z0-9])(AIza)[\w-]{8,}", rf"\1{REDACTED}"),
        # The password in the URL of a database.
        (r"(://[^/\s:@\"']*:)[^/\s@\"']+(@)", rf"\1{REDACTED}\2"),
    )
)

_SECRET_NAME: Final = re.compile(rf"(?:{_NAMES}|(?:set[-_])?cookie|secret)", re.IGNORECASE)


def redact(text: str) -> str:
    """Return `text` with the secrets in it redacted."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def names_a_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, whatever it looks like."""
    return _SECRET_NAME.fullmatch(name) is not None
