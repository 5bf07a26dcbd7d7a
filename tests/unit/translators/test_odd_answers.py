"""Any value in any place of an answer ends in a translation or is passed over; none is raised.

The answers are the transcripts that the meters are tested with, with one value after the other
replaced. A stream takes every fourth of them, drawn anew by a fixed seed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from channels.errors import UpstreamMalformed
from channels.translators.call import TranslatedCall
from channels.translators.canonical import Protocol
from channels.translators.table import TRANSLATIONS, codec, translation_between
from channels.wire.sse import SseEvent, SseSplitter
from tests.unit.translators.test_odd_values import BODIES, ODD, places, replaced

TRANSCRIPTS = Path(__file__).parents[1] / "channels" / "transcripts"
PATHS = list(TRANSLATIONS)
REQUESTS = {name: plain for name, (plain, _) in BODIES.items()}
# Of long streams the beginning will do.
EVENTS_MAX = 40


def odd_streams(protocol: Protocol) -> Iterator[list[SseEvent]]:
    """Streams with one odd value in one of their events."""
    for path in sorted((TRANSCRIPTS / protocol).glob("*.sse")):
        events = SseSplitter().feed(path.read_bytes())[:EVENTS_MAX]
        for index, event in enumerate(events):
            try:
                value = json.loads(event.data or b"")
            except ValueError:
                continue
            for place in places(value):
                for odd in ODD:
                    data = json.dumps(replaced(value, place, odd)).encode()
                    yield [*events[:index], SseEvent(b"", data), *events[index + 1 :]]


def odd_wholes(protocol: Protocol) -> Iterator[bytes]:
    for path in sorted((TRANSCRIPTS / f"{protocol}_whole").glob("*.json")):
        value = json.loads(path.read_bytes())
        for place in places(value):
            for odd in ODD:
                yield json.dumps(replaced(value, place, odd)).encode()


@pytest.mark.parametrize(("client", "upstream"), [*PATHS, ("chat", "responses")])
def test_odd_stream_is_translated_without_a_fault(client: Protocol, upstream: Protocol) -> None:
    count = 0
    rng = Random(f"{client} {upstream}")
    for events in odd_streams(upstream):
        if rng.random() > 0.25:
            continue
        call = TranslatedCall(translation_between(client, upstream), REQUESTS[client], redact=str)
        stream = call.stream(id="a", created=1, model="m", include_usage=True)
        written = b"".join([*map(stream.feed, events), stream.end()])
        for event in SseSplitter().feed(written):
            assert event.data is not None
            assert event.data == b"[DONE]" or isinstance(json.loads(event.data), dict)
        count += 1
    assert count > 500


@pytest.mark.parametrize(("client", "upstream"), PATHS)
def test_odd_whole_answer_is_translated_or_malformed(client: Protocol, upstream: Protocol) -> None:
    count = 0
    for body in odd_wholes(upstream):
        try:
            answer = codec(upstream).decode_answer(body)
        except UpstreamMalformed:
            continue
        written = codec(client).encode_answer(answer, id="a", created=1, model="m")
        assert isinstance(json.loads(written), dict)
        count += 1
    assert count > 100
