"""Responses streams as the chat-completions streams that clients of built-in tools are sent."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.dialects.chat.response_encoder import ChatStreamEncoder
from channels.dialects.meter import Meter
from channels.dialects.responses.meter import ResponsesMeter
from channels.dialects.responses.response_decoder import ResponsesResponseDecoder
from channels.dialects.usage_details import read_usage
from channels.http.sse import SseEvent
from channels.json.lenient import raw_of, read_loosely
from channels.translation.model import Text, ToolCall
from channels.translation.paths import BUILTIN_TOOLS
from channels.translation.session import TranslatedCall, TranslatedStream
from tests.support.rows import cases
from tests.unit.translation.pieces import assistant, tool, user
from tests.unit.translation.responses.pieces import (
    CREATED,
    call,
    citation,
    completed,
    done,
    event,
    message,
    text,
)
from tests.unit.translation.strategies import chat_requests
from tests.unit.translation.translated import (
    data_of,
    decoded,
    events_from,
    folded,
    metered,
    sse,
    stream_of,
    translated,
)

RECORDINGS = Path(__file__).parents[5] / "shared" / "recordings" / "responses"
REQUESTED = {
    "model": "m",
    "stream": True,
    "messages": [user("hi")],
    "tools": [{"type": "web_search"}, tool("x" * 70)],
}
CUT = "It broke off."
PNG = "iVBORw0KGgoAAAAN"


def opened(*, include_usage: bool = True) -> tuple[TranslatedStream, Meter]:
    """A stream under way, whose upstream's secrets are hidden, and its meter."""
    call = TranslatedCall(BUILTIN_TOOLS, REQUESTED)
    call.upstream_body(model="up", stream=True, max_tokens=9)
    assert call.report.warning() is None
    return stream_of(
        call,
        id="answer-1",
        created=7,
        include_usage=include_usage,
        redact=lambda text: text.replace("host-7", "[…]"),
    )


def taken(under_way: tuple[TranslatedStream, Meter], events: Iterable[SseEvent]) -> bytes:
    """The client's bytes for events of the upstream."""
    stream, meter = under_way
    return b"".join(stream.take_event(metered(meter, one)) for one in events)


def written(*events: Any, include_usage: bool = True) -> list[Any]:
    """The chunks that an upstream's events become; a stream that is not complete was cut."""
    under_way = stream, _ = opened(include_usage=include_usage)
    sent = taken(under_way, sse(CREATED, *events))
    ended = events and events[-1].get("type") in ("response.completed", "response.incomplete")
    return data_of(sent + (stream.end_stream() if ended else stream.broken(CUT)))


def deltas(chunks: list[Any]) -> list[Any]:
    """What the chunks add, without the role before and the end after."""
    found = [one["choices"][0]["delta"] for one in chunks if one != "[DONE]" and one.get("choices")]
    assert found[0] == assistant("", refusal=None)
    return [delta for delta in found[1:] if delta]


def content_of(chunks: list[Any]) -> str:
    """The whole visible text."""
    choices = [one["choices"][0] for one in chunks if one != "[DONE]" and one.get("choices")]
    return "".join(choice["delta"].get("content", "") for choice in choices)


def test_image_is_markdown_and_sources_after_it_stay_in_place() -> None:
    image = f"![image](data:image/png;base64,{PNG})"
    chunks = written(
        text("Look: ", 0),
        done(1, type="image_generation_call", result=PNG, output_format="png"),
        done(2, **message({"text": "Riga.", "annotations": [citation(0, 4)]})),
        completed(),
    )
    stated = deltas(chunks)
    assert [delta.get("content") for delta in stated] == ["Look: ", image, "Riga.", None]
    content = content_of(chunks)
    source = stated[-1]["annotations"][0]["url_citation"]
    assert content[source["start_index"] : source["end_index"]] == "Riga"


def test_function_calls_beside_a_search_under_the_clients_own_names() -> None:
    under_way = opened()
    (name,) = TranslatedCall(BUILTIN_TOOLS, REQUESTED).names
    item = call(name=name, arguments="")
    sent = taken(
        under_way,
        sse(
            CREATED,
            done(0, type="web_search_call"),
            event("output_item.added", 1, item=item),
            event("function_call_arguments.delta", 1, delta='{"a":1}'),
            completed(),
        ),
    )
    chunks = data_of(sent)
    first, second = deltas(chunks)
    assert first["tool_calls"][0]["function"]["name"] == "x" * 70
    assert second["tool_calls"] == [{"index": 0, "function": {"arguments": '{"a":1}'}}]
    assert chunks[-3]["choices"][0]["finish_reason"] == "tool_calls"


def closed_with(message: str) -> list[Any]:
    """The end that the gateway itself writes (reference 2.7)."""
    error = {"message": message, "type": "api_error", "code": "upstream_error"}
    return [{"error": error}, "[DONE]"]


FAILED = completed(status="failed", error={"code": "rate_limit_exceeded", "message": "host-7 busy"})
ERROR = {"type": "error", "error": {"code": "server_error", "message": "host-7 is down"}}


@cases(
    "events, message",
    ([], CUT),
    ([FAILED], "[…] busy"),
    ([ERROR], "[…] is down"),
    ([ERROR, FAILED], "[…] is down"),
    ([FAILED, text("late")], "[…] busy"),
)
def test_failed_stream_is_closed_by_the_gateway_once(events: list[Any], message: str) -> None:
    chunks = written(text("Hi"), *events)
    assert chunks[-2:] == closed_with(message)
    assert chunks.count("[DONE]") == 1
    assert not any(one["choices"][0]["finish_reason"] for one in chunks[:-2])


