"""What the translator tests do over and over: translate a request, read a stream, write one.

A stream and the whole response of the same thing must fold alike (`response.py`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from channels.dialects.meter import Meter
from channels.dialects.table import CHAT_DIALECTS
from channels.errors import InvalidRequest
from channels.http.sse import SseEvent, SseSplitter
from channels.json.json_object import InvalidJson, JsonObject
from channels.json.lenient import dumps
from channels.translation.events import Event
from channels.translation.losses import LossReport
from channels.translation.model import (
    Media,
    Part,
    Protocol,
    Request,
    Text,
    Thinking,
    ToolCall,
)
from channels.translation.session import TranslatedCall, TranslatedStream, codec, read_request
from tests.unit.translation.response import Response, events_saying
from tests.unit.translation.response import folded as folded

MAX_TOKENS = 4000
USER, CONTINUING = ({"role": "user", "content": words} for words in ("hi", "Continue."))
# Members that hold schemas, or what is a tool's own.
_OPAQUE = ("parameters", "schema", "input_schema", "input", "args", "response", "responseSchema")


def translated(
    client: Protocol,
    upstream: Protocol,
    body: Mapping[str, Any],
    *,
    stream: bool = False,
    max_tokens: int = MAX_TOKENS,
    **options: Any,
) -> tuple[dict[str, Any], list[str]]:
    """The upstream's body, and what was dropped. The body holds no null and is JSON.

    It is the same, or as invalid, as read from a client's bytes, the first time and once more.
    """
    options |= {"model": "up", "stream": stream, "max_tokens": max_tokens}

    def encoded(request: Request) -> tuple[dict[str, Any], list[str]]:
        report = LossReport()
        return codec(upstream).encode_request(request, report=report, **options), report.dropped

    def outcome(read: Callable[[], Request]) -> object:
        try:
            written, dropped = encoded(read())
        except InvalidRequest as invalid:
            return invalid.message, invalid.param
        return dumps(written), dropped

    for stated in _bytes_of(client, body):
        expected = outcome(lambda: decoded(client, body))
        assert outcome(lambda: read_request(stated, client)) == expected  # noqa: B023
        assert outcome(lambda: read_request(stated, client)) == expected, "of kept"  # noqa: B023
    sent, dropped = encoded(decoded(client, body))
    assert_no_null(sent, "")
    assert json.loads(json.dumps(sent)) == sent
    return sent, dropped


def _bytes_of(client: Protocol, body: Mapping[str, Any]) -> Iterator[bytes]:
    """A body as a client sends it, if its protocol reads bytes and they are valid."""
    sent = json.dumps({"model": "m", **body}).encode()
    if codec(client).keeps_tools:
        with suppress(InvalidJson):
            JsonObject.parse(sent)
            yield sent


def translated_or_refused(
    client: Protocol, upstream: Protocol, body: Mapping[str, Any]
) -> dict[str, Any]:
    """The upstream's body, whose turns are the client's; empty where one could not be said."""
    request = decoded(client, body)
    try:
        sent, _ = translated(client, upstream, body)
    except InvalidRequest:
        assert upstream != "chat" or () in spoken(request)
        return {}
    assert upstream == "chat" or not request.empty
    if sent.get("messages", [USER])[-1] == CONTINUING and len(sent["messages"]) > 1:
        sent = {**sent, "messages": sent["messages"][:-1]}  # the model's last turn is mended
    assert spoken(decoded(upstream, sent)) & spoken(request)
    return sent


def spoken(request: Request) -> set[tuple[str, ...]]:
    """Who speaks in turn, whatever had to be mended at the beginning.

    A turn of things that not every wire can say (thoughts, a model's own images) may be left out,
    or be said with no text at all: each way to read the request is one of the set.
    """
    readings: set[tuple[str, ...]] = {()}
    for turn in request.turns:
        message = {(*read, turn.role) if read[-1:] != (turn.role,) else read for read in readings}
        readings = message | readings if all(map(_is_sayable_by_few, turn.parts)) else message
    return {read[1:] if read[:1] == ("user",) else read for read in readings}


def _is_sayable_by_few(part: Part) -> bool:
    return not part.text.strip() if isinstance(part, Text) else isinstance(part, Thinking | Media)


def assert_no_null(value: Any, place: str) -> None:
    """No null goes to an upstream but within a schema or a call's own arguments."""
    assert value is not None, place
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in _OPAQUE:
                assert_no_null(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            assert_no_null(inner, f"{place}[{index}]")


def decoded(protocol: Protocol, body: Mapping[str, Any]) -> Request:
    """A body as the canonical request."""
    return codec(protocol).decode_request(body)


def sse(*datas: Mapping[str, Any] | bytes) -> list[SseEvent]:
    """Events with these data."""
    events = []
    for data in datas:
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        events.append(SseEvent(b"", raw))
    return events


def events_from(protocol: Protocol, events: Iterable[SseEvent]) -> list[Event]:
    """What a protocol's decoder makes of an upstream's events, to the end of the stream."""
    meter = CHAT_DIALECTS[protocol].new_meter()
    decoder = codec(protocol).new_decoder(meter)
    found = [event for one in events for event in decoder.take_event(metered(meter, one))]
    return [*found, *decoder.end_stream()]


def metered(meter: Meter, event: SseEvent) -> Any:
    """What a meter reads of an event, which it takes before a decoder is given it."""
    if event.data is None:
        return None
    found = meter.read_event(event.data)
    meter.take_event(found)
    return found


def stream_of(
    call: TranslatedCall,
    *,
    id: str = "a",
    created: int = 1,
    include_usage: bool = True,
    redact: Callable[[str], str] = str,
) -> tuple[TranslatedStream, Meter]:
    """The translation of a call's stream, and the meter that takes each event before."""
    meter = CHAT_DIALECTS[call.translation.upstream].new_meter()
    stream = call.stream(
        meter, id=id, created=created, model="m", include_usage=include_usage, redact=redact
    )
    return stream, meter


def events_in(protocol: Protocol, stream: bytes, *, sizes: Sequence[int] = ()) -> list[Event]:
    """The same from bytes, which come in pieces of these sizes and then in one."""
    splitter = SseSplitter()
    events = []
    at = 0
    for size in sizes:
        events.extend(splitter.feed(stream[at : at + size]))
        at += size
    events.extend(splitter.feed(stream[at:]))
    assert splitter.pending() == b"", "an event lacks its end"
    return events_from(protocol, events)


def written(protocol: Protocol, events: Iterable[Event], *, include_usage: bool = True) -> bytes:
    """A client's stream of these events."""
    encoder = codec(protocol).new_encoder(
        id="answer-1", created=1_700_000_000, model="m", include_usage=include_usage
    )
    return b"".join(encoder.encode_event(event) for event in events)


def data_of(stream: bytes) -> list[Any]:
    """The data of a stream's events as JSON; the terminator of chat as text."""
    datas = [event.data for event in SseSplitter().feed(stream)]
    assert None not in datas
    return ["[DONE]" if data == b"[DONE]" else json.loads(data or b"") for data in datas]


def names_of(stream: bytes) -> list[str]:
    """The names of a messages stream's events, each of which equals its data's type."""
    events = SseSplitter().feed(stream)
    names = [(event.event or b"").decode() for event in events]
    assert names == [json.loads(event.data or b"")["type"] for event in events]
    return names


def whole(protocol: Protocol, response: Response) -> Any:
    """A whole answer as the client gets it, as JSON."""
    return json.loads(body_of(protocol, response, id="answer-1", created=7))


def body_of(
    protocol: Protocol, response: Response, *, id: str = "x", created: int = 1, model: str = "m"
) -> bytes:
    """A whole answer as the client gets it."""
    encoder = codec(protocol).new_body_encoder(
        id=id, created=created, model=model, include_usage=True
    )
    return b"".join(encoder.encode_event(event) for event in events_saying(response))


def response_to(protocol: Protocol, body: Mapping[str, Any]) -> Response:
    """An upstream's whole answer as the canonical one."""
    return response_in(protocol, json.dumps(body).encode())


def response_in(protocol: Protocol, body: bytes) -> Response:
    """The same of its bytes. Raises UpstreamMalformed."""
    return folded(events_of_body(protocol, body))


def events_of_body(protocol: Protocol, body: bytes) -> list[Event]:
    """The events of an upstream's whole answer. Raises UpstreamMalformed."""
    read, meter = read_body(protocol, body)
    return codec(protocol).new_decoder(meter).take_body(read)


def read_body(protocol: str, body: bytes) -> tuple[Any, Meter]:
    """What a protocol's meter reads of a whole answer. Raises UpstreamMalformed."""
    meter = CHAT_DIALECTS[protocol].new_meter()
    return meter.take_body(body), meter


def comparable(response: Response) -> Response:
    """An answer without what differs by right: the ids, and how arguments are spaced."""
    parts = [
        replace(part, arguments=json.dumps(json.loads(part.arguments), sort_keys=True))
        if isinstance(part, ToolCall)
        else part
        for part in response.parts
    ]
    return replace(response, id=None, model=None, parts=tuple(parts))
