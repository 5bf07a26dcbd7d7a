"""Readers of addresses: of listeners, upstreams and engines; and of mappings and lists.

Users and passwords in URLs are never reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any, Generic, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from gw.config.config import ListenAddress
from gw.config.readers import (
    InvalidValue,
    Items,
    Location,
    Node,
    Reader,
    Scalar,
    Table,
    Unreadable,
    choice,
    closest,
    described,
    quoted,
    text,
    written_text,
)

_LISTEN_ALLOWED = "host:port, such as 127.0.0.1:8080 or [::1]:8080, port 0 to 65535"
# Origins of web pages, and of extensions and applications with schemes of their own.
_ORIGIN = re.compile(
    r"\*|[a-z][a-z0-9+.-]*://[a-z0-9_.-]+(?::\d{1,5})?|[a-z]+://\[[0-9a-f:.]+\](?::\d{1,5})?", re.I
)
_ORIGIN_ALLOWED = "an origin such as https://app.example, without a path, or *"
_HOST_NAME_ALLOWED = "a host's name without a port, such as gw1.example.com"
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
_MAX_PORT = 65_535


def listen_address() -> Reader[ListenAddress]:
    """Read `host:port`; an IPv6 host is in brackets."""

    def read(node: Node, at: Location) -> ListenAddress:
        if isinstance(node, Scalar) and node.kind == "whole" and not node.variables:
            raise InvalidValue(
                found=described(node),
                allowed=_LISTEN_ALLOWED,
                hint=f"for port {node.text} of this machine write 127.0.0.1:{node.text}",
            )
        value = written_text(node, _LISTEN_ALLOWED)
        match = _ADDRESS.fullmatch(value)
        host = _host(match["host"]) if match else None
        if match is None or host is None or int(match["port"]) > _MAX_PORT:
            raise InvalidValue(
                found=described(node), allowed=_LISTEN_ALLOWED, hint=_listen_hint(value)
            )
        return ListenAddress(host, int(match["port"]))

    return read


def host_name() -> Reader[str]:
    """Read a host's name, in lower case."""

    def read(node: Node, at: Location) -> str:
        value = written_text(node, _HOST_NAME_ALLOWED)
        if not _HOST_NAME.fullmatch(value):
            raise InvalidValue(found=described(node), allowed=_HOST_NAME_ALLOWED)
        return value.lower().removesuffix(".")

    return read


def origin() -> Reader[str]:
    """Read the origin of a page as browsers send it, or `*`."""

    def read(node: Node, at: Location) -> str:
        value = written_text(node, _ORIGIN_ALLOWED)
        if not _ORIGIN.fullmatch(value):
            raise InvalidValue(found=described(node), allowed=_ORIGIN_ALLOWED)
        return value.lower()

    return read


def base_url() -> Reader[str]:
    """Read the scheme, host and path of an upstream, without a trailing slash."""

    def read(node: Node, at: Location) -> str:
        value = written_text(node, _BASE_URL_ALLOWED)
        match = _BASE_URL.fullmatch(value)
        host = _host(match["host"]) if match else None
        port_is_good = match is not None and 0 < int(match["port"] or 1) <= _MAX_PORT
        if match is None or host is None or not port_is_good:
            raise InvalidValue(
                found=described(node), allowed=_BASE_URL_ALLOWED, hint=_base_url_hint(value)
            )
        port = f":{int(match['port'])}" if match["port"] else ""
        return f"{match['scheme'].lower()}://{match['host']}{port}{match['path']}"

    return read


def public_url() -> Reader[str]:
    """Read the gateway's address for clients, or an empty text, without trailing slashes."""
    read_text = text(_PUBLIC_URL_ALLOWED, may_be_empty=True)

    def read(node: Node, at: Location) -> str:
        value = read_text(node, at)
        if not value:
            return ""
        match = _PUBLIC_URL.fullmatch(value)
        port_is_good = match is not None and 0 < int(match["port"] or 1) <= _MAX_PORT
        if match is None or _host(match["host"]) is None or not port_is_good:
            raise InvalidValue(found=described(node), allowed=_PUBLIC_URL_ALLOWED)
        return value.rstrip("/")

    return read


def engine_url(schemes: Sequence[str]) -> Reader[str]:
    """Read the URL of an engine, which may contain a password; empty without an engine."""
    allowed = f"empty, or {' or '.join(f'{scheme}://…' for scheme in schemes)}"
    read_text = text(allowed, may_be_empty=True, secret=True)

    def read(node: Node, at: Location) -> str:
        value = read_text(node, at)
        if value and (not value.startswith(tuple(f"{s}://" for s in schemes)) or " " in value):
            raise InvalidValue(found=f"text (not shown) that {_beginning(value)}", allowed=allowed)
        return value

    return read


def _beginning(value: str) -> str:
    scheme, separator, _ = value.partition("://")
    if " " in value:
        return "has a space in it"
    if not separator or not scheme.isalnum() or len(scheme) > 20:
        return "is no URL"
    return f"begins with {scheme}://"


def _host(written: str) -> str | None:
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


# Reads `redis_url`: the address of the state that processes share.
#
# Whatever the client library would reject on connecting is reported here. The URL is never
# reported, since it may contain a password.

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


# Readers of mappings and lists: they apply a table of keys and report each refused part.
#
# A refused part is omitted and reading continues, so that one run reports every fault. Values keep
# their locations, for checks of more than one value (`relations.py`).

T = TypeVar("T")


class Required:
    """A marker in place of a default: the key is required."""


REQUIRED = Required()


