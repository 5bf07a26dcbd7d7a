"""Which addresses a result may be fetched from: it is an upstream that names them.

The whole internet, and nothing within one's own network, whatever name leads there. The exception
is a channel that is itself in there, by its configured address: its results may come from its own
address, and from others of the same kind, as a storage beside it has. Link-local addresses, where
clouds keep their credentials, are never of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Literal

Scope = Literal["global", "private", "loopback", "other"]

# Addresses that carry one of version 4 in their last 32 bits, for which they stand (RFC 6052).
_TRANSLATED = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/96"))


def scope_of(text: str) -> Scope:
    """How far an address reaches; of one that stands for another, how far that one does."""
    try:
        address = _meant(ip_address(text.partition("%")[0]))
    except ValueError:
        return "other"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return "other"
    if address.is_global:
        return "global"
    if isinstance(address, IPv4Address) and address.is_reserved:
        return "other"
    return "private"


def allowing(channel_addresses: Iterable[str]) -> Callable[[str], bool]:
    """What may be connected to for a channel that has these addresses."""
    own = frozenset(channel_addresses)
    scopes = {scope_of(address) for address in own} - {"other"} | {"global"}

    def allows(address: str) -> bool:
        return address in own or scope_of(address) in scopes

    return allows


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The address of version 4 that one of version 6 stands for."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
