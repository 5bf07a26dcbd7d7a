"""The host that a URL names, by the URL's text alone: nothing is resolved here.

A host is parsed like in browsers, and like in older libraries: addresses in every notation, digits
and dots of other scripts, labels in Punycode.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from itertools import product

URL_CHARACTERS_MAX = 2048
HOST_CHARACTERS_MAX = 253
LABEL_CHARACTERS_MAX = 63

_AUTHORITY_END = re.compile(r"[/?#]")
_PORT = re.compile(r"[0-9]{0,5}", re.ASCII)
# The dots of IDNA.
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE | re.ASCII)
_ASCII_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?", re.ASCII)


class UrlFault(Exception):
    """What is wrong with a URL; the text follows its name."""


@dataclass(frozen=True, slots=True)
class NamedHost:
    """A name in lower case, or every address that a literal may mean: at least one."""

    name: str = ""
    addresses: tuple[str, ...] = ()


def authority_of(url: str, begin: int) -> str:
    """Return the authority of a URL whose scheme ends at `begin`. Raises UrlFault."""
    if not url.isprintable() or " " in url or "\\" in url:
        raise UrlFault("must not contain spaces, backslashes or control characters")
    end = _AUTHORITY_END.search(url, begin)
    authority = url[begin : end.start() if end else len(url)]
    if "@" in authority:
        raise UrlFault("must not contain a user name")
    return authority


def host_in(authority: str) -> NamedHost | None:
    """Return the host of an authority, None for one that is no host's. Raises UrlFault."""
    host, port = _host_and_port(authority)
    if not host or not _PORT.fullmatch(port) or (port and not 0 < int(port) <= 65_535):
        raise UrlFault("must name a host")
    if host.startswith("["):
        return _bracketed(host[1:-1])
    name = unicodedata.normalize("NFKC", host).translate(_DOTS).casefold()
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > HOST_CHARACTERS_MAX or not all(map(_is_label, labels)):
        return None
    if _NUMBER.fullmatch(labels[-1]):  # then it is an address or invalid
        addresses = tuple(str(one) for one in _ipv4_readings(labels))
        return NamedHost(addresses=addresses) if addresses else None
    return NamedHost(name=name)


def _bracketed(text: str) -> NamedHost | None:
    try:
        IPv6Address(text)
    except ValueError:
        return None
    return NamedHost(addresses=(text,))


def _host_and_port(authority: str) -> tuple[str, str]:
    """Return the host, with brackets, and the text after its colon."""
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        is_good = bracket and (not rest or rest.startswith(":"))
        return (host + bracket, rest[1:]) if is_good else ("", "")
    host, _, port = authority.partition(":")
    return host, port


def _is_label(label: str) -> bool:
    if not 0 < len(label) <= LABEL_CHARACTERS_MAX:
        return False
    if not label.isascii():
        # Letters, digits and marks of other scripts.
        return all(c in "-_" or unicodedata.category(c)[0] in "LMN" for c in label)
    if not _ASCII_LABEL.fullmatch(label):
        return False
    return not label.startswith("xn--") or _is_punycode(label.removeprefix("xn--"))


def _is_punycode(encoded: str) -> bool:
    """Whether a label is valid, normalised Punycode of a label that needs it."""
    try:
        label = encoded.encode("ascii").decode("punycode")
    except (UnicodeError, OverflowError, ValueError):
        return False
    return not label.isascii() and unicodedata.normalize("NFKC", label).casefold() == label


def _ipv4_readings(labels: list[str]) -> Iterator[IPv4Address]:
    """Yield every address that one to four numbers may mean.

    A number is decimal, hexadecimal after 0x, octal after 0, which other parsers read as decimal;
    the last one fills the remaining bytes.
    """
    if len(labels) > 4 or not all(map(_NUMBER.fullmatch, labels)):
        return
    for numbers in product(*map(_number_readings, labels)):
        *firsts, last = numbers
        if all(one < 256 for one in firsts) and last < 256 ** (5 - len(numbers)):
            value = last
            for position, one in enumerate(firsts):
                value += one << (8 * (3 - position))
            yield IPv4Address(value)


def _number_readings(label: str) -> set[int]:
    if label.startswith("0x"):
        return {int(label[2:] or "0", 16)}
    readings = {int(label)}
    if label.startswith("0") and not set(label) & {"8", "9"}:
        readings.add(int(label, 8))
    return readings
