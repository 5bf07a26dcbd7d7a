"""A dialect as another provider hosts it: another address, other members, another framing.

A channel selects it by `wire` (`ChannelSpec.wire`); a dialect's record has its hostings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from channels.dialects.address import Address
from channels.http.event_stream import Render
from channels.json.json_object import JsonObject
from channels.json.lenient import dumps, text_of

HeaderPairs = tuple[tuple[str, str], ...]


class TierHeader(Struct, frozen=True):
    """The header in which a host takes a service tier, and states the one that it served.

    `words` are its names by those of the dialect's `member`; without a name no header is sent.
    `stated` writes a served tier into a whole response.
    """

    name: str
    member: str
    words: Mapping[str, str | None]
    stated: Callable[[bytes, str], bytes]

    def pairs(self, parameters: Mapping[str, str]) -> HeaderPairs:
        """Return the header for a request with these parameters."""
        word = self.words.get(parameters.get(self.member, ""))
        return () if word is None else ((self.name, word),)

    def replaces(self, member: str, raw: bytes) -> bool:
        """Whether the header states a member of the body."""
        return member == self.member and text_of(msgspec.json.decode(raw)) in self.words


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hosting:
    """One way to host a dialect.

    `only` is a text in the names of the models that it supports, `otherwise` hosts all others.
    `without` are members that the path or the host states or does not know, `adds` those that it
    requires, as JSON text; `renames` are its own names of members, `mends` convert the JSON of a
    member (by the dialect's name). `moves` maps a client's headers to members of the body, which
    are lists of names. `rewrite` converts the whole body, and raises InvalidRequest for what the
    host cannot express.

    `new_render` decodes streams in Amazon's framing; it takes a name for the response and one for
    the model, for hosts that state neither, and the served tier. `whole` converts a whole response
    to the dialect's own, by the model's name; it raises UpstreamMalformed. Without them responses
    are the dialect's own.
    """

    address: Address
    without: frozenset[str]
    adds: Mapping[str, bytes]
    moves: Mapping[str, str]
    only: str = ""
    otherwise: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    mends: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    rewrite: Callable[[dict[str, object]], dict[str, object]] | None = None
    new_render: Callable[[str, str, str], Render] | None = None
    whole: Callable[[bytes, str], bytes] | None = None
    tier: TierHeader | None = None

    @property
    def takes_tiers(self) -> bool:
        """Whether it takes tiers that the dialect has not, in its header or its rewritten body."""
        return self.tier is not None or self.rewrite is not None

    def headers(self, headers: HeaderPairs, parameters: Mapping[str, str]) -> HeaderPairs:
        """Return the client's headers that stay headers, and its tier if that is one here."""
        kept = tuple(pair for pair in headers if pair[0].lower() not in self.moves)
        return kept if self.tier is None else kept + self.tier.pairs(parameters)

    def body(self, body: bytes, headers: HeaderPairs) -> bytes:
        """Return the dialect's body for this host; values are unchanged byte for byte."""
        added = dict(self.adds)
        for name, value in headers:
            member = self.moves.get(name.lower())
            if member is not None:
                names = [one.strip() for one in value.split(",")]
                added[member] = msgspec.json.encode([one for one in names if one])
        if self.rewrite is not None:
            values = msgspec.json.decode(body, type=dict[str, object])
            values.update((name, msgspec.json.decode(raw)) for name, raw in added.items())
            return dumps(self.rewrite(values))
        members = {
            self.renames.get(name, name): self._mended(name, bytes(raw))
            for name, raw in JsonObject.parse(body).raw.items()
            if name not in self.without and name not in added
            if self.tier is None or not self.tier.replaces(name, bytes(raw))
        }
        members.update(added)
        pairs = [b"%b:%b" % (msgspec.json.encode(name), raw) for name, raw in members.items()]
        return b"{%b}" % b",".join(pairs)

    def _mended(self, name: str, raw: bytes) -> bytes:
        mend = self.mends.get(name)
        return raw if mend is None else mend(raw)


def hosting_for(hostings: Mapping[str, Hosting], wire: str, model: str) -> tuple[str, Hosting]:
    """Return the name and the hosting of a model on a channel of this `wire`."""
    hosting = hostings[wire]
    if hosting.only not in model.lower():
        wire = hosting.otherwise
        hosting = hostings[wire]
    return wire, hosting


class Hosted(Struct, frozen=True):
    """The hosting of a body, and the client's headers; can be sent to another process."""

    wire: str
    headers: HeaderPairs
