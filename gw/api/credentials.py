"""The key of a request, found by a pure function over headers and query (reference 1.1). `gw/keys`
validates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from gw.http.tornado.headers import KEY_HEADERS

# standard:    every header and parameter, in the order of reference 1.1.
# two_headers: only `x-api-key` and `Authorization: Bearer` (reference 1.1).
# none:        the endpoint is public.
AuthMode = Literal["standard", "two_headers", "none"]

# The second name of a role-named header is the one official client libraries send.
HEADERS: Mapping[AuthMode, Sequence[str]] = {
    "standard": KEY_HEADERS,
    "two_headers": KEY_HEADERS[:1],
}


def find_key(
    headers: Mapping[str, str], query: Mapping[str, Sequence[bytes]], mode: AuthMode
) -> tuple[str, str | None] | None:
    """Return the first key that is not empty, and the name of its header, if it has one; or None.

    Later ones are ignored even if it is bad. `headers` must be case-insensitive. A repeated header
    is joined by a comma and is not a key.
    """
    for name in HEADERS[mode]:
        if key := headers.get(name, "").strip():
            return key, name
    for value in query.get("key", ()) if mode == "standard" else ():
        if key := value.decode("utf-8", "replace").strip():
            return key, None
    scheme, _, credentials = headers.get("Authorization", "").strip().partition(" ")
    key = credentials.strip() if scheme.lower() == "bearer" else ""
    return (key, "Authorization") if key else None


def has_query_key(query: Mapping[str, Sequence[bytes]]) -> bool:
    """Whether the query has a key, for the message of endpoints that accept none there."""
    return any(value.strip() for value in query.get("key", ()))
