"""A translated stream's events are decoded once, and its client is shown the usage it is charged.

Meter and translation take the same decoded event, and read usage by the same function of the
dialect: what the two say cannot drift apart, wherever an upstream states its counts.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.chat import events as chat
from channels.dialects.gemini import events as gemini
from channels.dialects.messages import events as messages
from channels.dialects.meter import Usage
from channels.dialects.responses import events as responses
from channels.dialects.table import CHAT_DIALECTS
from channels.http.sse import SseSplitter
from tests.unit.calls.golden import transcripts
from tests.unit.calls.relaying import TRANSLATED, Way, relayed

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

    said = [chunk({"content": text}) for text in draw(st.lists(st.text(max_size=3), max_size=3))]
    end = chunk({}, choice={"finish_reason": "stop"})
    last: Any = {"choices": [], "usage": draw(st.none() | CHAT_COUNTS)}
    return [chunk({"role": "assistant"}), *said, end, last, b"[DONE]"]


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
        answer = {"id": "r", "model": "m", "usage": draw(st.none() | RESPONSES_COUNTS)}
        return {"type": f"response.{kind}", "response": answer}

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
    said = [chunk(draw(parts)) for _ in range(draw(st.integers(0, 3)))]
    return [*said, chunk([], finishReason="STOP")]


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
            meter.event(event.data)
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
