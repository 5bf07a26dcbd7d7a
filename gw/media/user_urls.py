"""Which links a client may name for an upstream to fetch (contract for media §4, User URLs).

Nothing here resolves or fetches: a link is refused for its text alone. A host is read as browsers
read it, and as older libraries do: addresses in every spelling, digits and dots of other scripts,
labels in Punycode. Where two readers may differ, neither may reach an address that is not public.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv6Address, IPv6Network
from itertools import product

URL_CHARACTERS_MAX = 2048
HOST_CHARACTERS_MAX = 253
LABEL_CHARACTERS_MAX = 63
# An image may stand in the request itself where that is allowed; its bytes are not looked at.
DATA_HEAD_CHARACTERS_MAX = 256

ALLOWED = "an http or https URL that is publicly reachable"

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_AUTHORITY_END = re.compile(r"[/?#]")
_PORT = re.compile(r"[0-9]{0,5}", re.ASCII)
_DATA = re.compile(r"data:image/[\w.+-]+(?:;[\w.+=-]+)*,", re.IGNORECASE | re.ASCII)
_PRIVATE_NAMES = (".localhost", ".local", ".internal")
# What IDNA takes for a dot.
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE | re.ASCII)
_ASCII_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?", re.ASCII)
# IPv6 that carries an IPv4 address in its last 32 bits: mapped, compatible, NAT64, ISATAP aside.
_CARRIERS = tuple(
    IPv6Network(net) for net in ("::ffff:0:0/96", "::/96", "64:ff9b::/96", "::ffff:0:0:0/96")
)
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_SIX_TO_FOUR = IPv6Network("2002::/16")


def fault_of(url: str) -> str | None:
    """Why a link is refused, in words that follow its name; None for one that is taken."""
    if len(url) > URL_CHARACTERS_MAX:
        return f"is longer than {URL_CHARACTERS_MAX} characters"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return f"expected {ALLOWED}"
    if not url.isprintable() or " " in url or "\\" in url:
        return "must not contain spaces, backslashes or control characters"
    end = _AUTHORITY_END.search(url, scheme.end())
    authority = url[scheme.end() : end.start() if end else len(url)]
    if "@" in authority:
        return "must not contain a user name"
    host, port = _host_and_port(authority)
    if not host or not _PORT.fullmatch(port) or (port and not 0 < int(port) <= 65_535):
        return "must name a host"
    return None if _is_public(host) else "must be publicly reachable: this host is not"


def is_embedded_image(url: str) -> bool:
    """Is this an image that is its own link?"""
    return _DATA.match(url[:DATA_HEAD_CHARACTERS_MAX]) is not None and url.isascii()


def _host_and_port(authority: str) -> tuple[str, str]:
    """The host, brackets included, and what follows its colon."""
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        is_good = bracket and (not rest or rest.startswith(":"))
        return (host + bracket, rest[1:]) if is_good else ("", "")
    host, _, port = authority.partition(":")
    return host, port


def _is_public(host: str) -> bool:
    if host.startswith("["):
        return _is_public_ipv6(host[1:-1])
    name = unicodedata.normalize("NFKC", host).translate(_DOTS).casefold()
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > HOST_CHARACTERS_MAX or not all(map(_is_label, labels)):
        return False
    if f".{name}".endswith(_PRIVATE_NAMES):
        return False
    if _NUMBER.fullmatch(labels[-1]):  # then it is an address, or nothing
        addresses = list(_ipv4_readings(labels))
        return bool(addresses) and all(map(_is_public_ipv4, addresses))
    return True


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
    """Whether it decodes to a label that needs Punycode and is normalised."""
    try:
        label = encoded.encode("ascii").decode("punycode")
    except (UnicodeError, OverflowError, ValueError):
        return False
    return not label.isascii() and unicodedata.normalize("NFKC", label).casefold() == label


def _ipv4_readings(labels: list[str]) -> Iterator[IPv4Address]:
    """Every address that one to four numbers may mean; none where they mean none.

    A number is decimal, hexadecimal after 0x, octal after 0, which other readers take for decimal;
    the last one fills what is left.
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


def _is_public_ipv4(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved


def _is_public_ipv6(text: str) -> bool:
    if "%" in text:
        return False  # a zone is of one machine
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return False
    if any(address in net for net in _CARRIERS):
        return _is_public_ipv4(IPv4Address(int(address) & 0xFFFFFFFF))
    if address in _SIX_TO_FOUR:
        return _is_public_ipv4(IPv4Address(int(address) >> 80 & 0xFFFFFFFF))
    if address in _LOCAL_NAT64 or address.is_multicast or address.is_site_local:
        return False
    return address.is_global and not address.is_reserved
