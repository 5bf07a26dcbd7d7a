"""Recorded answers of real providers are translated without a crash, and end as they did.

The recordings stand beside the project; without them there is nothing here to do.
"""

from __future__ import annotations

import json
from pathlib import Path

from channels.dialects.table import codec
from channels.http.sse import SseEvent
from channels.translation.model import Answer, Ended, Failed, Protocol, Text, ThinkingDelta
from tests.unit.translators.wire import data_of, events_from, events_in, folded, read, written

FOLDER = Path(__file__).parents[4] / "shared" / "recordings"
PROTOCOLS: list[Protocol] = ["chat", "messages"]
STREAMS = [
    (protocol, path)
    for protocol in PROTOCOLS
    for path in sorted(FOLDER.glob(f"{protocol}/*.chunks.txt"))
]
WHOLES = [
    (protocol, path) for protocol in PROTOCOLS for path in sorted(FOLDER.glob(f"{protocol}/*.json"))
]


def recorded(protocol: Protocol, path: Path) -> list[SseEvent]:
    """The events of the first answer, with the terminator that the recordings of chat lack."""
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    if protocol == "chat":
        lines.append(b"[DONE]")
    ends = [index for index, line in enumerate(lines) if line == b'{"type":"message_stop"}']
    if ends:
        lines = lines[: ends[0] + 1]
    return [SseEvent(b"", line) for line in lines]


def output_stated(wire: list[SseEvent]) -> int:
    """The output tokens of the last usage that is stated."""
    values = [json.loads(one.data or b"") for one in wire if one.data != b"[DONE]"]
    (*_, last) = [value["usage"] for value in values if value.get("usage") is not None]
    output: int = last.get("output_tokens", last.get("completion_tokens"))
    return output


def text_of(answer: Answer) -> str:
    """All visible text."""
    return "".join(part.text for part in answer.parts if isinstance(part, Text))


def test_recorded_streams_are_translated_to_their_end() -> None:
    for protocol, path in STREAMS:
        wire = recorded(protocol, path)
        events = events_from(protocol, wire)
        assert isinstance(events[-1], Ended | Failed), path.name
        answer = folded(events)
        assert answer.usage is not None, path.name
        assert answer.usage.output_tokens == output_stated(wire), path.name
        for client in PROTOCOLS:
            stream = written(client, events)
            end = data_of(stream)[-1]
            assert end == ("[DONE]" if client == "chat" else {"type": "message_stop"}), path.name
            again = folded(events_in(client, stream))
            assert again.finish == answer.finish, path.name
            assert text_of(again) == text_of(answer), path.name


def test_recorded_streams_cut_anywhere_have_no_end() -> None:
    for protocol, path in STREAMS:
        decoder = codec(protocol).StreamDecoder()
        encoders = [
            codec(client).StreamEncoder(id="a", created=1, model="m", include_usage=True)
            for client in PROTOCOLS
        ]
        for one in recorded(protocol, path)[:-1]:
            for event in decoder.take(read(protocol, one)):
                for encoder in encoders:
                    stream = encoder.encode(event)
                    for end in (b"[DONE]", b"message_stop", b'finish_reason":"', b'stop_reason":"'):
                        assert end not in stream, path.name
        assert decoder.end() == [], path.name


def test_recorded_answers_are_translated() -> None:
    for protocol, path in WHOLES:
        answer = codec(protocol).decode_answer(path.read_bytes())
        assert answer.finish is not None, path.name
        assert answer.usage is not None, path.name
        for client in PROTOCOLS:
            body = codec(client).encode_answer(answer, id="a", created=1, model="m")
            again = codec(client).decode_answer(body)
            assert again.finish == answer.finish, path.name
            assert again.usage == answer.usage, path.name


def test_thinking_in_a_recording_keeps_its_signature() -> None:
    paths = [path for protocol, path in STREAMS if "thinking" in path.name]
    for path in paths:
        events = events_from("messages", recorded("messages", path))
        assert any(isinstance(event, ThinkingDelta) and event.signature for event in events)
        again = folded(events_in("chat", written("chat", events)))
        assert again.parts[0] == folded(events).parts[0]
