"""From a URL to its origin: the server to connect to, and the target of the request."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from channels.errors import UpstreamUnreachable

DEFAULT_PORTS = {"http": 80, "https": 443}
_TARGET = re.compile(r"[!-~]*", re.ASCII)


class Origin(NamedTuple):
    """One server: requests to the same origin may share connections."""

    scheme: str  # http or https
    host: str  # a name, or an address without brackets
    port: int

    @property
    def is_secure(self) -> bool:
        """Whether it uses TLS."""
        return self.scheme == "https"


class ParsedUrl(NamedTuple):
    """A URL split in two; its target is not quoted again."""

    origin: Origin
    target: str


def address_of(url: str) -> ParsedUrl:
    """Split an absolute URL. Raises UpstreamUnreachable for an invalid one."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UpstreamUnreachable(f"{_shown(url)}: {error}") from error
    if parts.scheme not in DEFAULT_PORTS or not host or not host.isascii():
        raise UpstreamUnreachable(f"{_shown(url)}: no address of a server")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET.fullmatch(target):
        raise UpstreamUnreachable(f"{_shown(url)}: a character that no request line may have")
    return ParsedUrl(Origin(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme]), target)


def _shown(url: str) -> str:
    """Return a URL without its query, which may hold a key."""
    return url.partition("?")[0]
