"""Where webhooks may be sent to: the addresses of the internet, over TLS, and what is allowed.

`webhooks.allow` of the configuration lifts both for some networks and names. A URL is refused by
its text when it is written; its addresses are judged at each look-up, since names may change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from channels.address_scope import meant, scope_of
from channels.http.dialer import Allows
from channels.http.names import look_up
from channels.named_host import URL_CHARACTERS_MAX, NamedHost, UrlFault, authority_of, host_in

Network = IPv4Network | IPv6Network

_SCHEME = re.compile(r"(https?)://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Targets:
    """What is allowed beside global addresses over TLS. Names are in lower case."""

    networks: tuple[Network, ...] = ()
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, allowed: Sequence[str]) -> Targets:
        """Return those of networks (or single addresses) and names."""
        networks: list[Network] = []
        names: set[str] = set()
        for text in allowed:
            try:
                networks.append(ip_network(text, strict=False))
            except ValueError:
                names.add(text.lower().removesuffix("."))
        return cls(tuple(networks), frozenset(names))

    def fault_of(self, url: str) -> str | None:
        """Return the reason to refuse a URL by its text, which follows its name; None: none."""
        if len(url) > URL_CHARACTERS_MAX:
            return f"is longer than {URL_CHARACTERS_MAX} characters"
        if not url.isascii():
            return "must be ASCII: write its host in Punycode, and the rest percent-encoded"
        scheme = _SCHEME.match(url)
        if scheme is None:
            return "must begin with https://"
        try:
            host = host_in(authority_of(url, scheme.end()))
        except UrlFault as fault:
            return str(fault)
        if host is None:
            return "must name a host"
        if "#" in url:
            return "must not have a fragment"
        return self._fault_of_host(host, is_secure=scheme[1].lower() == "https")

    async def leads_elsewhere(self, url: str) -> bool:
        """Whether the host of a URL without TLS has an address, now, that is in no allowed network.

        Of a good URL. Any other host is judged when something is sent.
        """
        parts = urlsplit(url)
        if parts.scheme == "https":
            return False
        allows = self.allowing(url)
        try:
            found = await look_up(parts.hostname or "", parts.port or 80)
        except (OSError, UnicodeError):
            return parts.hostname not in self.names
        return not all(allows(str(one[4][0])) for one in found)

    def _fault_of_host(self, host: NamedHost, *, is_secure: bool) -> str | None:
        if host.name in self.names:
            return None
        if host.name:
            # Without TLS, a name leads into an allowed network or nowhere.
            is_good = is_secure or bool(self.networks)
            return None if is_good else "must begin with https://"
        if all(map(self._is_listed, host.addresses)):
            return None
        if not is_secure:
            return "must begin with https://"
        if all(scope_of(one) == "global" or self._is_listed(one) for one in host.addresses):
            return None
        return "must be publicly reachable: this address is not"

    def allowing(self, url: str) -> Allows:
        """Return the test of the addresses that the host of a URL may have."""
        parts = urlsplit(url)
        if (parts.hostname or "").removesuffix(".") in self.names:
            return lambda address: True
        if parts.scheme != "https":
            return self._is_listed
        return lambda address: scope_of(address) == "global" or self._is_listed(address)

    def _is_listed(self, address: str) -> bool:
        """Whether an address is in an allowed network, itself or embedded in another."""
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(found in one or meant(found) in one for one in self.networks)
