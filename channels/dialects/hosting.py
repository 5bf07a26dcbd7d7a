"""A dialect as another provider hosts it: elsewhere, with members moved, in another framing.

A channel says it by `wire` (`ChannelSpec.wire`); the hostings of a dialect are in its record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from channels.dialects.address import Address
from channels.errors import InvalidRequest
from channels.http.event_stream import Render
from channels.json.members import JsonObject
from channels.json.text import dumps

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hosting:
    """One way to host a dialect.

    `only` is a text in the names of the models that it is for, `otherwise` hosts all others.
    `without` are members that the path or the host says or does not know, `adds` those that it
    wants, as JSON text; `renames` are its own names of members, `mends` make the JSON of a member
    (by the dialect's name) what it takes.
    `moves` are a client's headers that become members of the body: lists of names. `rewrite` puts
    the body into other words, and raises InvalidRequest for what they cannot say.

    `new_render` reads streams in Amazon's framing; it takes a name for the response and one for the
    model, for hosts that say neither. `whole` makes of a whole response the dialect's own, by the
    model's name; it raises UpstreamMalformed. Without them responses are the dialect's own.
    """

    address: Address
    without: frozenset[str]
    adds: Mapping[str, bytes]
    moves: Mapping[str, str]
    only: str = ""
    otherwise: str = ""
    renames: Mapping[str, str] = field(default_factory=dict)
    mends: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    rewrite: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    new_render: Callable[[str, str], Render] | None = None
    whole: Callable[[bytes, str], bytes] | None = None

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
        if self.rewrite is not None:
            values = msgspec.json.decode(body, type=dict[str, Any])
            values.update((name, msgspec.json.decode(raw)) for name, raw in added.items())
            return dumps(_rewritten(self.rewrite, values))
        members = {
            self.renames.get(name, name): self._mended(name, bytes(raw))
            for name, raw in JsonObject.parse(body).raw.items()
            if name not in self.without and name not in added
        }
        members.update(added)
        pairs = [b"%b:%b" % (msgspec.json.encode(name), raw) for name, raw in members.items()]
        return b"{%b}" % b",".join(pairs)

    def _mended(self, name: str, raw: bytes) -> bytes:
        mend = self.mends.get(name)
        return raw if mend is None else mend(raw)


def _rewritten(
    rewrite: Callable[[dict[str, Any]], dict[str, Any]], values: dict[str, Any]
) -> dict[str, Any]:
    """What a rewriting gives. What it cannot find its way in is nothing that an upstream judges."""
    try:
        return rewrite(values)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidRequest(
            "The request body is not as its protocol documents it, so that it cannot be said to "
            "the upstream of this model."
        ) from error


def hosting_for(hostings: Mapping[str, Hosting], wire: str, model: str) -> tuple[str, Hosting]:
    """How a model is hosted on a channel of this `wire`, and the name of that way."""
    hosting = hostings[wire]
    if hosting.only not in model.lower():
        wire = hosting.otherwise
        hosting = hostings[wire]
    return wire, hosting


class Hosted(Struct, frozen=True):
    """Which hosting a body is written for, and the client's headers: fit for another process."""

    wire: str
    headers: Pairs
