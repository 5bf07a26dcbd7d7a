"""What the metrics record of calls and channels."""

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
from metrics.recording import RecordedCall, RecordedChild, Recorder
from metrics.spans import FIRST_CHUNK, REQUEST_READ, RESPONSE_HEAD
from metrics.trace_context import TraceParent, parse_traceparent
from metrics.version import release
from tests.unit.metrics.worlds import World

CALLER: Final = TraceParent(trace_id=0xABC, span_id=0xDEF, is_sampled=True)

TRACE_ID: Final = 0x1234_5678


class CallWorld:
    """A recorder whose time moves one second with each look at it."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        seconds = count(1)
        self.recorder = Recorder(
            SimpleSpanProcessor(self.exporter),
            service_name="gw-test",
            time_ns=lambda: next(seconds) * 1_000_000_000,
        )

    def call(self, parent: TraceParent | None = None, *, state: str = "") -> RecordedCall:
        return self.recorder.start(
            name="chat gpt-5",
            parent=parent,
            state=state,
            trace_id=TRACE_ID,
            began=0.5,
            attributes={genai.REQUEST_MODEL: "gpt-5"},
        )

    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()


def attempt_of(call: RecordedCall, **attributes: str) -> RecordedChild:
    return call.attempt("chat up", began=call.now(), attributes=attributes)


def report_of(call: RecordedCall) -> TraceParent | None:
    """What a request of the open attempt tells its upstream."""
    trace = call.request_trace(propagates=True)
    if trace is None:
        return None
    name, _, value = trace.header.decode().partition(": ")
    assert (name, value[-2:]) == ("traceparent", "\r\n")
    return parse_traceparent(value.strip())


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


@pytest.fixture
def calls() -> CallWorld:
    return CallWorld()


def test_call_with_its_steps_is_a_small_tree(calls: CallWorld) -> None:
    call = calls.call()
    assert call.sampled
    assert repr(call).startswith("<CallSpan open 00-")
    call.child("gw.wallet.hold").end(attributes={"gw.hold_nano_usd": 5})
    attempt_of(call, channel="a").end(error_type="timeout", attributes={"gw.outcome": "timeout"})
    attempt_of(call, channel="b").end()
    settle = call.child("gw.wallet.settle")
    call.end(attributes={genai.USAGE_OUTPUT_TOKENS: 7})
    settle.end()  # which is committed when the client has long had its answer

    hold, one, two, whole, settled = calls.spans()
    assert [span.name for span in calls.spans()] == [
        "gw.wallet.hold",
        "chat up",
        "chat up",
        "chat gpt-5",
        "gw.wallet.settle",
    ]
    assert [span.kind for span in calls.spans()] == [
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.CLIENT,
        SpanKind.SERVER,
        SpanKind.INTERNAL,
    ]
    assert dict(hold.attributes or {}) == {"gw.hold_nano_usd": 5}
    assert dict(one.attributes or {}) == {
        "channel": "a",
        "gw.outcome": "timeout",
        "error.type": "timeout",
    }
    assert dict(whole.attributes or {}) == {
        "gen_ai.request.model": "gpt-5",
        "gen_ai.usage.output_tokens": 7,
    }
    assert one.status.status_code == StatusCode.ERROR
    assert two.status.status_code == whole.status.status_code == StatusCode.UNSET
    assert whole.parent is None
    for step in (hold, one, two, settled):
        assert step.parent is not None
        assert step.parent.span_id == context_of(whole).span_id
        assert context_of(step).trace_id == context_of(whole).trace_id
    assert whole.resource.attributes["service.name"] == "gw-test"
    assert whole.resource.attributes["service.version"] == release()


def test_times_are_those_of_the_given_clock(calls: CallWorld) -> None:
    call = calls.call()  # began at 0.5 s
    call.event(REQUEST_READ)  # at 2 s
    began = call.now()  # 3 s
    attempt = call.attempt("chat up", began=began)  # leased at 4 s
    attempt.event(RESPONSE_HEAD)  # at 5 s
    attempt.end()  # at 6 s
    attempt.event(FIRST_CHUNK)  # too late
    call.end()  # at 7 s
    tried, whole = calls.spans()
    assert (whole.start_time, whole.end_time) == (500_000_000, 7_000_000_000)
    assert (tried.start_time, tried.end_time) == (3_000_000_000, 6_000_000_000)
    assert [(e.name, e.timestamp) for e in whole.events] == [("gw.request_read", 2_000_000_000)]
    assert [(e.name, e.timestamp) for e in tried.events] == [
        ("gw.leased", 4_000_000_000),
        ("gw.response_head", 5_000_000_000),
    ]


def test_error_of_the_clients_is_named_and_no_failure(calls: CallWorld) -> None:
    calls.call().end(error_type="quota_exceeded")
    calls.call().end(error_type="upstream_error", is_failure=True)
    refused, failed = calls.spans()
    assert refused.status.status_code == StatusCode.UNSET
    assert failed.status.status_code == StatusCode.ERROR
    assert [(span.attributes or {})["error.type"] for span in (refused, failed)] == [
        "quota_exceeded",
        "upstream_error",
    ]


def test_trace_that_begins_here_has_the_id_of_its_call(calls: CallWorld) -> None:
    call = calls.call()
    call.end()
    (whole,) = calls.spans()
    assert context_of(whole).trace_id == TRACE_ID
    assert call.trace_id == call.exemplar == f"{TRACE_ID:032x}"
    assert call.log_fields == {"trace_id": call.trace_id}


def test_callers_trace_is_continued(calls: CallWorld) -> None:
    call = calls.call(CALLER)
    call.end()
    (whole,) = calls.spans()
    assert whole.parent is not None
    assert (whole.parent.trace_id, whole.parent.span_id) == (0xABC, 0xDEF)
    assert whole.parent.is_remote
    assert context_of(whole).trace_id == 0xABC
    assert call.trace_id == f"{0xABC:032x}"


def test_upstream_is_sent_the_attempt_that_it_serves(calls: CallWorld) -> None:
    call = calls.call(CALLER)
    assert report_of(call) is None
    attempt = attempt_of(call)
    during = report_of(call)
    attempt.end()
    assert report_of(call) is None
    call.end()
    tried, _ = calls.spans()
    assert during == TraceParent(0xABC, context_of(tried).span_id, is_sampled=True)


def test_upstream_that_is_not_to_know_is_sent_nothing_and_its_way_is_noted(
    calls: CallWorld,
) -> None:
    call = calls.call()
    attempt = attempt_of(call)
    trace = call.request_trace(propagates=False, attributes={genai.SERVER_ADDRESS: "up.example"})
    assert trace is not None
    assert trace.header == b""
    trace.connected(is_reused=True)
    attempt.end()
    (tried,) = calls.spans()
    assert (tried.attributes or {})["server.address"] == "up.example"
    leased, connected = tried.events
    assert (leased.name, connected.name) == ("gw.leased", "gw.connected")
    assert dict(connected.attributes or {}) == {"gw.connection.reused": True}


def test_first_end_counts(calls: CallWorld) -> None:
    call = calls.call()
    attempt = attempt_of(call)
    attempt.end()
    attempt.end(error_type="late", attributes={"late": True})
    call.end()
    call.end(error_type="late", is_failure=True, attributes={"late": True})
    assert [span.status.status_code for span in calls.spans()] == [StatusCode.UNSET] * 2
    assert all("late" not in (span.attributes or {}) for span in calls.spans())


def test_attempt_left_open_ends_with_its_call(calls: CallWorld) -> None:
    call = calls.call()
    attempt = attempt_of(call)
    call.end()
    tried, whole = calls.spans()
    assert tried.status.status_code == StatusCode.ERROR
    assert (tried.attributes or {})["error.type"] == "abandoned"
    assert whole.status.status_code == StatusCode.UNSET
    assert not attempt.is_open
    assert repr(attempt) == f"<ChildSpan ended {attempt.traceparent()}>"


def test_spans_of_other_code_are_no_parents(calls: CallWorld) -> None:
    foreign = trace.NonRecordingSpan(SpanContext(1, 2, is_remote=False))
    with trace.use_span(foreign):
        call = calls.call()
        attempt_of(call).end()
        call.end()
    tried, whole = calls.spans()
    assert whole.parent is None
    assert tried.parent is not None
    assert tried.parent.span_id == context_of(whole).span_id


async def test_calls_side_by_side_keep_their_own_attempts(calls: CallWorld) -> None:
    async def one(parent: int) -> None:
        call = calls.call(TraceParent(parent, 1, is_sampled=True))
        await asyncio.sleep(0)
        attempt = attempt_of(call)
        await asyncio.sleep(0)
        of_this = report_of(call)
        assert of_this is not None
        assert of_this.trace_id == parent
        attempt.end()
        call.end()

    await asyncio.gather(*(one(parent) for parent in range(1, 20)))
    roots = {
        context_of(span).trace_id: context_of(span).span_id
        for span in calls.spans()
        if span.kind == SpanKind.SERVER
    }
    assert set(roots) == set(range(1, 20))
    for span in calls.spans():
        if span.kind == SpanKind.CLIENT:
            assert span.parent is not None
            assert span.parent.span_id == roots[context_of(span).trace_id]


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


def states(world: World, channel: str = "a") -> str:
    """Return which states are shown as the present one."""
    return " ".join(
        state
        for state in ("closed", "open", "half_open")
        if world.value("gw_channel_state", channel=channel, state=state)
    )


def test_channel_shows_one_state_at_a_time_and_its_slots(world: World) -> None:
    seen = []
    for state in ("closed", "open", "half_open", "closed"):
        world.metrics.channel_state(channel="a", state=state)
        seen.append(states(world))
    assert seen == ["closed", "open", "half_open", "closed"]
    assert len(world.labels("gw_channel_state")) == 3
    for in_use, limit in ((3, 256), (4, 256), (4, 8)):
        world.metrics.channel_slots(channel="a", limit=limit).value = in_use
        assert world.value("gw_channel_slots_in_use", channel="a") == in_use
        assert world.value("gw_channel_slots_limit", channel="a") == limit


def test_only_changes_of_state_are_transitions(world: World) -> None:
    for state in ("closed", "closed", "open", "open", "half_open", "open"):
        world.metrics.channel_state(channel="a", state=state)
    assert world.value("gw_channel_transitions_total", channel="a", state="open") == 2
    assert world.value("gw_channel_transitions_total", channel="a", state="half_open") == 1
    assert world.value("gw_channel_transitions_total", channel="a", state="closed") is None


def channels(world: World) -> set[str]:
    """Return every channel that any series names."""
    return {
        sample.labels["channel"]
        for metric in world.registry.collect()
        for sample in metric.samples
        if "channel" in sample.labels
    }


def test_removed_channel_leaves_no_series(world: World) -> None:
    world.use("a")
    world.use("b")
    world.metrics.channel_removed("a")
    assert channels(world) == {"b"}


def test_late_news_of_a_removed_channel_makes_no_series(world: World) -> None:
    world.use("a")
    world.metrics.channel_removed("a")
    world.metrics.attempt("a", "ok", 0.1)
    world.metrics.channel_state(channel="a", state="half_open")
    assert channels(world) == set()


def test_channel_that_comes_back_shows_the_state_it_is_in(world: World) -> None:
    world.use("a")
    world.metrics.channel_removed("a")
    world.metrics.channel_state(channel="a", state="half_open")  # a lease came back meanwhile
    world.metrics.channel_slots(channel="a", limit=4).value = 0
    assert states(world) == "half_open"
    world.metrics.attempt("a", "ok", 0.1)
    assert world.value("gw_attempts_total", channel="a", outcome="ok") == 1
