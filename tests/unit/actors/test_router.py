"""Which channels, in which order."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from actors.routing import Candidate, candidates
from channels.registry import Binding, ChannelSpec
from tests.support.specs import make_channel, make_model


@dataclass
class View:
    spec: ChannelSpec
    load: int = 0
    leases_granted: int = 0


def channel(
    channel_id: str, *, priority: int = 1, protocols: str = "chat", slots: int = 10
) -> ChannelSpec:
    return make_channel(
        channel_id,
        protocols=frozenset(protocols.split()),
        max_concurrency=slots,
        priority=priority,
    )


def order(found: list[Candidate]) -> list[str]:
    return [candidate.channel_id for candidate in found]


def test_lower_priority_number_comes_first() -> None:
    views = {name: View(channel(name, priority=p)) for name, p in [("a", 2), ("b", 1), ("c", 3)]}
    bound = make_model(*(Binding(name) for name in views))
    assert order(candidates(bound, "chat", views)) == ["b", "a", "c"]


def test_equal_priorities_share_by_least_load_of_their_slots() -> None:
    views = {
        "busy": View(channel("busy", slots=10), load=5),
        "large": View(channel("large", slots=100), load=20),
        "idle": View(channel("idle", slots=1)),
    }
    bound = make_model(*(Binding(name) for name in views))
    assert order(candidates(bound, "chat", views)) == ["idle", "large", "busy"]


def test_equal_loads_take_turns() -> None:
    views = {"a": View(channel("a"), leases_granted=7), "b": View(channel("b"), leases_granted=6)}
    assert order(candidates(make_model(Binding("a"), Binding("b")), "chat", views)) == ["b", "a"]


def test_channel_that_does_not_speak_the_protocol_is_no_candidate() -> None:
    views = {"a": View(channel("a", protocols="messages native"))}
    assert candidates(make_model(Binding("a"), Binding("gone")), "chat", views) == []


def test_binding_names_the_upstream_make_model() -> None:
    views = {"a": View(channel("a")), "b": View(channel("b"), leases_granted=1)}
    found = candidates(make_model(Binding("a", "other-name"), Binding("b")), "chat", views)
    assert [candidate.upstream_model for candidate in found] == ["other-name", "m"]


@given(st.text(min_size=1, max_size=20), st.integers(min_value=0, max_value=4))
def test_pinned_conversation_stays_when_another_channel_is_lost(pin: str, lost: int) -> None:
    views = {f"c{i}": View(channel(f"c{i}"), load=i) for i in range(5)}
    bound = make_model(*(Binding(name) for name in views))
    before = order(candidates(bound, "chat", views, pin=pin))
    del views[f"c{lost}"]
    after = order(candidates(bound, "chat", views, pin=pin))
    assert after == [name for name in before if name != f"c{lost}"]


def test_pins_spread_over_the_channels() -> None:
    views = {f"c{i}": View(channel(f"c{i}")) for i in range(4)}
    bound = make_model(*(Binding(name) for name in views))
    firsts = [order(candidates(bound, "chat", views, pin=f"p{n}"))[0] for n in range(400)]
    assert all(firsts.count(name) > 50 for name in views)


def test_pin_keeps_to_the_first_priority() -> None:
    views = {"a": View(channel("a", priority=1), load=9), "b": View(channel("b", priority=2))}
    for n in range(20):
        found = candidates(make_model(Binding("b"), Binding("a")), "chat", views, pin=f"p{n}")
        assert order(found) == ["a", "b"]


def test_image_model_has_no_channel_on_the_chat_protocols() -> None:
    views = {"a": View(channel("a", protocols="chat messages responses native images"))}
    media = make_model("a", endpoint_type="images_generations")
    assert [candidates(media, name, views) for name in ("chat", "messages", "native")] == [[]] * 3
    assert order(candidates(media, "images", views)) == ["a"]


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
    views = {name: View(channel(name, protocols=name)) for name in ("videos", "avatars", "clips")}
    for model_id, needed in (("seedance", "videos"), ("dh-motion", "avatars"), ("clip-a", "clips")):
        video = make_model(*views, id=model_id, endpoint_type="videos_generations")
        found = candidates(video, "videos", views)
        assert [(one.channel_id, one.protocol) for one in found] == [(needed, needed)]