def recorded(path: Path) -> list[SseEvent]:
    """The events of the first answer in a recording."""
    events = []
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            events.append(SseEvent(b"", line))
            if b'"type":"response.completed"' in line:
                break
    return events


def test_recordings_end_well_and_have_the_providers_words() -> None:
    for path in sorted(RECORDINGS.glob("*.chunks.txt")):
        under_way = stream, _ = opened()
        events = recorded(path)
        chunks = data_of(taken(under_way, events))
        if "error" in path.name:
            assert chunks == []
            assert stream.failed is not None
            continue
        assert chunks[-1] == "[DONE]", path.name
        values = [read_loosely(one.data or b"") for one in events[:-1]]
        stated = [v["delta"] for v in values if v["type"] == "response.output_text.delta"]
        assert content_of(chunks) == "".join(stated), path.name
        last = raw_of(read_loosely(events[-1].data or b"")["response"]["usage"])
        usage, _ = read_usage(last, is_chat=False)
        assert usage is not None
        assert chunks[-2]["usage"]["completion_tokens"] == usage.output_tokens, path.name


def test_recorded_search_cites_the_places_that_it_found() -> None:
    for path in RECORDINGS.glob("openai-web-search-tool.1.chunks.txt"):
        chunks = data_of(taken(opened(), recorded(path)))
        content = content_of(chunks)
        sources = [one for delta in deltas(chunks) for one in delta.get("annotations", ())]
        cited = [one["url_citation"] for one in sources]
        assert len(cited) == 12
        for one in cited:
            assert content[one["start_index"] : one["end_index"]].startswith("([")
            assert one["url"] in content


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
    stated = decoded("chat", body)
    parts = [part for turn in stated.turns for part in turn.parts]
    calls = [item["name"] for item in sent["input"] if item["type"] == "function_call"]
    assert len(calls) == sum(isinstance(part, ToolCall) for part in parts)
    whole = json.dumps(sent["input"], ensure_ascii=False)
    for part in parts:
        if isinstance(part, Text) and "](data:image/" not in part.text:
            assert json.dumps(part.text, ensure_ascii=False) in whole, "every text arrives"


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The output of an answer: messages, calls and what the provider ran, in any order."""
    text = words.map(lambda stated: {"type": "output_text", "text": stated, "annotations": []})
    kinds = st.one_of(
        st.lists(text, min_size=1, max_size=3).map(lambda parts: message(*parts)),
        st.tuples(words, words).map(lambda made: call(name=made[0], arguments=made[1])),
        st.just({"type": "web_search_call", "status": "completed"}),
        st.just({"type": "image_generation_call", "result": "iVBORw0KGgoAAAAN"}),
        words.map(lambda stated: {"type": "reasoning", "summary": [{"text": stated}]}),
    )
    return [
        {**item, "id": f"i{at}", "call_id": f"call_{at}"}
        for at, item in enumerate(draw(st.lists(kinds, max_size=5)))
    ]


@st.composite
def streams(draw: st.DrawFn, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those items as a stream that leaves out any of the ways in which an item is told."""
    result: list[dict[str, Any]] = []
    for at, item in enumerate(output):
        if item["type"] == "function_call":
            if draw(st.booleans()):
                result.append(event("output_item.added", at, item={**item, "arguments": ""}))
                result += [
                    event("function_call_arguments.delta", at, delta=piece)
                    for piece in (draw(st.sampled_from([[], [*item["arguments"]]])))
                ]
        elif item["type"] == "message" and draw(st.booleans()):
            for index, part in enumerate(item["content"]):
                place = {"content_index": index}
                ways = draw(st.sampled_from([("delta",), ("done",), ("delta", "done")]))
                if "delta" in ways:
                    result += [
                        event("output_text.delta", at, delta=piece, **place)
                        for piece in part["text"]
                    ]
                if "done" in ways:
                    result.append(event("output_text.done", at, text=part["text"], **place))
        result.append(done(at, **item))
    return result


@slow
@given(data=st.data())
def test_however_an_answer_is_streamed_it_is_the_same_answer(data: st.DataObject) -> None:
    output = data.draw(items())
    last = completed(*output)
    streamed = folded(events_from("responses", sse(CREATED, *data.draw(streams(output)), last)))
    at_the_end = folded(events_from("responses", sse(CREATED, last)))
    assert streamed == at_the_end


@slow
@given(data=st.data())
def test_written_stream_is_whole_only_where_the_upstreams_is(data: st.DataObject) -> None:
    result = [CREATED, *data.draw(streams(data.draw(items()))), completed()]
    kept = data.draw(st.integers(0, len(result)))
    meter = ResponsesMeter()
    decoder = ResponsesResponseDecoder(meter)
    encoder = ChatStreamEncoder(id="a", created=1, model="m", include_usage=True)
    written = b"".join(
        encoder.encode_event(one)
        for part in sse(*result[:kept])
        for one in decoder.take_event(metered(meter, part))
    )
    chunks = data_of(written)
    is_whole = kept == len(result)
    assert ("[DONE]" in chunks) is is_whole
    reasons = [c["choices"][0]["finish_reason"] for c in chunks if c != "[DONE]" and c["choices"]]
    assert any(reasons) is is_whole
