"""Readers of addresses: of listeners, upstreams and engines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_network
from urllib.parse import urlsplit

from gw.config import readers
from gw.config.faults import Location
from gw.config.nodes import Node, Scalar, described

_LISTEN_ALLOWED = "host:port, such as 127.0.0.1:8080 or [::1]:8080, port 0 to 65535"
# Origins of web pages, and of extensions and applications with schemes of their own.
_ORIGIN = re.compile(
    r"\*|[a-z][a-z0-9+.-]*://[a-z0-9_.-]+(?::\d{1,5})?|[a-z]+://\[[0-9a-f:.]+\](?::\d{1,5})?", re.I
)
_ORIGIN_ALLOWED = "an origin such as https://app.example, without a path, or *"
_HOST_NAME_ALLOWED = "a host's name without a port, such as gw1.example.com"
_NETWORK_ALLOWED = "a network such as 10.1.0.0/16, an address, or a host's name without a port"
_BASE_URL_ALLOWED = "http(s)://host[:port], with a path that all its paths begin with or without"
_ADDRESS = re.compile(r"(?P<host>\[[^\[\]\s]*\]|[^:\[\]\s/@]*):(?P<port>[0-9]{1,5})")
_BASE_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[^\[\]\s]*\]|[^:\[\]\s/@?#]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/(?!\.{1,2}(?:/|\Z))[\w.~!$&'()*+,;=:@%-]+)*)/?",
    re.IGNORECASE | re.ASCII,
)
_PUBLIC_URL_ALLOWED = "empty, or http(s)://host[:port], with a path or without"
_PUBLIC_URL = re.compile(
    r"https?://(?P<host>\[[^\[\]\s]*\]|[^:\[\]\s/@?#]+)(?::(?P<port>[0-9]{1,5}))?(?:/[\w.~/-]*)?",
    re.IGNORECASE | re.ASCII,
)
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?", re.ASCII)
_LOOKS_LIKE_IPV4 = re.compile(r"[0-9.]+", re.ASCII)
MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address to listen on. An IPv6 host has no brackets, port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def listen_address() -> readers.Reader[ListenAddress]:
    """Read `host:port`; an IPv6 host is in brackets."""

    def read(node: Node, at: Location) -> ListenAddress:
        if isinstance(node, Scalar) and node.kind == "whole" and not node.variables:
            raise readers.InvalidValue(
                found=described(node),
                allowed=_LISTEN_ALLOWED,
                hint=f"for port {node.text} of this machine write 127.0.0.1:{node.text}",
            )
        value = readers.written_text(node, _LISTEN_ALLOWED)
        match = _ADDRESS.fullmatch(value)
        host = host_of(match["host"]) if match else None
        if match is None or host is None or int(match["port"]) > MAX_PORT:
            raise readers.InvalidValue(
                found=described(node), allowed=_LISTEN_ALLOWED, hint=_listen_hint(value)
            )
        return ListenAddress(host, int(match["port"]))

    return read


def host_name() -> readers.Reader[str]:
    """Read a host's name, in lower case."""

    def read(node: Node, at: Location) -> str:
        value = readers.written_text(node, _HOST_NAME_ALLOWED)
        if not _HOST_NAME.fullmatch(value):
            raise readers.InvalidValue(found=described(node), allowed=_HOST_NAME_ALLOWED)
        return value.lower().removesuffix(".")

    return read


def network_or_name() -> readers.Reader[str]:
    """Read a network, an address or a host's name, in lower case."""

    def read(node: Node, at: Location) -> str:
        value = readers.written_text(node, _NETWORK_ALLOWED)
        if "/" in value or ":" in value or _LOOKS_LIKE_IPV4.fullmatch(value):
            try:
                return str(ip_network(value))
            except ValueError as error:
                hint = "bits behind the network are set" if "host bits" in str(error) else ""
                raise readers.InvalidValue(
                    found=described(node), allowed=_NETWORK_ALLOWED, hint=hint
                ) from error
        if not _HOST_NAME.fullmatch(value):
            raise readers.InvalidValue(found=described(node), allowed=_NETWORK_ALLOWED)
        return value.lower().removesuffix(".")

    return read


