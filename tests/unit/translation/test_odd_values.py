"""Any value in any place of a request or of a response ends well; none is a fault of ours."""

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
import ujson

from channels.dialects.chat import request as chat
from channels.dialects.gemini import request as gemini
from channels.dialects.messages import request as messages
from channels.dialects.responses import request as responses
from channels.dialects.table import CHAT_DIALECTS
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.http.sse import SseEvent, SseSplitter
from channels.json.outline import outline
from channels.translation.model import Protocol
from channels.translation.paths import TRANSLATIONS
from channels.translation.session import TranslatedCall
from tests.support.nesting import depths
from tests.support.rows import each
from tests.unit.translation import fields_of_chat, fields_of_messages, fields_of_responses
from tests.unit.translation.gemini import fields_of_gemini
from tests.unit.translation.odd_values import ODD, kind, places, replaced
from tests.unit.translation.pieces import user
from tests.unit.translation.translated import body_of, metered, read_body, response_in, stream_of

STATED = [user("hi")]
CONTENTS = [{"role": "user", "parts": [{"text": "hi"}]}]
BODIES: dict[Protocol, tuple[dict[str, Any], list[Any]]] = {
    "chat": ({"model": "m", "messages": STATED}, fields_of_chat.FIELDS),
    "messages": ({"model": "m", "max_tokens": 9, "messages": STATED}, fields_of_messages.FIELDS),
    "native": ({"contents": CONTENTS}, fields_of_gemini.FIELDS),
    "responses": ({"model": "m", "input": STATED}, fields_of_responses.FIELDS),
}
READERS: dict[Protocol, Callable[[bytes], object]] = {
    "chat": chat.read_request,
    "messages": messages.read_request,
    "native": lambda body: gemini.read_request(body, model="m", stream=False),
    "responses": responses.read_request,
}


def without_foreign(protocol: str, body: bytes, outlined: bytes) -> bytes:
    strip = CHAT_DIALECTS[protocol].without_foreign
    return body if strip is None else strip(body, outlined)


def accepted(protocol: Protocol) -> Iterator[bytes]:
    """Odd bodies that the protocol's reader lets through."""
    plain, fields = BODIES[protocol]
    for fragment in (plain, *(field[1] for field in fields)):
        body = {**plain, **fragment}
        for path in places(fragment):
            for odd in ODD:
                text = json.dumps(replaced(body, path, odd)).encode()
                try:
                    READERS[protocol](text)
                except InvalidRequest:
                    continue
                yield text


@pytest.mark.long
@each("client", BODIES)
def test_odd_value_is_carried_listed_or_refused(client: Protocol) -> None:
    count = 0
    for text in accepted(client):
        body = msgspec.json.decode(text)
        assert isinstance(without_foreign(client, text, outline(text)), bytes)
        for translation in TRANSLATIONS.values():
            if translation.client != client:
                continue
            count += 1
            try:
                call = TranslatedCall(translation, body)
                sent = call.upstream_body(model="gemini-3-pro", stream=False, max_tokens=9)
            except InvalidRequest:
                continue
            assert ujson.dumps(sent, ensure_ascii=False).encode(), text
            assert (call.report.warning() or "x").isascii()
    assert count > 1000


TRANSCRIPTS = Path(__file__).parents[1] / "channels" / "transcripts"
PATHS = list(TRANSLATIONS)
REQUESTS = {name: plain for name, (plain, _) in BODIES.items()}
# Of long streams the beginning will do.
EVENTS_MAX = 40


def odd_streams(protocol: Protocol) -> Iterator[list[SseEvent]]:
    """Streams with one odd value in one of their events, in a place of each kind."""
    seen = set()
    for path in sorted((TRANSCRIPTS / protocol).glob("*.sse")):
        events = SseSplitter().feed(path.read_bytes())[:EVENTS_MAX]
        for index, event in enumerate(events):
            try:
                value = json.loads(event.data or b"")
            except ValueError:
                continue
            for place in places(value):
                if kind(value, place) in seen:
                    continue
                seen.add(kind(value, place))
                for odd in ODD:
                    data = json.dumps(replaced(value, place, odd)).encode()
                    yield [*events[:index], SseEvent(b"", data), *events[index + 1 :]]


def odd_wholes(protocol: Protocol) -> Iterator[bytes]:
    for path in sorted((TRANSCRIPTS / f"{protocol}_whole").glob("*.json")):
        value = json.loads(path.read_bytes())
        for place in places(value):
            for odd in ODD:
                yield json.dumps(replaced(value, place, odd)).encode()


@each("client, upstream", PATHS)
def test_odd_stream_is_translated_without_a_fault(client: Protocol, upstream: Protocol) -> None:
    count = 0
    clients = [one for one, other in PATHS if other == upstream]
    # Each stream is one client's; no client gets the same value in every place.
    for events in islice(odd_streams(upstream), clients.index(client), None, len(clients)):
        call = TranslatedCall(TRANSLATIONS[client, upstream], REQUESTS[client])
        stream, meter = stream_of(call)
        written = b"".join(
            [*[stream.take_event(metered(meter, one)) for one in events], stream.end_stream()]
        )
        for event in SseSplitter().feed(written):
            assert event.data is not None
            assert event.data == b"[DONE]" or isinstance(json.loads(event.data), dict)
        count += 1
    assert count > 300


@each("client, upstream", PATHS)
def test_answer_nested_too_deeply_is_malformed_or_an_error(
    client: Protocol, upstream: Protocol
) -> None:
    """Readers and writers have their own limits, which depend on who has called them."""
    call = TranslatedCall(TRANSLATIONS[client, upstream], REQUESTS[client])
    is_refused = False
    for depth in depths():
        whole, event = nested_responses(upstream, '{"a":' * depth + "1" + "}" * depth)
        try:
            written = call.translate_response(
                *read_body(upstream, whole), id="a", created=1, model="m"
            )
        except UpstreamMalformed:
            is_refused = True
        else:
            assert written.startswith(b"{")
        stream, meter = stream_of(call)
        stream.take_event(metered(meter, SseEvent(b"", event)))
        assert stream.failed is None or "nested too deeply" in stream.failed.message
    # Arguments that are text go through it as they are.
    texts = {"chat", "responses"}
    assert is_refused or upstream in texts


def nested_responses(protocol: Protocol, arguments: str) -> tuple[bytes, bytes]:
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


@each("client, upstream", PATHS)
def test_odd_whole_answer_is_translated_or_malformed(client: Protocol, upstream: Protocol) -> None:
    count = 0
    for body in odd_wholes(upstream):
        try:
            response = response_in(upstream, body)
        except UpstreamMalformed:
            continue
        written = body_of(client, response, id="a", created=1, model="m")
        assert isinstance(json.loads(written), dict)
        count += 1
    assert count > 100
