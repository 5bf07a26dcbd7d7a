"""The scope of an address, and the addresses from which a result may be fetched.

One table for links that clients send to upstreams (`gw/media/fields.py`) and for those that
upstreams return. The latter may lead to the whole internet, but not into one's own network, under
any name. The exception is a channel that is itself there, by its configured address: its results
may be fetched from its own address, and from others of the same scope, such as a storage beside
it. Link-local addresses, where clouds have their credentials, are never included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Literal

Scope = Literal["global", "private", "loopback", "other"]

# IPv6 networks that embed an IPv4 address in their last 32 bits: mapped, compatible (RFC 4291),
# NAT64 (RFC 6052), SIIT (RFC 2765).
_CARRIERS = tuple(
    IPv6Network(net) for net in ("::ffff:0:0/96", "::/96", "64:ff9b::/96", "::ffff:0:0:0/96")
)
# NAT64 of one's own network, which may translate to anything (RFC 8215).
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")


def scope_of(text: str) -> Scope:
    """Return the scope of an address; of an embedded one, if it embeds another."""
    try:
        address = meant(ip_address(text))
    except ValueError:
        return "other"
    if "%" in text:
        return "other"  # a zone is local to one machine
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
    """Return a test of the addresses that a channel at these addresses may connect to."""
    own = frozenset(channel_addresses)
    scopes = {scope_of(address) for address in own} - {"other"} | {"global"}

    def allows(address: str) -> bool:
        return address in own or scope_of(address) in scopes

    return allows


def meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address embedded in an IPv6 one."""
    if isinstance(address, IPv4Address) or address.is_loopback or address.is_unspecified:
        return address
    if any(address in network for network in _CARRIERS):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address if address.sixtofour is None else address.sixtofour
