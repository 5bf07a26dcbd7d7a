"""Translated streams: read once, charged as shown, kept alive, and ended as the upstream's."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.chat import events as chat
from channels.dialects.gemini import events as gemini
from channels.dialects.messages import events as messages
from channels.dialects.meter import ResponseMeter
from channels.dialects.responses import events as responses
from channels.dialects.table import CHAT_DIALECTS
from channels.dialects.token_counts import Usage
from channels.http.interfaces import UpstreamRequest
from channels.http.sse import SseEvent, SseSplitter
from channels.translation.model import Protocol
from channels.translation.paths import TRANSLATIONS, Translation
from channels.translation.session import TranslatedCall
from gw.api.chat.gemini import ArrayStream
from gw.calls.chat_request import UpstreamPlan
from gw.calls.stream_events import Framing, SseFraming, TranslatedEvents
from tests.support.aio import run
from tests.support.clock import FakeClock
from tests.support.logs import logs
from tests.support.rows import each
from tests.unit.calls import sse
from tests.unit.calls.golden import transcripts
from tests.unit.calls.relaying import TRANSLATED, Way, relayed
from tests.unit.calls.world import CallResult, response_of, world
from tests.unit.channels.recordings import stream_of, streams
from tests.unit.channels.replay import new_meter
from tests.unit.translation.test_odd_values import BODIES

TRANSCRIPTS = Path(__file__).parents[1] / "channels" / "transcripts"
REQUESTED_BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "native": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "responses": {"model": "m", "input": "Hi"},
}
ENDS = {"chat": b"data: [DONE]\n\n", "messages": b'data: {"type":"message_stop"}\n\n'}
CASES = [
    (translation, path)
    for translation in TRANSLATIONS.values()
    for path in (
        *sorted((TRANSCRIPTS / translation.upstream).glob("*.sse")),
        *streams(translation.upstream),
    )
]


def upstream_bytes(protocol: str, path: Path) -> bytes:
    """What the upstream sends; the recordings of chat lack their terminator."""
    stream = stream_of(path)
    is_recorded = path.name.endswith(".chunks.txt")
    return stream + b"data: [DONE]\n\n" if is_recorded and protocol == "chat" else stream


def read_by_meter(protocol: str, stream: bytes) -> ResponseMeter[Any]:
    """What the upstream's own dialect says of the stream, read in one piece."""
    dialect, meter, splitter = CHAT_DIALECTS[protocol], new_meter(protocol), SseSplitter()
    whole = splitter.feed(stream)
    is_whole = not splitter.is_within_event
    rest = [event for event in splitter.feed(b"\n\n") if event.data and dialect.ends(event.data)]
    for event in (*whole, *rest):
        if event.data is not None and not (meter.finished and dialect.has_terminator):
            meter.take_event(meter.read_event(event.data))
    if is_whole:
        meter.end_of_body()
    return meter


def translated(translation: Translation, request: UpstreamRequest) -> UpstreamPlan:
    call = TranslatedCall(translation, REQUESTED_BODIES[translation.client])
    call.upstream_body(model="m", stream=True, max_tokens=9)
    return UpstreamPlan(request, CHAT_DIALECTS[translation.upstream], call)


def ended_well(client: str, sent: bytes, *, is_array: bool) -> bool:
    """Whether the client was told in its own way that the answer is whole."""
    if client == "responses":
        found = events_of(sent)
        last = json.loads(found[-1].data or b"") if found else {}
        return last.get("type") in ("response.completed", "response.incomplete")
    if client != "native":
        return sent.endswith(ENDS[client])
    if is_array and not sent.endswith(b"]"):
        return False
    chunks = json.loads(sent) if is_array else [json.loads(e.data or b"") for e in events_of(sent)]
    return bool(chunks) and "finishReason" in json.dumps(chunks[-1])


def events_of(sent: bytes) -> list[SseEvent]:
    return [event for event in SseSplitter().feed(sent) if event.data is not None]


