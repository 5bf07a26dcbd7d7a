"""Where a request goes and how its head is written: from a URL to an origin and to bytes."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from channels.errors import UpstreamUnreachable
from channels.http.interfaces import UpstreamRequest

_DEFAULT_PORTS = {"http": 80, "https": 443}
_TARGET = re.compile(r"[!-~]*", re.ASCII)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class Origin(NamedTuple):
    """One server: requests to the same one may share connections."""

    scheme: str  # http or https
    host: str  # a name, or an address without brackets
    port: int

    @property
    def is_secure(self) -> bool:
        """Whether it is spoken to in TLS."""
        return self.scheme == "https"


class ParsedUrl(NamedTuple):
    """A URL, taken apart: nothing of its target is quoted anew."""

    origin: Origin
    target: str


def address_of(url: str) -> ParsedUrl:
    """Take an absolute URL apart. Raises UpstreamUnreachable for one that leads nowhere."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UpstreamUnreachable(f"{_shown(url)}: {error}") from error
    if parts.scheme not in _DEFAULT_PORTS or not host or not host.isascii():
        raise UpstreamUnreachable(f"{_shown(url)}: no address of a server")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET.fullmatch(target):
        raise UpstreamUnreachable(f"{_shown(url)}: a character that no request line may have")
    return ParsedUrl(Origin(parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme]), target)


def _shown(url: str) -> str:
    """A URL without its query, which may hold a key."""
    return url.partition("?")[0]


def head_of(
    method: str,
    address: ParsedUrl,
    headers: tuple[tuple[str, str], ...],
    *,
    user_agent: str,
) -> bytes:
    """The head of a request, up to its Content-Length. Raises UpstreamUnreachable.

    A header that cannot be sent is one of the configuration's: that channel leads nowhere.
    """
    origin = address.origin
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    if origin.port != _DEFAULT_PORTS[origin.scheme]:
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
    """A whole head: no request but a GET leaves its length unsaid."""
    # The parser of responses cannot be told that one to HEAD has no body.
    assert request.method != "HEAD"
    size = len(request.body)
    more = request.proof if request.trace is None else request.proof + request.trace.header
    if not size and request.method == "GET":
        return b"%b%b\r\n" % (head, more)
    return b"%b%bContent-Length: %d\r\n\r\n" % (head, more, size)
