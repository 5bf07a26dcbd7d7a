"""Properties of the way of the built-in tools, for any request and any order of events."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.dialects.chat.codec import StreamEncoder
from channels.dialects.responses.codec import StreamDecoder
from channels.dialects.responses.events import read_event
from channels.translation.model import Text, ToolCall
from tests.unit.translators.request_strategies import chat_requests
from tests.unit.translators.responses.pieces import CREATED, call, completed, done, event, message
from tests.unit.translators.wire import data_of, decoded, events_from, folded, sse, translated

slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEARCH = {"type": "web_search"}
words = st.text(min_size=1, max_size=20)


@slow
@given(chat_requests)
def test_upstream_is_given_what_its_protocol_allows(body: dict[str, Any]) -> None:
    body = {**body, "tools": [*body.get("tools", ()), SEARCH]}
    sent, _ = translated("chat", "responses", body, stream=True)
    assert sent["input"], "at least one item"
    assert isinstance(sent["instructions"], str)
    assert (sent["store"], sent["stream"]) == (False, True)
    assert SEARCH in sent["tools"]
    for item in sent["input"]:
        if item["type"] == "message":
            assert item["content"], "no empty content"
            kinds = {part["type"] for part in item["content"]}
            is_own = item["role"] == "assistant"
            own = {"output_text", "refusal"}
            assert kinds <= own if is_own else not kinds & own
    said = decoded("chat", body)
    parts = [part for turn in said.turns for part in turn.parts]
    calls = [item["name"] for item in sent["input"] if item["type"] == "function_call"]
    assert len(calls) == sum(isinstance(part, ToolCall) for part in parts)
    whole = json.dumps(sent["input"], ensure_ascii=False)
    for part in parts:
        if isinstance(part, Text) and "](data:image/" not in part.text:
            assert json.dumps(part.text, ensure_ascii=False) in whole, "every text arrives"


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The output of an answer: messages, calls and what the provider ran, in any order."""
    text = words.map(lambda said: {"type": "output_text", "text": said, "annotations": []})
    kinds = st.one_of(
        st.lists(text, min_size=1, max_size=3).map(lambda parts: message(*parts)),
        st.tuples(words, words).map(lambda made: call(name=made[0], arguments=made[1])),
        st.just({"type": "web_search_call", "status": "completed"}),
        st.just({"type": "image_generation_call", "result": "iVBORw0KGgoAAAAN"}),
        words.map(lambda said: {"type": "reasoning", "summary": [{"text": said}]}),
    )
    return [
        {**item, "id": f"i{at}", "call_id": f"call_{at}"}
        for at, item in enumerate(draw(st.lists(kinds, max_size=5)))
    ]


@st.composite
def streams(draw: st.DrawFn, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those items as a stream that leaves out any of the ways in which an item is told."""
    told: list[dict[str, Any]] = []
    for at, item in enumerate(output):
        if item["type"] == "function_call":
            if draw(st.booleans()):
                told.append(event("output_item.added", at, item={**item, "arguments": ""}))
                told += [
                    event("function_call_arguments.delta", at, delta=piece)
                    for piece in (draw(st.sampled_from([[], [*item["arguments"]]])))
                ]
        elif item["type"] == "message" and draw(st.booleans()):
            for index, part in enumerate(item["content"]):
                place = {"content_index": index}
                ways = draw(st.sampled_from([("delta",), ("done",), ("delta", "done")]))
                if "delta" in ways:
                    told += [
                        event("output_text.delta", at, delta=piece, **place)
                        for piece in part["text"]
                    ]
                if "done" in ways:
                    told.append(event("output_text.done", at, text=part["text"], **place))
        told.append(done(at, **item))
    return told


@slow
@given(data=st.data())
def test_however_an_answer_is_told_it_is_the_same_answer(data: st.DataObject) -> None:
    output = data.draw(items())
    last = completed(*output)
    streamed = folded(events_from("responses", sse(CREATED, *data.draw(streams(output)), last)))
    at_the_end = folded(events_from("responses", sse(CREATED, last)))
    assert streamed == at_the_end


@slow
@given(data=st.data())
def test_written_stream_is_whole_only_where_the_upstreams_is(data: st.DataObject) -> None:
    told = [CREATED, *data.draw(streams(data.draw(items()))), completed()]
    kept = data.draw(st.integers(0, len(told)))
    decoder = StreamDecoder()
    encoder = StreamEncoder(id="a", created=1, model="m", include_usage=True)
    written = b"".join(
        encoder.encode(one)
        for part in sse(*told[:kept])
        for one in decoder.take(read_event(part.data or b""))
    )
    chunks = data_of(written)
    is_whole = kept == len(told)
    assert ("[DONE]" in chunks) is is_whole
    reasons = [c["choices"][0]["finish_reason"] for c in chunks if c != "[DONE]" and c["choices"]]
    assert any(reasons) is is_whole
