"""Validates links that an upstream will fetch (reference 7.1).

Nothing is resolved or fetched here: a link is refused by its text alone (`channels/named_host.py`).
Every interpretation of an ambiguous host must be public.
"""

from __future__ import annotations

import re

from channels.address_scope import scope_of
from channels.named_host import URL_CHARACTERS_MAX, UrlFault, authority_of, host_in

# An image may be embedded in the request where allowed; its bytes are not validated.
DATA_HEAD_CHARACTERS_MAX = 256

ALLOWED = "an http or https URL that is publicly reachable"

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_DATA = re.compile(r"data:image/[\w.+-]+(?:;[\w.+=-]+)*,", re.IGNORECASE | re.ASCII)
# Suffixes of non-public names: reserved names, and those of the host itself in /etc/hosts.
_PRIVATE_NAMES = (
    *(".localhost", ".local", ".internal", ".localdomain", ".home.arpa"),
    *(".localhost4", ".localhost6", ".localdomain4", ".localdomain6"),
    *(".ip6-localhost", ".ip6-loopback", ".ip6-localnet", ".ip6-mcastprefix"),
    *(".ip6-allnodes", ".ip6-allrouters", ".ip6-allhosts"),
)


def fault_of(url: str) -> str | None:
    """Return the reason to refuse a link, which follows its name; None for a valid one."""
    if len(url) > URL_CHARACTERS_MAX:
        return f"is longer than {URL_CHARACTERS_MAX} characters"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return f"expected {ALLOWED}"
    try:
        authority = authority_of(url, scheme.end())
        is_public = _is_public(authority)
    except UrlFault as fault:
        return str(fault)
    return None if is_public else "must be publicly reachable: this host is not"


def is_embedded_image(url: str) -> bool:
    """Whether a link is an embedded image."""
    return _DATA.match(url[:DATA_HEAD_CHARACTERS_MAX]) is not None and url.isascii()


def _is_public(authority: str) -> bool:
    """Whether the host of an authority is public. Raises UrlFault."""
    host = host_in(authority)
    if host is None:
        return False
    if host.name:
        return not f".{host.name}".endswith(_PRIVATE_NAMES)
    return all(scope_of(one) == "global" for one in host.addresses)