def check(result: CallResult, meter: ResponseMeter[Any], client: str, *, is_array: bool) -> None:
    """The row is the meter's; the client's stream ended as the upstream's did."""
    sent = result.writer.sent
    is_good = meter.finished and meter.error_seen is None
    assert result.status == (("success", None) if is_good else ("error", result.status[1]))
    usage = meter.usage
    is_covered = not meter.unstated_characters  # what is not is estimated
    if is_good and usage is not None and is_covered:
        assert result.tokens == (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    if result.error is not None:
        assert not is_good
        assert sent == b""  # nothing had been sent: an HTTP error says it
    else:
        assert ended_well(client, sent, is_array=is_array) is is_good
    if not is_good:
        assert b'finish_reason":"' not in sent
        assert b"finishReason" not in sent
        assert not (is_array and sent.endswith(b"]"))


@logs("usage_unpriced", required=False)
@each("translation, path", CASES)
def test_translated_stream_is_charged_and_ends_as_the_upstreams(
    translation: Translation, path: Path
) -> None:
    stream = upstream_bytes(translation.upstream, path)
    meter = read_by_meter(translation.upstream, stream)

    async def main(size: int, framing: Framing) -> None:
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        async with world(a=[response_of(*pieces)]) as w:
            result = await w.call(
                stream=True,
                usage=True,
                max_tokens=5000,  # of which the longest of them is believed
                framing=framing,
                plan=lambda request: translated(translation, request),
            )
            is_array = not framing.keeps_events
            check(result, meter, translation.client, is_array=is_array)

    for size in (7, max(1, len(stream))):
        run(main(size, SseFraming()))
    if translation.client == "native":
        run(main(64, ArrayStream()))


DECODERS: dict[str, tuple[Any, str]] = {
    "chat": (chat, "decode_chunk"),
    "messages": (messages, "decode_event"),
    "responses": (responses, "decode_event"),
    "native": (gemini, "decode_chunk"),
}
COUNTS = st.integers(0, 9)
# What an upstream may say in the place of a count, or leave out.
ODD = st.sampled_from([None, -1, "7", 2.5, 2**40])


@pytest.mark.parametrize("way", TRANSLATED, ids=str)
def test_event_of_a_translated_stream_is_decoded_once(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = max(transcripts(way.upstream), key=lambda path: path.stat().st_size).read_bytes()
    datas = [event.data for event in SseSplitter().feed(stream) if event.data is not None]
    module, name = DECODERS[way.upstream]
    decode, decoded = getattr(module, name), []

    def counted(data: bytes) -> Any:
        decoded.append(bytes(data))
        return decode(data)

    monkeypatch.setattr(module, name, counted)
    got = relayed(way, [stream])
    assert got.is_complete
    assert decoded == datas[: len(decoded)]
    assert len(decoded) in (len(datas), len(datas) - 1)  # nothing behind the terminator is read


def counts_of(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """A usage member, some of whose counts are missing or odd."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, COUNTS | ODD)) | (
        st.fixed_dictionaries(dict.fromkeys(names, COUNTS))
    )


CHAT_COUNTS = counts_of("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens")
MESSAGES_COUNTS = counts_of(
    "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"
)
RESPONSES_COUNTS = counts_of("input_tokens", "output_tokens", "total_tokens")
GEMINI_COUNTS = counts_of(
    "promptTokenCount", "candidatesTokenCount", "totalTokenCount", "thoughtsTokenCount"
)


def chat_stream(draw: st.DrawFn) -> list[Any]:
    def chunk(delta: dict[str, Any], **members: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, **members.pop("choice", {})}
        stated = draw(st.none() | CHAT_COUNTS)
        place = draw(st.sampled_from(["usage", "choice", "x_groq"]))
        if stated is not None and place == "choice":
            choice["usage"] = stated
        elif stated is not None:
            members[place] = stated if place == "usage" else {"usage": stated}
        return {"id": "c", "model": "m", "choices": [choice], **members}

    message = [chunk({"content": text}) for text in draw(st.lists(st.text(max_size=3), max_size=3))]
    end = chunk({}, choice={"finish_reason": "stop"})
    last: Any = {"choices": [], "usage": draw(st.none() | CHAT_COUNTS)}
    return [chunk({"role": "assistant"}), *message, end, last, b"[DONE]"]


def messages_stream(draw: st.DrawFn) -> list[Any]:
    def event(kind: str, **members: Any) -> dict[str, Any]:
        stated = draw(st.none() | MESSAGES_COUNTS)
        return {"type": kind, **members, **({} if stated is None else {"usage": stated})}

    start = {"id": "m", "model": "m", "usage": draw(st.none() | MESSAGES_COUNTS)}
    deltas = [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        for text in draw(st.lists(st.text(max_size=3), max_size=3))
    ]
    end = event("message_delta", delta={"stop_reason": "end_turn"})
    return [{"type": "message_start", "message": start}, *deltas, end, event("message_stop")]


def responses_stream(draw: st.DrawFn) -> list[Any]:
    def event(kind: str) -> dict[str, Any]:
        response = {"id": "r", "model": "m", "usage": draw(st.none() | RESPONSES_COUNTS)}
        return {"type": f"response.{kind}", "response": response}

    text = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}
    return [event("created"), text, event("completed")]


def gemini_stream(draw: st.DrawFn) -> list[Any]:
    def chunk(parts: list[Any], **members: Any) -> dict[str, Any]:
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, **members}
        stated = draw(st.none() | GEMINI_COUNTS)
        usage = {} if stated is None else {"usageMetadata": stated}
        return {"candidates": [candidate], "responseId": "r", "modelVersion": "m", **usage}

    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    parts = st.lists(st.sampled_from([{"text": ""}, {"text": "Hi"}, image]), max_size=2)
    message = [chunk(draw(parts)) for _ in range(draw(st.integers(0, 3)))]
    return [*message, chunk([], finishReason="STOP")]


STREAMS = {
    "chat": chat_stream,
    "messages": messages_stream,
    "responses": responses_stream,
    "native": gemini_stream,
}


def displayed(way: Way, body: bytes) -> Usage | None:
    """The usage that a client is shown, by its own protocol's meter; zeros are no statement."""
    meter = CHAT_DIALECTS[way.client].new_meter()
    for event in SseSplitter().feed(body):
        if event.data is not None:
            meter.take_event(meter.read_event(event.data))
    usage = meter.usage
    return None if usage == Usage(0, 0) else usage


def comparable(usage: Usage | None, way: Way) -> tuple[int, ...] | None:
    """The counts that every protocol on the way can state."""
    if usage is None or usage == Usage(0, 0):
        return None
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens)
    return counts if way.client == "native" else (*counts, usage.cache_write_tokens)


@pytest.mark.parametrize("way", [way for way in TRANSLATED if not way.is_array], ids=str)
@given(data=st.data())
def test_client_is_shown_the_usage_that_it_is_charged(way: Way, data: st.DataObject) -> None:
    events = data.draw(st.composite(STREAMS[way.upstream])())
    stream = b"".join(
        b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
        for event in events
    )
    got = relayed(way, [stream])
    metered, partial = got.reading[0], got.reading[1]
    assert metered is None or isinstance(metered, Usage)
    shown = displayed(way, got.body)
    if metered is not None or partial is None:  # parts of a usage are shown, and not charged alone
        assert got.is_complete
        assert comparable(shown, way) == comparable(metered, way)


PING = b'event: ping\ndata: {"type":"ping"}\n\n'
COMMENT = b": keep-alive\n\n"
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
STATED: dict[Protocol, bytes] = {"chat": sse.delta("Hi"), "messages": sse.event(TEXT)}


class Client:
    """What a client of one translation is sent, at the times that a test says."""

    def __init__(
        self, client: Protocol, upstream: Protocol, framing: Framing | None = None
    ) -> None:
        self.clock = FakeClock()
        call = TranslatedCall(TRANSLATIONS[client, upstream], BODIES[client][0])
        dialect = CHAT_DIALECTS[upstream]
        meter = dialect.new_meter()
        self._splitter = SseSplitter()
        self._framing = TranslatedEvents(
            call.stream(meter, id="a", created=1, model="m", include_usage=True, redact=str),
            framing or SseFraming(),
            meter,
            has_terminator=dialect.has_terminator,
        )

    def gets(self, sent: bytes, *, after: float = 0.0) -> bytes:
        """What these bytes of the upstream's become, so many seconds later."""
        self.clock.advance(after)
        written = []
        for event in self._splitter.feed(sent):
            if event.data is None:
                written.append(self._framing.event(event))
            else:
                written.append(self._framing.write_data(event.data))
        return b"".join(written)


def test_nothing_is_sent_before_the_answer_begins() -> None:
    """It would commit the call to this channel (spec: retried on another one)."""
    assert Client("messages", "chat").gets(COMMENT, after=100) == b""


def test_nothing_follows_an_error() -> None:
    result = Client("messages", "chat")
    result.gets(STATED["chat"])
    assert b"event: error" in result.gets(sse.error_event())
    assert result.gets(COMMENT, after=100) == b""


def test_array_holds_elements_only() -> None:
    result = Client("native", "chat", ArrayStream())
    begun = result.gets(STATED["chat"])
    assert result.gets(COMMENT, after=100) == b""
    found: Any = json.loads(begun + b"]")
    assert found[0]["candidates"]
