"""Finds the key in a request (spec: Authentication 2 and 3; contract §5 and §7).

A pure function over headers and query. Whether the key is good is `gw/keys`; what else stands
before an endpoint is `checks.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

# standard: every header and parameter, in the order of the specification.
# models:   only `x-api-key` and `Authorization: Bearer` (spec: Authentication 3 and 4).
# none:     the endpoint is public.
AuthMode = Literal["standard", "models", "none"]

# The second name of a role-named header is the one official client libraries send.
_KEY_HEADERS = ("x-api-key", "x-alt-api-key", "x-goog-api-key")


def find_key(
    headers: Mapping[str, str], query: Mapping[str, Sequence[bytes]], mode: AuthMode
) -> str | None:
    """Return the first key that is not empty, or None. The first hit decides, good or bad.

    `headers` must look names up without regard to case. A header that came twice arrives joined by
    a comma and is no key.
    """
    if mode == "models":
        return _header(headers, "x-api-key") or _bearer(headers)
    for name in _KEY_HEADERS:
        field = headers.get(name)
        if field and (key := field.strip()):
            return key
    for value in query.get("key", ()):
        key = value.decode("utf-8", "replace").strip()
        if key:
            return key
    return _bearer(headers)


def has_query_key(query: Mapping[str, Sequence[bytes]]) -> bool:
    """True when the query offers a key, for the message where a query key is not accepted."""
    return any(value.strip() for value in query.get("key", ()))


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    return value.strip() if value else ""


def _bearer(headers: Mapping[str, str]) -> str | None:
    scheme, _, credentials = _header(headers, "authorization").partition(" ")
    return (credentials.strip() or None) if scheme.lower() == "bearer" else None
