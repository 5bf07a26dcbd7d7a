"""Reads `redis_url`: the address of the state that processes share.

Whatever the client library would reject on connecting is reported here. The URL is never
reported, since it may contain a password.
"""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from gw.config.addresses import engine_url
from gw.config.faults import Location
from gw.config.nodes import Node
from gw.config.readers import InvalidValue, Reader

_SCHEMES = ("redis", "rediss", "unix")
_ALLOWED = (
    "empty, or redis://[user:password@]host[:port][/number], rediss:// for TLS,"
    " or unix:///path[?db=number]"
)
_NUMBER = re.compile(r"[0-9]{1,5}", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?", re.ASCII)
# The query's parameters, by scheme.
_COMMON = {"db", "socket_timeout"}
_OPTIONS = {
    "redis": _COMMON,
    "rediss": _COMMON | {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"},
    "unix": _COMMON | {"username", "password"},
}


def redis_url() -> Reader[str]:
    """Read the URL of Redis, or an empty text; `socket_timeout` is in seconds."""
    read_url = engine_url(_SCHEMES)

    def read(node: Node, at: Location) -> str:
        url = read_url(node, at)
        fault = _fault(url) if url else None
        if fault is not None:
            raise InvalidValue(found=f"a URL (not shown) {fault}", allowed=_ALLOWED)
        return url

    return read


def _fault(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "whose host and port cannot be read"
    if parts.fragment:
        return "with a # in it (written %23 in a password)"
    where = _fault_of_socket(parts) if parts.scheme == "unix" else _fault_of_host(parts, port)
    return where or _fault_of_options(parts)


def _fault_of_socket(parts: SplitResult) -> str | None:
    if parts.hostname or not parts.path.strip("/"):
        return "without the path of a socket: three slashes begin it"
    return None


def _fault_of_host(parts: SplitResult, port: int | None) -> str | None:
    if not parts.hostname:
        return "without a host"
    if port == 0:
        return "with port 0"
    database = unquote(parts.path).strip("/")
    if database and not _NUMBER.fullmatch(database):
        return "whose path is no number of a database"
    return None


def _fault_of_options(parts: SplitResult) -> str | None:
    known = _OPTIONS[parts.scheme]
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            return f"with an option that is none of {', '.join(sorted(known))}"
        if name == "db" and not _NUMBER.fullmatch(value):
            return "whose db is no number"
        if name == "socket_timeout" and not (_SECONDS.fullmatch(value) and float(value) > 0):
            return "whose socket_timeout is no number of seconds above 0"
    return None
