"""How a channel's key is sent: the values of `auth`, and the channel's own headers and query.

A key is sent in one header or in one parameter of the query; if it is empty, or `auth` is `none`,
in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import urlencode

from msgspec import Struct

from channels.registry import ChannelSpec

Pairs: TypeAlias = tuple[tuple[str, str], ...]
# Returns the header for a key.
KeyHeader: TypeAlias = Callable[[str], tuple[str, str]]

NO_AUTH = "none"
QUERY_AUTH = "query:"  # and the parameter's name


def bearer(api_key: str) -> tuple[str, str]:
    """Return the header of most upstreams."""
    return ("Authorization", f"Bearer {api_key}")


# By name, in the order in which they are listed for operators.
KEY_HEADERS: Mapping[str, KeyHeader] = MappingProxyType(
    {
        "bearer": bearer,
        "x-api-key": lambda api_key: ("x-api-key", api_key),
        "api-key": lambda api_key: ("api-key", api_key),
        "x-goog-api-key": lambda api_key: ("x-goog-api-key", api_key),
    }
)


class Credentials(Struct, frozen=True):
    """The additions of a channel to each of its requests.

    `key_headers` has the key, `query` is encoded, without question mark. `fixed` are the channel's
    own headers, `fixed_names` their names in lower case: they replace other headers of that name.
    """

    key_headers: Pairs
    query: str
    fixed: Pairs
    fixed_names: frozenset[str]

    def others(self, headers: Pairs) -> Pairs:
        """Return the headers that no fixed one replaces."""
        if not self.fixed:
            return headers
        return tuple(pair for pair in headers if pair[0].lower() not in self.fixed_names)

    def url(self, url: str) -> str:
        """Return a URL with the channel's query."""
        if not self.query:
            return url
        return f"{url}{'&' if '?' in url else '?'}{self.query}"


def credentials_of(channel: ChannelSpec, own_way: KeyHeader, key: str) -> Credentials:
    """Return a channel's additions with one of its keys; `own_way` is the protocol's header, for a
    channel without its own `auth`."""
    query = channel.query
    key_headers: Pairs = ()
    if key and channel.auth != NO_AUTH and channel.authorizer is None:
        if channel.auth is not None and channel.auth.startswith(QUERY_AUTH):
            query = (*query, (channel.auth.removeprefix(QUERY_AUTH), key))
        else:
            header = own_way if channel.auth is None else KEY_HEADERS[channel.auth]
            key_headers = (header(key),)
    return Credentials(
        key_headers,
        urlencode(query),
        channel.headers,
        frozenset(name.lower() for name, _ in channel.headers),
    )
