"""Responses streams as the chat-completions streams that clients of built-in tools are sent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from channels.dialects.responses.dialect import DIALECT as RESPONSES
from channels.dialects.responses.events import read_event, read_usage
from channels.http.sse import SseEvent, SseSplitter
from channels.json import raw_of, read_loosely
from channels.translation.session import BUILTIN_TOOLS, TranslatedCall, TranslatedStream
from tests.support.rows import each
from tests.unit.translators.responses.pieces import (
    CREATED,
    call,
    citation,
    completed,
    done,
    event,
    message,
    text,
)
from tests.unit.translators.wire import data_of, sse

TRANSCRIPTS = Path(__file__).parents[2] / "channels" / "transcripts" / "responses"
RECORDINGS = Path(__file__).parents[5] / "shared" / "recordings" / "responses"
ASKED = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "web_search"}, {"type": "function", "function": {"name": "x" * 70}}],
}
CUT = "It broke off."
PNG = "iVBORw0KGgoAAAAN"


def opened(*, include_usage: bool = True) -> TranslatedStream:
    """A stream under way, whose upstream's secrets are hidden."""
    call = TranslatedCall(BUILTIN_TOOLS, ASKED, redact=lambda text: text.replace("host-7", "[…]"))
    call.upstream_body(model="up", stream=True, max_tokens=9)
    assert call.report.warning() is None
    return call.stream(id="answer-1", created=7, model="m", include_usage=include_usage)


def taken(stream: TranslatedStream, events: Iterable[SseEvent]) -> bytes:
    """The client's bytes for events of the upstream."""
    return b"".join(stream.take(read_event(one.data or b"")) for one in events)


def written(*events: Any, include_usage: bool = True) -> list[Any]:
    """The chunks that an upstream's events become; a stream that is not complete was cut."""
    stream = opened(include_usage=include_usage)
    sent = taken(stream, sse(CREATED, *events))
    ended = events and events[-1].get("type") in ("response.completed", "response.incomplete")
    return data_of(sent + (stream.end() if ended else stream.broken(CUT)))


def deltas(chunks: list[Any]) -> list[Any]:
    """What the chunks add, without the role before and the end after."""
    found = [one["choices"][0]["delta"] for one in chunks if one != "[DONE]" and one.get("choices")]
    assert found[0] == {"role": "assistant", "content": "", "refusal": None}
    return [delta for delta in found[1:] if delta]


def content_of(chunks: list[Any]) -> str:
    """The whole visible text."""
    choices = [one["choices"][0] for one in chunks if one != "[DONE]" and one.get("choices")]
    return "".join(choice["delta"].get("content", "") for choice in choices)


def test_answer_with_a_search_and_its_sources() -> None:
    chunks = written(
        done(type="web_search_call", status="completed"),
        text("It rains", 1),
        event("output_text.annotation.added", 1, content_index=0, annotation=citation(0, 8)),
        text(".", 1),
        completed(),
    )
    source = {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 8}
    assert deltas(chunks) == [
        {"content": "It rains"},
        {"annotations": [{"type": "url_citation", "url_citation": source}]},
        {"content": "."},
    ]
    end, usage, terminator = chunks[-3:]
    assert end["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert terminator == "[DONE]"
    assert {(one["id"], one["model"], one["object"]) for one in chunks[:-1]} == {
        ("resp_1", "gpt", "chat.completion.chunk")
    }


def test_usage_is_for_clients_that_ask() -> None:
    chunks = written(text("Hi"), completed(), include_usage=False)
    assert not any("usage" in one for one in chunks[:-1])
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"


def test_image_is_markdown_and_sources_after_it_stay_in_place() -> None:
    image = f"![image](data:image/png;base64,{PNG})"
    chunks = written(
        text("Look: ", 0),
        done(1, type="image_generation_call", result=PNG, output_format="png"),
        done(2, **message({"text": "Riga.", "annotations": [citation(0, 4)]})),
        completed(),
    )
    said = deltas(chunks)
    assert [delta.get("content") for delta in said] == ["Look: ", image, "Riga.", None]
    content = content_of(chunks)
    source = said[-1]["annotations"][0]["url_citation"]
    assert content[source["start_index"] : source["end_index"]] == "Riga"


def test_function_calls_beside_a_search_under_the_clients_own_names() -> None:
    stream = opened()
    (name,) = TranslatedCall(BUILTIN_TOOLS, ASKED, redact=str).names
    item = call(name=name, arguments="")
    sent = b"".join(
        stream.take(read_event(one.data or b""))
        for one in sse(
            CREATED,
            done(0, type="web_search_call"),
            event("output_item.added", 1, item=item),
            event("function_call_arguments.delta", 1, delta='{"a":1}'),
            completed(),
        )
    )
    chunks = data_of(sent)
    first, second = deltas(chunks)
    assert first["tool_calls"][0]["function"]["name"] == "x" * 70
    assert second["tool_calls"] == [{"index": 0, "function": {"arguments": '{"a":1}'}}]
    assert chunks[-3]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("details", "reason"), [(None, "length"), ({"reason": "content_filter"}, "content_filter")]
)
def test_incomplete_answer_says_why(details: Any, reason: str) -> None:
    chunks = written(text("Hi"), completed(status="incomplete", incomplete_details=details))
    assert chunks[-3]["choices"][0]["finish_reason"] == reason


