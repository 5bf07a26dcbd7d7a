"""Odd values anywhere in an upstream's events: nothing is raised, and what goes out is JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.http.sse import SseSplitter
from tests.unit.calls.golden import transcripts
from tests.unit.calls.relaying import PASSTHROUGH, TRANSLATED, relayed

Place = tuple[str | int, ...]

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1.5, 10**30, "", "x", "\ud83d", [], {}, [None], [[]], [{}], {"a": 1}, [1, "x"]]
)


def events_of(stream: bytes) -> list[Any]:
    """The data of its events that are JSON."""
    found = []
    for event in SseSplitter().feed(stream):
        try:
            found.append(json.loads(event.data or b""))
        except ValueError:
            continue
    return found


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where there is something within a value, the value itself left out."""
    if place:
        yield place
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*place, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*place, index))


def put(value: Any, place: Place, odd: Any) -> None:
    *way, last = place
    for step in way:
        value = value[step]
    value[last] = odd


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_odd_values_raise_nothing_and_do_not_get_through_as_nonsense(data: st.DataObject) -> None:
    way = data.draw(st.sampled_from([*PASSTHROUGH, *TRANSLATED]))
    streams = [events_of(path.read_bytes()) for path in transcripts(way.upstream)]
    events = data.draw(st.sampled_from([events for events in streams if events]))
    for _ in range(data.draw(st.integers(1, 4))):
        event = data.draw(st.sampled_from(events))
        found = list(places(event))
        if found:
            put(event, data.draw(st.sampled_from(found)), json.loads(json.dumps(data.draw(ODD))))
    stream = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    if way.upstream == "chat":
        stream += b"data: [DONE]\n\n"
    got = relayed(way, [stream])
    if way.client == way.upstream and not way.is_array:
        assert stream.startswith(got.body)
    elif not way.is_array:
        for sent in SseSplitter().feed(got.body):
            assert sent.data is not None
            assert sent.data == b"[DONE]" or isinstance(json.loads(sent.data), dict)
