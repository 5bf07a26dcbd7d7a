"""Recorded answers of real providers are translated without a crash, and end as they did.

The recordings stand beside the project; without them there is nothing here to do.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from channels.errors import UpstreamMalformed
from channels.http.sse import SseEvent, SseSplitter
from channels.json import arguments_object
from channels.translation.model import (
    Ended,
    Event,
    Protocol,
    Response,
    StreamFailed,
    Text,
    ThinkingDelta,
    ToolCall,
)
from channels.translation.session import codec
from tests.unit.channels.recordings import stated_usage, stream_of, streams, values_of, wholes
from tests.unit.translators.wire import comparable, events_from, events_in, folded, read, written

PROTOCOLS: list[Protocol] = ["chat", "messages", "native"]
STREAMS = [(protocol, path) for protocol in PROTOCOLS for path in streams(protocol)]
WHOLES = [(protocol, path) for protocol in PROTOCOLS for path in wholes(protocol)]
# Bytes that only the end of a stream has.
ENDS = (b"[DONE]", b"message_stop", b"finishReason", b'finish_reason":"', b'stop_reason":"')


def recorded(protocol: Protocol, path: Path) -> list[SseEvent]:
    """The events of the first answer, with the terminator that the recordings of chat lack."""
    stream = stream_of(path)
    if protocol == "chat":
        stream += b"data: [DONE]\n\n"
    events = [event for event in SseSplitter().feed(stream + b"\n\n") if event.data is not None]
    ends = [at for at, event in enumerate(events) if event.data == b'{"type":"message_stop"}']
    return events[: ends[0] + 1] if ends else events


def visible(answer: Response) -> list[object]:
    """What a client sees: all text as one, and the calls."""
    text = "".join(part.text for part in answer.parts if isinstance(part, Text))
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    return [text, *[(call.name, arguments_object(call.arguments)) for call in calls]]


def usage_of(answer: Response) -> tuple[int, int]:
    """Tokens in and out; every recording that is complete states them."""
    assert answer.usage is not None
    return answer.usage.input_tokens, answer.usage.output_tokens


def test_recorded_stream_is_translated_to_its_end() -> None:
    for protocol, path in STREAMS:
        wire = recorded(protocol, path)
        events = events_from(protocol, wire)
        assert isinstance(events[-1], Ended | StreamFailed), path.name
        answer = folded(events)
        stated = stated_usage(protocol, list(values_of(b"".join(one.raw for one in wire))))
        assert usage_of(answer) == stated, path.name
        for client in PROTOCOLS:
            again = folded(events_in(client, written(client, events)))
            assert again.finish == answer.finish, path.name
            if all(isinstance(part, Text | ToolCall) for part in answer.parts):
                assert visible(again) == visible(answer), path.name
            if client == protocol == "native":
                assert comparable(again) == comparable(answer), path.name


def test_recorded_stream_cut_before_its_end_has_none() -> None:
    for protocol, path in STREAMS:
        wire = recorded(protocol, path)[:-1]
        decoder = codec(protocol).StreamDecoder()
        events: list[Event] = []
        for one in wire:
            events += decoder.take(read(protocol, one))
        for client in PROTOCOLS:
            stream = written(client, events)
            assert not any(end in stream for end in ENDS), path.name
        # Native-content has no terminator: a reason may have come before the last event.
        if not any(b'"finishReason"' in one.raw for one in wire):
            assert decoder.end() == [], path.name


def test_recorded_answer_is_translated() -> None:
    for protocol, path in WHOLES:
        body = path.read_bytes()
        if protocol == "native" and b'"error"' in body:
            with pytest.raises(UpstreamMalformed):
                codec(protocol).decode_response(body)
            continue
        answer = codec(protocol).decode_response(body)
        assert answer.finish is not None, path.name
        assert usage_of(answer) == stated_usage(protocol, [json.loads(body)]), path.name
        for client in PROTOCOLS:
            sent = codec(client).encode_response(answer, id="a", created=1, model="m")
            again = codec(client).decode_response(sent)
            assert again.finish == answer.finish, path.name
            assert usage_of(again) == usage_of(answer), path.name


def test_thinking_in_a_recording_keeps_its_signature() -> None:
    paths = [path for protocol, path in STREAMS if "thinking" in path.name]
    for path in (path for path in paths if path.parent.name == "messages"):
        events = events_from("messages", recorded("messages", path))
        assert any(isinstance(event, ThinkingDelta) and event.signature for event in events)
        again = folded(events_in("chat", written("chat", events)))
        assert again.parts[0] == folded(events).parts[0]
