"""How a channel's key goes with its requests: the ways of `auth`, and what else a channel says.

A key is in one header or in one parameter of the query; where it is empty, or the way is `none`,
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
# Makes of a key the header that takes it.
KeyHeader: TypeAlias = Callable[[str], tuple[str, str]]

NO_AUTH = "none"
QUERY_AUTH = "query:"  # and the parameter's name


def bearer(api_key: str) -> tuple[str, str]:
    """The header of most upstreams."""
    return ("Authorization", f"Bearer {api_key}")


# By the name of the way, in the order in which they are listed to an operator.
KEY_HEADERS: Mapping[str, KeyHeader] = MappingProxyType(
    {
        "bearer": bearer,
        "x-api-key": lambda api_key: ("x-api-key", api_key),
        "api-key": lambda api_key: ("api-key", api_key),
        "x-goog-api-key": lambda api_key: ("x-goog-api-key", api_key),
    }
)


class Credentials(Struct, frozen=True):
    """What a channel adds to each of its requests.

    `key_headers` holds the key, `query` is encoded and has no question mark. `fixed` are the
    channel's own headers, `fixed_names` their names in lower case: they take the place of any other
    header of that name.
    """

    key_headers: Pairs
    query: str
    fixed: Pairs
    fixed_names: frozenset[str]

    def others(self, headers: Pairs) -> Pairs:
        """The headers that no fixed one takes the place of."""
        if not self.fixed:
            return headers
        return tuple(pair for pair in headers if pair[0].lower() not in self.fixed_names)

    def url(self, url: str) -> str:
        """A URL with the channel's query."""
        if not self.query:
            return url
        return f"{url}{'&' if '?' in url else '?'}{self.query}"


def credentials_of(channel: ChannelSpec, own_way: KeyHeader, key: str) -> Credentials:
    """What a channel adds with one of its keys; `own_way` is the protocol's, where the channel does
    not say another."""
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
