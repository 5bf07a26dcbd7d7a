"""Which channel a call is led to: candidates, affinity, the directory."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.routing import Candidate, candidates
from channels.dialects.table import DIALECTS
from channels.http.interfaces import UpstreamRequest
from channels.registry import Binding, ChannelSpec
from tests.support.specs import make_channel, make_model


@dataclass
class View:
    spec: ChannelSpec
    in_use: int = 0
    turn: tuple[float, int] = (0.0, 0)


def channel(
    channel_id: str, *, priority: int = 1, protocols: str = "chat", slots: int = 10
) -> ChannelSpec:
    return make_channel(
        channel_id, protocols=frozenset(protocols.split()), max_concurrency=slots, priority=priority
    )


def order(found: list[Candidate]) -> list[str]:
    return [candidate.channel_id for candidate in found]


def test_equal_loads_take_turns() -> None:
    views = {"a": View(channel("a"), turn=(1.0, 7)), "b": View(channel("b"), turn=(1.0, 6))}
    assert order(candidates(make_model(Binding("a"), Binding("b")), "chat", views)) == ["b", "a"]


def test_binding_names_the_upstream_make_model() -> None:
    views = {"a": View(channel("a")), "b": View(channel("b"), turn=(0.0, 1))}
    found = candidates(make_model(Binding("a", "other-name"), Binding("b")), "chat", views)
    assert [candidate.upstream_model for candidate in found] == ["other-name", "m"]


@given(st.text(min_size=1, max_size=20), st.integers(min_value=0, max_value=4))
def test_pinned_conversation_stays_when_another_channel_is_lost(pin: str, lost: int) -> None:
    views = {f"c{i}": View(channel(f"c{i}"), in_use=i) for i in range(5)}
    bound = make_model(*(Binding(name) for name in views))
    before = order(candidates(bound, "chat", views, pin=pin))
    del views[f"c{lost}"]
    after = order(candidates(bound, "chat", views, pin=pin))
    assert after == [name for name in before if name != f"c{lost}"]


def test_pin_keeps_to_the_first_priority() -> None:
    views = {"a": View(channel("a", priority=1), in_use=9), "b": View(channel("b", priority=2))}
    for n in range(20):
        found = candidates(make_model(Binding("b"), Binding("a")), "chat", views, pin=f"p{n}")
        assert order(found) == ["a", "b"]


def test_translated_channels_follow_the_passthrough_ones_and_share_by_priority() -> None:
    views = {
        "m": View(channel("m", protocols="messages", priority=3)),
        "n": View(channel("n", protocols="native", priority=2)),
        "c": View(channel("c", protocols="chat messages", priority=4)),
        "r": View(channel("r", protocols="responses", priority=1)),
    }
    bound = make_model(*(Binding(name) for name in views))
    found = candidates(bound, "chat", views, translations=("native", "messages"))
    assert found == [
        Candidate("c", "m", "chat"),
        Candidate("n", "m", "native"),
        Candidate("m", "m", "messages"),
    ]


def test_channel_of_several_protocols_is_translated_to_the_preferred() -> None:
    views = {"a": View(channel("a", protocols="messages native"))}
    bound = make_model(Binding("a"))
    for first, second in (("native", "messages"), ("messages", "native")):
        found = candidates(bound, "chat", views, translations=(first, second))
        assert [one.protocol for one in found] == [first]


def test_video_model_goes_to_channels_of_the_protocol_its_id_needs() -> None:
    """Contract for media, §1."""
    needed_by = {"seedance": "videos", "dh-motion": "avatars", "clip-a": "clips", "dhx": "videos"}
    views = {name: View(channel(name, protocols=name)) for name in ("videos", "avatars", "clips")}
    for model_id, needed in needed_by.items():
        video = make_model(*views, id=model_id, endpoint_type="videos_generations")
        found = candidates(video, "videos", views)
        assert [(one.channel_id, one.protocol) for one in found] == [(needed, needed)]


CONVERSATIONS, TURNS = 200, 30
CHANNELS, KEYS = ("a", "b", "c"), 4
SHARE_MIN = 0.98
LOST = "a-2"


def pinned_channel(channel_id: str) -> ChannelSpec:
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
    upstreams = Upstreams({name: pinned_channel(name) for name in CHANNELS})
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
    spec = pinned_channel("a")
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
    spec.ring.keys[2].confirmed()
    assert homes(spec) == before


def test_channels_have_conversations_in_proportion_to_their_slots() -> None:
    specs = {"large": make_channel("large", max_concurrency=90), "small": make_channel("small")}
    views = {name: View(spec) for name, spec in specs.items()}
    firsts = Counter(
        candidates(make_model(*specs), "chat", views, pin=f"p{number}")[0].channel_id
        for number in range(1_000)
    )
    assert 70 < firsts["small"] < 130