def closed_with(message: str) -> list[Any]:
    """The end that the gateway itself writes (spec: Stream failure behaviour 3)."""
    error = {"message": message, "type": "api_error", "code": "upstream_error"}
    return [{"error": error}, "[DONE]"]


FAILED = completed(status="failed", error={"code": "rate_limit_exceeded", "message": "host-7 busy"})
ERROR = {"type": "error", "error": {"code": "server_error", "message": "host-7 is down"}}


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], CUT),
        ([FAILED], "[…] busy"),
        ([ERROR], "[…] is down"),
        ([ERROR, FAILED], "[…] is down"),
        ([FAILED, text("late")], "[…] busy"),
    ],
    ids=["cut", "failed", "error and cut", "error and failed", "more after the failure"],
)
def test_failed_stream_is_closed_by_the_gateway_once(events: list[Any], message: str) -> None:
    chunks = written(text("Hi"), *events)
    assert chunks[-2:] == closed_with(message)
    assert chunks.count("[DONE]") == 1
    assert not any(one["choices"][0]["finish_reason"] for one in chunks[:-2])


def test_failure_before_anything_was_said_is_for_another_channel() -> None:
    stream = opened()
    assert taken(stream, sse(CREATED, ERROR, FAILED)) == b""
    assert not stream.has_written
    assert stream.failed is not None
    assert stream.failed.message == "[…] is down"


# --- Whole transcripts, cut everywhere ---


def fed(pieces: list[bytes]) -> tuple[bytes, bool]:
    """What the client is sent for a body that comes in these pieces, and whether it was whole."""
    stream, splitter, meter = opened(), SseSplitter(), RESPONSES.new_meter()
    sent = b""
    for piece in pieces:
        for one in splitter.feed(piece):
            if one.data is not None and not meter.finished:
                event = meter.read(one.data)
                meter.take(event)
                sent += stream.take(event)
    return sent, meter.finished


PATHS = sorted(TRANSCRIPTS.glob("*.sse"))


@each("path", PATHS)
def test_transcript_is_the_same_however_it_is_cut_into_reads(path: Path) -> None:
    body = path.read_bytes()
    whole, _ = fed([body])
    assert fed([body.replace(b"\n", b"\r\n")])[0] == whole
    assert fed([body[at : at + 1] for at in range(len(body))])[0] == whole
    for at in range(0, len(body), max(1, len(body) // 400)):
        assert fed([body[:at], body[at:]])[0] == whole


@each("path", PATHS)
def test_transcript_that_breaks_off_anywhere_is_a_beginning_and_is_closed(path: Path) -> None:
    body = path.read_bytes()
    whole, _ = fed([body])
    for at in range(0, len(body), max(1, len(body) // 400)):
        stream, splitter = opened(), SseSplitter()
        sent = taken(stream, splitter.feed(body[:at]))
        assert whole.startswith(sent)
        if stream.has_written and b"[DONE]" not in sent:
            assert data_of(stream.broken(CUT))[-1] == "[DONE]"
            assert stream.broken(CUT) == b""


def recorded(path: Path) -> list[SseEvent]:
    """The events of the first answer in a recording."""
    events = []
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            events.append(SseEvent(b"", line))
            if b'"type":"response.completed"' in line:
                break
    return events


def test_recordings_end_well_and_say_what_the_provider_said() -> None:
    for path in sorted(RECORDINGS.glob("*.chunks.txt")):
        stream = opened()
        events = recorded(path)
        chunks = data_of(taken(stream, events))
        if "error" in path.name:
            assert chunks == []
            assert stream.failed is not None
            continue
        assert chunks[-1] == "[DONE]", path.name
        values = [read_loosely(one.data or b"") for one in events[:-1]]
        said = [v["delta"] for v in values if v["type"] == "response.output_text.delta"]
        assert content_of(chunks) == "".join(said), path.name
        usage = read_usage(raw_of(read_loosely(events[-1].data or b"")["response"]["usage"]))
        assert usage is not None
        assert chunks[-2]["usage"]["completion_tokens"] == usage.output_tokens, path.name


def test_recorded_search_cites_the_places_it_was_told_of() -> None:
    for path in RECORDINGS.glob("openai-web-search-tool.1.chunks.txt"):
        chunks = data_of(taken(opened(), recorded(path)))
        content = content_of(chunks)
        sources = [one for delta in deltas(chunks) for one in delta.get("annotations", ())]
        cited = [one["url_citation"] for one in sources]
        assert len(cited) == 12
        for one in cited:
            assert content[one["start_index"] : one["end_index"]].startswith("([")
            assert one["url"] in content
