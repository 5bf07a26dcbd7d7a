"""Links to our own copies: signed, valid for seven days, and equal during that time.

A link has its path and its expiry; the signature covers both, under a key derived from the secret,
so that no process has to store links.
"""

from __future__ import annotations

import hmac
import math
from hashlib import sha256
from typing import Final

LINK_SECONDS: Final = 7 * 86_400.0
PURPOSE: Final = "gw media links"  # of the key, under the secret
# Limit of an instant in Unix seconds: larger ones are never signed, and longer ones not parsed.
DIGITS_MAX: Final = 12


class LinkSigner:
    """Signs paths until an instant, and checks such signatures."""

    def __init__(self, *keys: bytes) -> None:
        """The first key signs; all are accepted."""
        self._keys = keys

    def query(self, path: str, expires: int) -> str:
        """Return the query of a link that is valid until `expires`, in Unix seconds."""
        return f"expires={expires}&signature={_signature(self._keys[0], path, str(expires))}"

    def is_good(self, path: str, expires: str, signature: str, *, now: float) -> bool:
        """Whether we signed this path until then, and it has not expired."""
        return self.is_genuine(path, expires, signature) and now < int(expires)

    def is_genuine(self, path: str, expires: str, signature: str) -> bool:
        """Whether we signed this path until then; it may have expired."""
        if not (expires.isascii() and expires.isdigit() and len(expires) <= DIGITS_MAX):
            return False
        given = signature.encode("utf-8", "replace")
        good = [_signature(key, path, expires).encode() for key in self._keys]
        return any(hmac.compare_digest(one, given) for one in good)


def _signature(key: bytes, path: str, expires: str) -> str:
    signed = f"{path}\n{expires}".encode("utf-8", "replace")
    return hmac.new(key, signed, sha256).hexdigest()


def period_end(since: float, now: float) -> int:
    """Return the expiry of a link made now: seven days, in periods counted from `since`.

    So all requests within one period get the same link, and the next period has a new one.
    """
    periods = max(1, math.floor((now - since) / LINK_SECONDS) + 1)
    return int(since + periods * LINK_SECONDS)
