"""How much of its input a conversation finds in the cache of its channel's key."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.routing import candidates
from channels.dialects.table import DIALECTS
from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec
from tests.support.specs import make_channel, make_model
from tests.unit.actors.test_router import View

CONVERSATIONS, TURNS = 200, 30
CHANNELS, KEYS = ("a", "b", "c"), 4
SHARE_MIN = 0.98
LOST = "a-2"


def channel(channel_id: str) -> ChannelSpec:
    keys = [f"{channel_id}-{number}" for number in range(KEYS)]
    return make_channel(channel_id, api_key=keys[0], more_keys=tuple(keys[1:]))


def key_of(request: UpstreamRequest) -> str:
    return dict(request.headers)["Authorization"].removeprefix("Bearer ")


@dataclass
class Upstreams:
    """Accounts with a cache each: of which conversation they have read how many tokens."""

    specs: Mapping[str, ChannelSpec]
    refused: set[str] = field(default_factory=set)
    cached: dict[tuple[str, str], int] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    model: Any = field(default_factory=lambda: make_model(*CHANNELS))

    def turn(self, conversation: str, tokens: int, *, pin: str | None) -> int:
        """Serve a turn of so many tokens; how many of them were cached."""
        views = {name: View(spec) for name, spec in self.specs.items()}
        for candidate in candidates(self.model, "chat", views, pin=pin):
            request = DIALECTS["chat"].address.request(
                self.specs[candidate.channel_id],
                b"{}",
                protocol="chat",
                upstream_model="m",
                stream=False,
                pin=pin,
            )
            key = key_of(request)
            if key in self.refused:  # the next channel is tried, as for a call
                request.took_status(401)
                continue
            self.calls[key] += 1
            found = self.cached.get((key, conversation), 0)
            self.cached[key, conversation] = tokens
            return found
        raise AssertionError("no key is left")


def hit_share(*, is_pinned: bool) -> tuple[float, Upstreams]:
    """The cached tokens of all turns, of those that one account alone would have had cached."""
    chance = random.Random(7)
    upstreams = Upstreams({name: channel(name) for name in CHANNELS})
    tokens = dict.fromkeys(map(str, range(CONVERSATIONS)), 0)
    left = [name for name in tokens for _ in range(TURNS)]
    chance.shuffle(left)
    hits = optimum = 0
    for number, name in enumerate(left):
        if number == len(left) // 2:
            upstreams.refused.add(LOST)
        optimum += tokens[name]
        tokens[name] += chance.randrange(200, 4_000)
        pin = f"acct_a/{name}" if is_pinned else None
        hits += upstreams.turn(name, tokens[name], pin=pin)
    return hits / optimum, upstreams


def test_conversations_find_their_prefix_though_a_key_is_lost() -> None:
    share, upstreams = hit_share(is_pinned=True)
    assert share >= SHARE_MIN
    keys = [key for spec in upstreams.specs.values() for key in spec.keys]
    mean = CONVERSATIONS * TURNS / len(keys)
    assert all(upstreams.calls[key] > mean / 4 for key in keys), upstreams.calls
    assert hit_share(is_pinned=False)[0] < SHARE_MIN - 0.1


def test_only_the_conversations_of_a_lost_key_move_and_they_come_back() -> None:
    spec = channel("a")
    pins = [f"acct_a/{number}" for number in range(400)]

    def homes(of: ChannelSpec) -> dict[str, str]:
        return {pin: of.keys[of.ring.next_index(pin)] for pin in pins}

    before = homes(spec)
    assert min(Counter(before.values()).values()) > len(pins) / KEYS / 2
    spec.ring.keys[2].refused(401)
    during = homes(spec)
    moved = {pin for pin in pins if during[pin] != before[pin]}
    assert moved == {pin for pin in pins if before[pin] == LOST}
    assert len({during[pin] for pin in moved}) == KEYS - 1
    fewer = make_channel("a", api_key="a-3", more_keys=("a-1", "a-0"))  # the file without it
    assert homes(fewer) == during
    spec.ring.keys[2].accepted()
    assert homes(spec) == before


def test_channels_have_conversations_in_proportion_to_their_slots() -> None:
    specs = {"large": make_channel("large", max_concurrency=90), "small": make_channel("small")}
    views = {name: View(spec) for name, spec in specs.items()}
    firsts = Counter(
        candidates(make_model(*specs), "chat", views, pin=f"p{number}")[0].channel_id
        for number in range(1_000)
    )
    assert 70 < firsts["small"] < 130
