"""Encodes the head of a request."""

from __future__ import annotations

import re

from channels.errors import UpstreamUnreachable
from channels.http.interfaces import UpstreamRequest
from channels.http.origin import DEFAULT_PORTS, ParsedUrl

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


def head_of(
    method: str,
    address: ParsedUrl,
    headers: tuple[tuple[str, str], ...],
    *,
    user_agent: str,
) -> bytes:
    """Encode the head of a request, up to its Content-Length. Raises UpstreamUnreachable.

    Invalid headers come from the configuration: the channel is unreachable.
    """
    origin = address.origin
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    if origin.port != DEFAULT_PORTS[origin.scheme]:
        host = f"{host}:{origin.port}"
    lines = [f"{method} {address.target} HTTP/1.1"]
    for name, value in (
        ("Host", host),
        *headers,
        ("Accept-Encoding", "identity"),
        ("User-Agent", user_agent),
    ):
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UpstreamUnreachable(f"header {name!r} has a character that none may have")
        lines.append(f"{name}: {value}")
    return "\r\n".join((*lines, "")).encode()


def with_length(head: bytes, request: UpstreamRequest) -> bytes:
    """Complete a head: every request except a GET without a body has a Content-Length."""
    size = len(request.body)
    more = request.proof if request.trace is None else request.proof + request.trace.header
    if not size and request.method == "GET":
        return b"%b%b\r\n" % (head, more)
    return b"%b%bContent-Length: %d\r\n\r\n" % (head, more, size)
