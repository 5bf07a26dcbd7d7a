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
from channels.http.sse import SseEvent, SseSplitter
from channels.translation.model import Protocol
from channels.translation.session import TRANSLATIONS, TranslatedCall, codec
from tests.unit.translators.test_odd_values import BODIES, ODD, places, replaced
from tests.unit.translators.wire import read

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


@pytest.mark.parametrize(("client", "upstream"), PATHS)
def test_odd_stream_is_translated_without_a_fault(client: Protocol, upstream: Protocol) -> None:
    count = 0
    rng = Random(f"{client} {upstream}")
    for events in odd_streams(upstream):
        if rng.random() > 0.25:
            continue
        call = TranslatedCall(TRANSLATIONS[client, upstream], REQUESTS[client], redact=str)
        stream = call.stream(id="a", created=1, model="m", include_usage=True)
        written = b"".join([*[stream.take(read(upstream, one)) for one in events], stream.end()])
        for event in SseSplitter().feed(written):
            assert event.data is not None
            assert event.data == b"[DONE]" or isinstance(json.loads(event.data), dict)
        count += 1
    assert count > 500


@pytest.mark.parametrize(("client", "upstream"), PATHS)
def test_answer_nested_too_deeply_is_malformed_or_an_error(
    client: Protocol, upstream: Protocol
) -> None:
    """Readers and writers have their own limits, which depend on who has called them."""
    call = TranslatedCall(TRANSLATIONS[client, upstream], REQUESTS[client], redact=str)
    is_refused = False
    for depth in range(880, 1010):
        whole, event = nested_answers(upstream, '{"a":' * depth + "1" + "}" * depth)
        try:
            written = call.translate_response(whole, id="a", created=1, model="m")
        except UpstreamMalformed:
            is_refused = True
        else:
            assert written.startswith(b"{")
        stream = call.stream(id="a", created=1, model="m", include_usage=True)
        stream.take(read(upstream, SseEvent(b"", event)))
        assert stream.failed is None or "nested too deeply" in stream.failed.message
    # Arguments that are text go through it as they are.
    texts = {"chat", "responses"}
    assert is_refused or upstream in texts


def nested_answers(protocol: Protocol, arguments: str) -> tuple[bytes, bytes]:
    """A whole answer that calls a function, and the event of a stream that says the same."""
    if protocol == "messages":
        call = f'{{"type":"tool_use","id":"t","name":"f","input":{arguments}}}'
        whole = f'{{"type":"message","content":[{call}],"stop_reason":"tool_use"}}'
        event = f'{{"type":"content_block_start","index":0,"content_block":{call}}}'
    elif protocol == "responses":
        text = json.dumps(arguments)
        item = f'{{"type":"function_call","call_id":"t","name":"f","arguments":{text}}}'
        whole = f'{{"id":"r","status":"completed","output":[{item}]}}'
        event = f'{{"type":"response.output_item.done","output_index":0,"item":{item}}}'
    elif protocol == "native":
        part = f'{{"functionCall":{{"name":"f","args":{arguments}}}}}'
        whole = f'{{"candidates":[{{"content":{{"parts":[{part}]}},"finishReason":"STOP"}}]}}'
        event = whole
    else:
        call = f'{{"id":"t","function":{{"name":"f","arguments":{json.dumps(arguments)}}}}}'
        whole = f'{{"choices":[{{"message":{{"tool_calls":[{call}]}},"finish_reason":"stop"}}]}}'
        event = f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}'
    return whole.encode(), event.encode()


@pytest.mark.parametrize(("client", "upstream"), PATHS)
def test_odd_whole_answer_is_translated_or_malformed(client: Protocol, upstream: Protocol) -> None:
    count = 0
    for body in odd_wholes(upstream):
        try:
            answer = codec(upstream).decode_response(body)
        except UpstreamMalformed:
            continue
        written = codec(client).encode_response(answer, id="a", created=1, model="m")
        assert isinstance(json.loads(written), dict)
        count += 1
    assert count > 100
