"""Channels in the metrics: states, slots, attempts, and what a removed one leaves behind."""

from __future__ import annotations

import pytest

from tests.unit.metrics.worlds import World


def test_attempt_is_counted_and_timed(world: World) -> None:
    world.metrics.attempt(channel="a", outcome="ok", seconds=0.04)
    world.metrics.attempt(channel="a", outcome="timeout", seconds=180.0)
    assert world.value("gw_attempts_total", channel="a", outcome="timeout") == 1
    assert world.value("gw_attempt_seconds_count", channel="a") == 2
    assert world.value("gw_attempt_seconds_bucket", channel="a", le="180.0") == 2


def states(world: World, channel: str = "a") -> str:
    """Return which states are shown as the present one."""
    return " ".join(
        state
        for state in ("closed", "open", "half_open")
        if world.value("gw_channel_state", channel=channel, state=state)
    )


def test_channel_shows_one_state_at_a_time(world: World) -> None:
    seen = []
    for state in ("closed", "open", "half_open", "closed"):
        world.metrics.channel_state(channel="a", state=state)
        seen.append(states(world))
    assert seen == ["closed", "open", "half_open", "closed"]
    assert len(world.labels("gw_channel_state")) == 3


def test_only_changes_of_state_are_transitions(world: World) -> None:
    for state in ("closed", "closed", "open", "open", "half_open", "open"):
        world.metrics.channel_state(channel="a", state=state)
    assert world.value("gw_channel_transitions_total", channel="a", state="open") == 2
    assert world.value("gw_channel_transitions_total", channel="a", state="half_open") == 1
    assert world.value("gw_channel_transitions_total", channel="a", state="closed") is None


def test_unknown_state_is_our_mistake(world: World) -> None:
    with pytest.raises(AssertionError):
        world.metrics.channel_state(channel="a", state="ajar")


def test_slots_are_shown_with_their_limit(world: World) -> None:
    world.metrics.channel_slots(channel="a", in_use=3, limit=256)
    world.metrics.channel_slots(channel="a", in_use=4, limit=256)
    assert world.value("gw_channel_slots_in_use", channel="a") == 4
    assert world.value("gw_channel_slots_limit", channel="a") == 256
    world.metrics.channel_slots(channel="a", in_use=4, limit=8)
    assert world.value("gw_channel_slots_limit", channel="a") == 8


def channels(world: World) -> set[str]:
    """Return every channel that any series names."""
    return {
        sample.labels["channel"]
        for metric in world.registry.collect()
        for sample in metric.samples
        if "channel" in sample.labels
    }


def test_removed_channel_leaves_no_series(world: World) -> None:
    world.use("a")
    world.use("b")
    world.metrics.channel_removed("a")
    assert channels(world) == {"b"}


def test_late_news_of_a_removed_channel_makes_no_series(world: World) -> None:
    world.use("a")
    world.metrics.channel_removed("a")
    world.metrics.attempt(channel="a", outcome="ok", seconds=0.1)
    world.metrics.channel_state(channel="a", state="half_open")
    assert channels(world) == set()


def test_channel_that_comes_back_shows_the_state_it_is_in(world: World) -> None:
    world.use("a")
    world.metrics.channel_removed("a")
    world.metrics.channel_state(channel="a", state="half_open")  # a lease came back meanwhile
    world.metrics.channel_slots(channel="a", in_use=0, limit=4)
    assert states(world) == "half_open"
    world.metrics.attempt(channel="a", outcome="ok", seconds=0.1)
    assert world.value("gw_attempts_total", channel="a", outcome="ok") == 1


def test_channel_that_was_never_there_can_be_removed(world: World) -> None:
    world.metrics.channel_removed("a")
    world.metrics.channel_slots(channel="a", in_use=0, limit=4)
    assert states(world) == "closed"
