"""Links to results: when a pre-signed one stops working, and which may be fetched from.

Storages write the end into the query: a lifetime beside the date of signing (X-Amz-Expires and
others like it), an instant in Unix seconds (Expires), or an instant in words (se).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

# Longer texts are no links, or hold the file itself.
LINK_CHARACTERS_MAX = 8192
# What a link states is believed within these bounds; storages sign for a week at most.
LASTS_SECONDS_MAX = 366 * 86_400.0
_SIGNED_AT = "%Y%m%dT%H%M%SZ"


def expires_at(url: str) -> float | None:
    """Unix seconds; None where the link does not state it in a way that is known."""
    try:
        query = {name.lower(): value for name, value in parse_qsl(urlsplit(url).query)}
        for name, value in query.items():
            maker, _, last = name.rpartition("-")
            if last == "expires" and maker.startswith("x-") and (at := query.get(f"{maker}-date")):
                return _signed(at) + float(int(value))
        if "expires" in query:
            return float(int(query["expires"]))
        if "se" in query and "sig" in query:
            at_end = datetime.fromisoformat(query["se"])
            return (at_end if at_end.tzinfo else at_end.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return None


def is_link(text: str) -> bool:
    """Is this an address to fetch something from?"""
    return (
        text[:8].lower().startswith(("http://", "https://"))
        and len(text) <= LINK_CHARACTERS_MAX
        and text.isprintable()
        and " " not in text
    )


def lasts_until(urls: Sequence[str], *, now: float, usual_seconds: float) -> float | None:
    """When the first of these links stops working; a link that does not state so lasts as usual.

    None without links.
    """
    return min((_end(url, now, usual_seconds) for url in urls), default=None)


def _end(url: str, now: float, usual_seconds: float) -> float:
    stated = expires_at(url)
    if stated is None or not now < stated <= now + LASTS_SECONDS_MAX:
        return now + usual_seconds
    return stated


def _signed(at: str) -> float:
    return datetime.strptime(at, _SIGNED_AT).replace(tzinfo=UTC).timestamp()


# How far an address reaches, and which ones a result may be fetched from.
#
# One table for the links that clients name for upstreams (`gw/media/reading.py`) and for those
# that upstreams name for us. The latter may lead to the whole internet, and to nothing within
# one's own network, whatever name leads there. The exception is a channel that is itself in there,
# by its configured address: its results may come from its own address, and from others of the same
# kind, as a storage beside it has. Link-local addresses, where clouds keep their credentials, are
# never of that kind.

Scope = Literal["global", "private", "loopback", "other"]

# Addresses that carry one of version 4 in their last 32 bits, for which they stand: mapped,
# compatible (RFC 4291), NAT64 (RFC 6052), SIIT (RFC 2765).
_CARRIERS = tuple(
    IPv6Network(net) for net in ("::ffff:0:0/96", "::/96", "64:ff9b::/96", "::ffff:0:0:0/96")
)
# NAT64 of one's own network, which may translate to anything (RFC 8215).
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")


def scope_of(text: str) -> Scope:
    """How far an address reaches; of one that stands for another, how far that one does."""
    try:
        address = _meant(ip_address(text))
    except ValueError:
        return "other"
    if "%" in text:
        return "other"  # a zone is of one machine
    if address.is_loopback:
        return "loopback"
    if isinstance(address, IPv6Address) and (address in _LOCAL_NAT64 or address.is_site_local):
        return "private"
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return "other"
    if address.is_reserved:
        return "other"
    return "global" if address.is_global else "private"


def allowing(channel_addresses: Iterable[str]) -> Callable[[str], bool]:
    """What may be connected to for a channel that has these addresses."""
    own = frozenset(channel_addresses)
    scopes = {scope_of(address) for address in own} - {"other"} | {"global"}

    def allows(address: str) -> bool:
        return address in own or scope_of(address) in scopes

    return allows


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The address of version 4 that one of version 6 stands for."""
    if isinstance(address, IPv4Address) or address.is_loopback or address.is_unspecified:
        return address
    if any(address in network for network in _CARRIERS):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address if address.sixtofour is None else address.sixtofour
