"""A dialect as another provider hosts it: elsewhere, with members moved, in another framing.

A channel says it by `wire` (`ChannelSpec.wire`); the hostings of a dialect are in its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Struct

from channels.dialects.address import Address
from channels.http.event_stream import Render
from channels.json.members import JsonObject

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hosting:
    """One way to host a dialect.

    `without` are members that the path or the host says, `adds` those that it wants, as JSON text.
    `moves` are a client's headers that become members of the body: lists of names. `render` is for
    streams in Amazon's framing; without it they are the dialect's own.
    """

    address: Address
    without: frozenset[str]
    adds: Mapping[str, bytes]
    moves: Mapping[str, str]
    render: Render | None = None

    def headers(self, headers: Pairs) -> Pairs:
        """Those of the client's headers that stay headers."""
        return tuple(pair for pair in headers if pair[0].lower() not in self.moves)

    def body(self, body: bytes, headers: Pairs) -> bytes:
        """The dialect's body as this host wants it; values stay byte for byte."""
        added = dict(self.adds)
        for name, value in headers:
            member = self.moves.get(name.lower())
            if member is not None:
                names = [one.strip() for one in value.split(",")]
                added[member] = msgspec.json.encode([one for one in names if one])
        members = {
            name: bytes(raw)
            for name, raw in JsonObject.parse(body).raw.items()
            if name not in self.without and name not in added
        }
        members.update(added)
        pairs = [b"%b:%b" % (msgspec.json.encode(name), raw) for name, raw in members.items()]
        return b"{%b}" % b",".join(pairs)


class Hosted(Struct, frozen=True):
    """Which hosting a body is written for, and the client's headers: fit for another process."""

    wire: str
    headers: Pairs
