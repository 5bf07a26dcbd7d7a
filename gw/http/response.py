"""A response's bytes: its head, and how its body is framed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LAST_CHUNK = b"0\r\n\r\n"


class WholeResponse(NamedTuple):
    """A response that needs no handler."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def response_head(
    status: int,
    reason: str,
    headers: Mapping[str, str],
    *,
    is_chunked: bool,
    connection: str | None,
) -> bytes:
    """Write the head of a response; `connection` is a field that the headers do not have.

    Raises ValueError for a header whose value has a line break.
    """
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if is_chunked:
        lines.append("Transfer-Encoding: chunked")
    if connection is not None:
        lines.append(f"Connection: {connection}")
    count = len(lines)
    lines.append("\r\n")
    text = "\r\n".join(lines)
    if text.count("\n") != count + 1 or text.count("\r") != count + 1:
        raise ValueError("a header's value has a line break")
    return text.encode("latin-1")


def chunk_of(data: bytes) -> bytes:
    """Frame a piece, which must not be empty, of a body that is sent in chunks."""
    return b"%x\r\n%b\r\n" % (len(data), data)
