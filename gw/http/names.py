"""Names of headers as Tornado spells them."""

from __future__ import annotations

from functools import lru_cache

# Our own names are few; those that clients and upstreams choose could be any number.
_KEPT = 512


@lru_cache(_KEPT)
def spelled(name: str) -> str:
    """`content-TYPE` as `Content-Type`."""
    return "-".join(word.capitalize() for word in name.split("-"))
