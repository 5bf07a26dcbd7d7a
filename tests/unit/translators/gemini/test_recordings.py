"""Recorded answers of real providers are translated without a crash, and end as they did.

The recordings stand beside the project; without them there is nothing here to do.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from channels.dialects.gemini import codec as gemini
from channels.dialects.gemini.chunk import read_chunks
from channels.dialects.table import codec
from channels.errors import UpstreamMalformed
from channels.json.text import arguments_object
from channels.translation.model import Answer, Ended, Event, Failed, Protocol, Text, ToolCall
from tests.unit.channels.recordings import stated_usage, stream_of, streams, values_of, wholes
from tests.unit.translators.wire import comparable, events_in, folded, written

CLIENTS: list[Protocol] = ["chat", "messages", "native"]
STREAMS = streams("native")
WHOLES = wholes("native")
FOREIGN: list[tuple[Protocol, Path]] = [("chat", path) for path in streams("chat")] + [
    ("messages", path) for path in streams("messages")
]


def events_of(path: Path) -> list[Event]:
    """The events of a recorded stream; the last one may lack its blank line."""
    stream = stream_of(path)
    if not stream.endswith(b"\n\n"):
        stream += b"\n\n"
    return events_in("native", stream)


def visible(answer: Answer) -> list[object]:
    """What a client sees: all text as one, and the calls."""
    text = "".join(part.text for part in answer.parts if isinstance(part, Text))
    calls = [part for part in answer.parts if isinstance(part, ToolCall)]
    return [text, *[(call.name, arguments_object(call.arguments)) for call in calls]]


def test_recorded_stream_is_translated_to_its_end() -> None:
    for path in STREAMS:
        events = events_of(path)
        assert isinstance(events[-1], Ended)
        answer = folded(events)
        assert answer.usage is not None
        stated = stated_usage("native", list(values_of(stream_of(path))))
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == stated
        for client in CLIENTS:
            again = folded(events_in(client, written(client, events)))
            assert again.finish == answer.finish
            if not any(not isinstance(part, Text | ToolCall) for part in answer.parts):
                assert visible(again) == visible(answer)


def test_recorded_stream_comes_back_the_same() -> None:
    for path in STREAMS:
        events = events_of(path)
        again = events_in("native", written("native", events))
        assert comparable(folded(again)) == comparable(folded(events))


def test_recorded_stream_cut_before_its_end_has_none() -> None:
    for path in STREAMS:
        datas = [line[6:] for line in stream_of(path).splitlines() if line.startswith(b"data: ")]
        decoder = gemini.StreamDecoder()
        found = [event for one in datas[:-1] for event in decoder.take(read_chunks(one))]
        if b'"finishReason"' not in b"".join(datas[:-1]):
            assert decoder.end() == []
        for client in CLIENTS:
            stream = written(client, found)
            assert b"finishReason" not in stream
            assert b"[DONE]" not in stream
            assert b"message_stop" not in stream


def test_recorded_answer_is_translated() -> None:
    for path in WHOLES:
        body = path.read_bytes()
        if b'"error"' in body:
            with pytest.raises(UpstreamMalformed):
                gemini.decode_answer(body)
            continue
        answer = gemini.decode_answer(body)
        assert answer.finish is not None
        stated = stated_usage("native", [json.loads(body)])
        assert answer.usage is not None
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == stated
        for client in CLIENTS:
            sent = codec(client).encode_answer(answer, id="a", created=1, model="m")
            again = codec(client).decode_answer(sent)
            assert again.finish == answer.finish
            assert again.usage == answer.usage


def test_stream_of_another_protocol_is_translated() -> None:
    for upstream, path in FOREIGN:
        stream = stream_of(path)
        if upstream == "chat":
            stream += b"data: [DONE]\n\n"
        events = events_in(upstream, stream)
        answer = folded(events)
        again = events_in("native", written("native", events))
        if isinstance(events[-1], Ended):
            assert isinstance(again[-1], Ended)
            assert folded(again).usage == answer.usage
            assert visible(folded(again)) == visible(answer)
        else:
            assert isinstance(events[-1], Failed)
