"""Links to our own copies: signed, good for seven days, the same for as long as they are good.

A link holds what it leads to and until when; the signature is over both, under a key derived from
the secret, so no process needs to remember any.
"""

from __future__ import annotations

import hmac
import math
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

LINK_SECONDS: Final = 7 * 86_400.0
PURPOSE: Final = "gw media links"  # of the key, under the secret
# Of an instant in Unix seconds: nothing beyond is signed, so nothing longer is looked at.
DIGITS_MAX: Final = 12


class LinkSigner:
    """Signs paths until an instant, and checks such signatures."""

    def __init__(self, *keys: bytes) -> None:
        """What is signed is signed under the first of the keys; all are accepted."""
        self._keys = keys

    def query(self, path: str, expires: int) -> str:
        """What follows the path in a link that is good until `expires`, in Unix seconds."""
        return f"expires={expires}&signature={_signature(self._keys[0], path, str(expires))}"

    def is_good(self, path: str, expires: str, signature: str, *, now: float) -> bool:
        """Whether we have signed this path until then, and it is not over."""
        return self.is_genuine(path, expires, signature) and now < int(expires)

    def is_genuine(self, path: str, expires: str, signature: str) -> bool:
        """Whether we have signed this path until then; it may be over."""
        if not (expires.isascii() and expires.isdigit() and len(expires) <= DIGITS_MAX):
            return False
        given = signature.encode("utf-8", "replace")
        good = [_signature(key, path, expires).encode() for key in self._keys]
        return any(hmac.compare_digest(one, given) for one in good)


def _signature(key: bytes, path: str, expires: str) -> str:
    signed = f"{path}\n{expires}".encode("utf-8", "replace")
    return hmac.new(key, signed, sha256).hexdigest()


def period_end(since: float, now: float) -> int:
    """When a link ends that is made now: seven days, counted on from `since`.

    So all who ask within one period get the same link, and the next after it a new one.
    """
    periods = max(1, math.floor((now - since) / LINK_SECONDS) + 1)
    return int(since + periods * LINK_SECONDS)


# A bucket as the configuration names it.


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """Which bucket, and how it is reached."""

    endpoint: str
    region: str
    bucket: str
    prefix: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