@dataclass(frozen=True, slots=True)
class Key:
    """The reader of a key, and the default of an absent one."""

    read: Reader[Any]
    default: Any
    inside: Schema | None = None  # the keys of its mapping


Schema = Mapping[str, Key]


@dataclass(frozen=True, slots=True)
class Located(Generic[T]):
    """A value and its location."""

    value: T
    at: Location


@dataclass(frozen=True, slots=True)
class Section:
    """The values read from a mapping; `values` lacks the keys whose value was refused."""

    values: Mapping[str, Any]
    at: Location
    locations: Mapping[str, Location]  # of the keys that are written

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a key, or `default` if it was refused."""
        return self.values.get(name, default)

    def location(self, name: str) -> Location:
        """Return the location of a key or, if it is absent, its location in the mapping."""
        return self.locations.get(name) or self.at.key(name)


def attempt(read: Reader[T], node: Node, at: Location) -> list[T]:
    """Return a value in a list; report a refused one and return an empty list."""
    if isinstance(node, Unreadable):
        return []
    try:
        return [read(node, at)]
    except InvalidValue as refused:
        at.blame(found=refused.found, allowed=refused.allowed, hint=refused.hint)
        return []


def section(schema: Schema) -> Key:
    """A key with a mapping, which may be absent."""
    return Key(mapping(schema), None, inside=schema)


def mapping(schema: Schema) -> Reader[Section]:
    """Read a mapping by its table of keys; a null value is an empty mapping."""
    allowed = f"a mapping of {', '.join(schema)}"

    def read(node: Node, at: Location) -> Section:
        if isinstance(node, Scalar) and node.is_nothing:
            node = Table({}, node.mark)
        if not isinstance(node, Table):
            raise InvalidValue(found=described(node), allowed=allowed)
        meant = _blame_unknown_keys(node, schema, at)
        locations = {name: at.key(name, entry.mark) for name, entry in node.entries.items()}
        values: dict[str, Any] = {}
        for name, key in schema.items():
            entry = node.entries.get(name)
            if entry is not None:
                found = attempt(key.read, entry.value, locations[name])
                values.update((name, value) for value in found)
            elif key.inside is not None:
                values[name] = key.read(Table({}, node.mark), at.key(name))
            elif key.default is not REQUIRED:
                values[name] = key.default
            elif name not in meant:
                at.key(name).blame(found="nothing", allowed="a value: this key is required")
        return Section(values, at, locations)

    return read


def by_name(read: Reader[T], what: str, *, most: int = 100) -> Reader[dict[str, T]]:
    """Read a mapping of the operator's own names to values of one kind."""
    allowed = f"a mapping of names to values, {what}, 1 to {most} of them"

    def read_names(node: Node, at: Location) -> dict[str, T]:
        if not isinstance(node, Table) or not 0 < len(node.entries) <= most:
            raise InvalidValue(found=described(node), allowed=allowed)
        return {
            name: value
            for name, entry in node.entries.items()
            for value in attempt(read, entry.value, at.key(name, entry.mark))
        }

    return read_names


def listing(read: Reader[T], allowed: str) -> Reader[tuple[T, ...]]:
    """Read a list of values; a null value is an empty list."""

    def read_list(node: Node, at: Location) -> tuple[T, ...]:
        if isinstance(node, Scalar) and node.is_nothing:
            return ()
        if not isinstance(node, Items):
            hint = "write it as a list, in [ ] or one per line after a dash"
            raise InvalidValue(found=described(node), allowed=allowed, hint=hint)
        return tuple(
            value
            for index, item in enumerate(node.items)
            for value in attempt(read, item, at.item(index, item.mark))
        )

    return read_list


def distinct(read: Reader[str], allowed: str, *, least: int = 0) -> Reader[tuple[str, ...]]:
    """Read a list of distinct values, at least `least`."""
    read_list = listing(placed(read), allowed)

    def read_distinct(node: Node, at: Location) -> tuple[str, ...]:
        values = read_list(node, at)
        is_empty = isinstance(node, Scalar) or (isinstance(node, Items) and not node.items)
        if is_empty and least:
            raise InvalidValue(found=described(node), allowed=f"{allowed}, with at least {least}")
        seen: dict[str, Location] = {}
        for item in values:
            if item.value in seen:
                item.at.blame(found=f"{quoted(item.value)} again", allowed="each value once")
            seen.setdefault(item.value, item.at)
        return tuple(seen)

    return read_distinct


def choices(options: Sequence[str], *, least: int = 0) -> Reader[tuple[str, ...]]:
    """Read a list of distinct values out of `options`."""
    return distinct(choice(options), f"a list of {', '.join(options)}", least=least)


def placed(read: Reader[T]) -> Reader[Located[T]]:
    """Return a reader that keeps the value's location."""
    return lambda node, at: Located(read(node, at), at)


def _blame_unknown_keys(node: Table, schema: Schema, at: Location) -> set[str]:
    """Report keys that the schema lacks; return the keys that were probably meant."""
    meant = set()
    for name, entry in node.entries.items():
        if name not in schema:
            guess = closest(name, schema)
            at.key(name, entry.mark).blame(
                found=f"the unknown key {quoted(name)}",
                allowed=f"the keys {', '.join(schema)}",
                hint=_key_hint(name, guess, schema),
            )
            meant.add(guess or "")
    return meant


def _key_hint(name: str, guess: str | None, schema: Schema) -> str:
    for parent, key in schema.items():
        if key.inside is not None and name in key.inside:
            return f"{name} belongs under {parent}"
    return f"did you mean {guess}?" if guess else ""
