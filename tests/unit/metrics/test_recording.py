"""Recorded spans, read back from an exporter in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from threading import Event
from typing import Final

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from metrics import genai, recording
from metrics.recording import RecordedCall, Recorder
from metrics.spans import NO_ATTRIBUTES
from metrics.traceparent import TraceParent, parse
from tests.support.aio import run

CALLER: Final = TraceParent(trace_id=0xABC, span_id=0xDEF, is_sampled=True)


class World:
    """A recorder whose time moves one second with each look at it."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        seconds = count(1)
        self.recorder = Recorder(
            SimpleSpanProcessor(self.exporter),
            service_name="gw-test",
            time_ns=lambda: next(seconds) * 1_000_000_000,
        )

    def call(self, parent: TraceParent | None = None) -> RecordedCall:
        return self.recorder.start(
            name="gw.chat.complete", parent=parent, attributes={genai.REQUEST_MODEL: "gpt-5"}
        )

    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


@pytest.fixture
def world() -> World:
    return World()


def test_call_with_attempts_is_a_small_tree(world: World) -> None:
    call = world.call()
    assert call.sampled
    first = call.attempt(attributes={"gw.channel": "a"})
    first.end(status_ok=False, attributes={"gw.outcome": "timeout"})
    call.attempt(attributes={"gw.channel": "b"}).end(status_ok=True)
    call.set({genai.RESPONSE_ID: "resp_1"})
    call.end(status_ok=True, attributes={genai.USAGE_OUTPUT_TOKENS: 7})

    one, two, whole = world.spans()
    assert [span.name for span in (one, two, whole)] == [
        "gw.failover.attempt",
        "gw.failover.attempt",
        "gw.chat.complete",
    ]
    assert dict(one.attributes or {}) == {"gw.channel": "a", "gw.outcome": "timeout"}
    assert dict(whole.attributes or {}) == {
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.id": "resp_1",
        "gen_ai.usage.output_tokens": 7,
    }
    assert (one.kind, whole.kind) == (SpanKind.CLIENT, SpanKind.SERVER)
    assert one.status.status_code == StatusCode.ERROR
    assert two.status.status_code == whole.status.status_code == StatusCode.UNSET
    assert whole.parent is None
    for attempt in (one, two):
        assert attempt.parent is not None
        assert attempt.parent.span_id == context_of(whole).span_id
        assert context_of(attempt).trace_id == context_of(whole).trace_id
    assert whole.resource.attributes["service.name"] == "gw-test"


def test_times_are_those_of_the_given_clock(world: World) -> None:
    call = world.call()  # at 1 s
    call.attempt().end(status_ok=True)  # from 2 s to 3 s
    call.end(status_ok=True)  # at 4 s
    attempt, whole = world.spans()
    assert (whole.start_time, whole.end_time) == (1_000_000_000, 4_000_000_000)
    assert (attempt.start_time, attempt.end_time) == (2_000_000_000, 3_000_000_000)


def test_callers_trace_is_continued(world: World) -> None:
    world.call(CALLER).end(status_ok=True)
    (whole,) = world.spans()
    assert whole.parent is not None
    assert (whole.parent.trace_id, whole.parent.span_id) == (0xABC, 0xDEF)
    assert whole.parent.is_remote
    assert context_of(whole).trace_id == 0xABC


def test_upstream_is_told_of_the_attempt_it_serves(world: World) -> None:
    call = world.call(CALLER)
    before = parse(call.traceparent())
    attempt = call.attempt()
    during = parse(call.traceparent())
    assert attempt.traceparent() == call.traceparent()
    attempt.end(status_ok=True)
    after = parse(call.traceparent())
    call.end(status_ok=True)
    tried, whole = world.spans()
    assert before == after == TraceParent(0xABC, context_of(whole).span_id, is_sampled=True)
    assert during == TraceParent(0xABC, context_of(tried).span_id, is_sampled=True)


def test_first_end_counts(world: World) -> None:
    call = world.call()
    attempt = call.attempt()
    attempt.end(status_ok=True)
    attempt.end(status_ok=False, attributes={"late": True})
    call.end(status_ok=True)
    call.end(status_ok=False)
    call.set({"late": True})
    assert [span.status.status_code for span in world.spans()] == [StatusCode.UNSET] * 2
    assert all("late" not in (span.attributes or {}) for span in world.spans())


def test_attempt_left_open_ends_with_its_call(world: World) -> None:
    call = world.call()
    attempt = call.attempt()
    call.end(status_ok=True)
    tried, whole = world.spans()
    assert tried.status.status_code == StatusCode.ERROR
    assert whole.status.status_code == StatusCode.UNSET
    assert not attempt.is_open


def test_spans_of_other_code_are_no_parents(world: World) -> None:
    foreign = trace.NonRecordingSpan(SpanContext(1, 2, is_remote=False))
    with trace.use_span(foreign):
        call = world.call()
        call.attempt().end(status_ok=True)
        call.end(status_ok=True)
    tried, whole = world.spans()
    assert whole.parent is None
    assert tried.parent is not None
    assert tried.parent.span_id == context_of(whole).span_id


def test_calls_side_by_side_keep_their_own_attempts(world: World) -> None:
    async def one(parent: int) -> None:
        call = world.call(TraceParent(parent, 1, is_sampled=True))
        await asyncio.sleep(0)
        attempt = call.attempt()
        await asyncio.sleep(0)
        assert parse(call.traceparent()) != parse(world.call().traceparent())
        attempt.end(status_ok=True)
        call.end(status_ok=True)

    async def main() -> None:
        await asyncio.gather(*(one(parent) for parent in range(1, 20)))

    run(main())
    roots = {
        context_of(span).trace_id: context_of(span).span_id
        for span in world.spans()
        if span.kind == SpanKind.SERVER
    }
    assert set(roots) == set(range(1, 20))
    for span in world.spans():
        if span.kind == SpanKind.CLIENT:
            assert span.parent is not None
            assert span.parent.span_id == roots[context_of(span).trace_id]


def test_representation_tells_the_state(world: World) -> None:
    call = world.call()
    attempt = call.attempt()
    assert repr(attempt) == f"<AttemptSpan open {attempt.traceparent()}>"
    call.end(status_ok=True)
    assert repr(attempt) == f"<AttemptSpan ended {attempt.traceparent()}>"
    assert repr(call) == f"<CallSpan ended {call.traceparent()}>"


def test_empty_attributes_are_shared_and_cannot_change() -> None:
    with pytest.raises(TypeError):
        NO_ATTRIBUTES["a"] = 1  # type: ignore[index]


class StuckExporter(SpanExporter):
    """A collector that never answers, until the test lets it."""

    def __init__(self) -> None:
        self.release = Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.release.wait()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.release.wait()


def test_stuck_collector_does_not_keep_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "SHUTDOWN_SECONDS", 0.05)
    exporter = StuckExporter()
    recorder = Recorder(SimpleSpanProcessor(exporter), service_name="gw", time_ns=lambda: 1)
    try:
        recorder.shutdown()  # returns, although the exporter does not
        assert not exporter.release.is_set()
    finally:
        exporter.release.set()
