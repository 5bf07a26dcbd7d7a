"""Validates links that an upstream will fetch (reference 7.1).

Nothing is resolved or fetched here: a link is refused by its text alone. A host is parsed like in
browsers, and like in older libraries: addresses in every notation, digits and dots of other
scripts, labels in Punycode. Every interpretation of an ambiguous host must be public.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import product

from channels.address_scope import scope_of

URL_CHARACTERS_MAX = 2048
HOST_CHARACTERS_MAX = 253
LABEL_CHARACTERS_MAX = 63
# An image may be embedded in the request where allowed; its bytes are not validated.
DATA_HEAD_CHARACTERS_MAX = 256

ALLOWED = "an http or https URL that is publicly reachable"

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_AUTHORITY_END = re.compile(r"[/?#]")
_PORT = re.compile(r"[0-9]{0,5}", re.ASCII)
_DATA = re.compile(r"data:image/[\w.+-]+(?:;[\w.+=-]+)*,", re.IGNORECASE | re.ASCII)
# Suffixes of non-public names: reserved names, and those of the host itself in /etc/hosts.
_PRIVATE_NAMES = (
    *(".localhost", ".local", ".internal", ".localdomain", ".home.arpa"),
    *(".localhost4", ".localhost6", ".localdomain4", ".localdomain6"),
    *(".ip6-localhost", ".ip6-loopback", ".ip6-localnet", ".ip6-mcastprefix"),
    *(".ip6-allnodes", ".ip6-allrouters", ".ip6-allhosts"),
)
# The dots of IDNA.
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE | re.ASCII)
_ASCII_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?", re.ASCII)


def fault_of(url: str) -> str | None:
    """Return the reason to refuse a link, which follows its name; None for a valid one."""
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
    """Whether a link is an embedded image."""
    return _DATA.match(url[:DATA_HEAD_CHARACTERS_MAX]) is not None and url.isascii()


def _host_and_port(authority: str) -> tuple[str, str]:
    """Return the host, with brackets, and the text after its colon."""
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        is_good = bracket and (not rest or rest.startswith(":"))
        return (host + bracket, rest[1:]) if is_good else ("", "")
    host, _, port = authority.partition(":")
    return host, port


def _is_public(host: str) -> bool:
    if host.startswith("["):
        return ":" in host and _is_public_address(host[1:-1])
    name = unicodedata.normalize("NFKC", host).translate(_DOTS).casefold()
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > HOST_CHARACTERS_MAX or not all(map(_is_label, labels)):
        return False
    if f".{name}".endswith(_PRIVATE_NAMES):
        return False
    if _NUMBER.fullmatch(labels[-1]):  # then it is an address or invalid
        addresses = list(_ipv4_readings(labels))
        return bool(addresses) and all(_is_public_address(str(one)) for one in addresses)
    return True


def _is_public_address(text: str) -> bool:
    return scope_of(text) == "global"


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