def origin() -> readers.Reader[str]:
    """Read the origin of a page as browsers send it, or `*`."""

    def read(node: Node, at: Location) -> str:
        value = readers.written_text(node, _ORIGIN_ALLOWED)
        if not _ORIGIN.fullmatch(value):
            raise readers.InvalidValue(found=described(node), allowed=_ORIGIN_ALLOWED)
        return value.lower()

    return read


def base_url() -> readers.Reader[str]:
    """Read the scheme, host and path of an upstream, without a trailing slash."""

    def read(node: Node, at: Location) -> str:
        value = readers.written_text(node, _BASE_URL_ALLOWED)
        match = _BASE_URL.fullmatch(value)
        host = host_of(match["host"]) if match else None
        port_is_good = match is not None and 0 < int(match["port"] or 1) <= MAX_PORT
        if match is None or host is None or not port_is_good:
            raise readers.InvalidValue(
                found=described(node), allowed=_BASE_URL_ALLOWED, hint=_base_url_hint(value)
            )
        port = f":{int(match['port'])}" if match["port"] else ""
        return f"{match['scheme'].lower()}://{match['host']}{port}{match['path']}"

    return read


def public_url() -> readers.Reader[str]:
    """Read the gateway's address for clients, or an empty text, without trailing slashes."""
    read_text = readers.text(_PUBLIC_URL_ALLOWED, may_be_empty=True)

    def read(node: Node, at: Location) -> str:
        value = read_text(node, at)
        if not value:
            return ""
        match = _PUBLIC_URL.fullmatch(value)
        port_is_good = match is not None and 0 < int(match["port"] or 1) <= MAX_PORT
        if match is None or host_of(match["host"]) is None or not port_is_good:
            raise readers.InvalidValue(found=described(node), allowed=_PUBLIC_URL_ALLOWED)
        return value.rstrip("/")

    return read


def engine_url(schemes: Sequence[str]) -> readers.Reader[str]:
    """Read the URL of an engine, which may contain a password; empty without an engine."""
    allowed = f"empty, or {' or '.join(f'{scheme}://…' for scheme in schemes)}"
    read_text = readers.text(allowed, may_be_empty=True, secret=True)

    def read(node: Node, at: Location) -> str:
        value = read_text(node, at)
        if value and (not value.startswith(tuple(f"{s}://" for s in schemes)) or " " in value):
            raise readers.InvalidValue(
                found=f"text (not shown) that {_beginning(value)}", allowed=allowed
            )
        return value

    return read


def _beginning(value: str) -> str:
    scheme, separator, _ = value.partition("://")
    if " " in value:
        return "has a space in it"
    if not separator or not scheme.isalnum() or len(scheme) > 20:
        return "is no URL"
    return f"begins with {scheme}://"


def host_of(written: str) -> str | None:
    """Return the host without brackets, or None if it is invalid."""
    try:
        if written.startswith("["):
            return str(IPv6Address(written[1:-1]))
        if _LOOKS_LIKE_IPV4.fullmatch(written):
            return str(IPv4Address(written))
    except AddressValueError:
        return None
    return written if _HOST_NAME.fullmatch(written) and len(written) <= 253 else None


def _listen_hint(value: str) -> str:
    if "://" in value:
        return "write it without http://"
    if value.count(":") > 1 and "[" not in value:
        return "put brackets around an IPv6 address and quotes around the whole"
    if value.startswith((":", "*:")):
        return f"for every interface write 0.0.0.0:{value.rpartition(':')[2]}"
    return ""


def _base_url_hint(value: str) -> str:
    if "://" not in value:
        return "begin with https:// or http://"
    try:
        parts = urlsplit(value)
    except ValueError:
        return ""
    if "@" in parts.netloc:
        return "no user and password in the address: the key belongs in api_key"
    if parts.query or parts.fragment:
        return "no query and no fragment in the address"
    return ""
