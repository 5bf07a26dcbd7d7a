"""The header fields of a request, by their names in Tornado's form.

They take no part in Tornado's validation: the parser has checked every character.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tornado.httputil import HTTPHeaders

# Bound of the cached header names, because clients and upstreams may send any.
_NAMES_KEPT = 512

# Headers that may have an API key, as `Authorization` may.
KEY_HEADERS = ("X-Api-Key", "X-Alt-Api-Key", "X-Goog-Api-Key")

CHUNKED = -1  # the size of a body that comes in chunks


@lru_cache(_NAMES_KEPT)
def spelled(name: str) -> str:
    """Return a header name in Tornado's form: `Content-Type`."""
    return "-".join(word.capitalize() for word in name.split("-"))


class _Spellings(dict[str | bytes, str]):
    """Header names in Tornado's form, by another form: faster than a cached function."""

    def __missing__(self, name: str | bytes) -> str:
        field = spelled(name if isinstance(name, str) else name.decode("latin-1"))
        if len(self) < _NAMES_KEPT:
            self[name] = field
        return field


# Two, because only our own code adds to the first, and any client to the second.
_asked_for, _received = _Spellings(), _Spellings()


class RequestHeaders(HTTPHeaders):
    """The header fields of a request, by their names in Tornado's form.

    They are stored in Tornado's dictionaries without its validation: the parser has checked every
    character. Requests of a connection that repeat a head share them, and what was found in it.
    """

    key_hash: bytes | None = None
    key_text: str | None = None
    key_field: str | None = None  # in which the key was found
    # Of the request: `uri`, `host`, `path`, `query`, `query_arguments`.
    parts: tuple[str, str, str, str, dict[str, list[bytes]]] | None = None
    target: Any = None  # of its route, once the head is known to be in order
    unread_by: Any = None  # a dialect whose calls read none of its fields
    attribution: Any = None  # for whom its calls are, once the fields that say so are read

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._as_list = fields
        self._combined_cache = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and spelled(name) in self._as_list

    def get(self, name: str, default: Any = None) -> Any:
        # Most names looked up are absent; Tornado's `get` raises and catches for each of them.
        values = self._as_list.get(_asked_for[name])
        if values is None:
            return default
        return values[0] if len(values) == 1 else ",".join(values)

    def has_any(self, names: frozenset[str]) -> bool:
        """Whether one of these names, as returned by `spelled`, is present."""
        return not names.isdisjoint(self._as_list)

    def may_begin(self, prefix: str) -> bool:
        """Whether a name may begin with this prefix, as returned by `spelled`."""
        return prefix in "\n".join(self._as_list)

    def with_key(self, field: str, scheme: str, key: str) -> RequestHeaders:
        """Return the same with another key in a field, and what was found but for the key."""
        other = RequestHeaders({**self._as_list, field: [scheme + key]})
        other.parts, other.target, other.unread_by = self.parts, self.target, self.unread_by
        if self.key_field == field:
            other.key_field, other.key_text = field, key
        return other

    def set_length(self, digits: bytes) -> None:
        """Replace the Content-Length."""
        self._as_list["Content-Length"] = [digits.decode("latin-1")]
        self._combined_cache.pop("Content-Length", None)

    def body_bytes(self) -> int:
        """Return the size of the body, or CHUNKED; the parser has validated it."""
        fields = self._as_list
        if "Transfer-Encoding" in fields:
            return CHUNKED
        length = fields.get("Content-Length")
        return 0 if length is None else int(length[0])


def headers_of(lines: Sequence[tuple[bytes, bytes]]) -> RequestHeaders:
    """Return the headers of the fields, name and value, in their order."""
    fields: dict[str, list[str]] = {}
    for name, value in lines:
        field = _received[name]
        text = value.rstrip(b" \t").decode("latin-1")
        if field in fields:
            fields[field].append(text)
        else:
            fields[field] = [text]
    return RequestHeaders(fields)
