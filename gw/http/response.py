"""The bytes of a response: its head, and the framing of its body. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from tornado.httputil import format_timestamp


@lru_cache(1)
def http_date(unix_second: int) -> str:
    """Return the text of HTTP's `Date` for a time."""
    return format_timestamp(unix_second)


LAST_CHUNK = b"0\r\n\r\n"


class WholeResponse(NamedTuple):
    """A response that needs no handler."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def response_head(status: int, reason: str, headers: Mapping[str, str]) -> bytes:
    """Return the head of a response. Raises ValueError for a value that has a line break."""
    lines = "".join([f"\r\n{name}: {value}" for name, value in headers.items()])
    text, breaks = f"HTTP/1.1 {status} {reason}{lines}\r\n\r\n", len(headers) + 2
    if text.count("\n") != breaks or text.count("\r") != breaks:
        raise ValueError("a header's value has a line break")
    return text.encode("latin-1")


def chunk_of(data: bytes) -> bytes:
    """Frame a piece, which must not be empty, of a body that is sent in chunks."""
    return b"%x\r\n%b\r\n" % (len(data), data)
