"""Traces: headers, spans, and what is exported."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from metrics import genai
from metrics.prometheus import Metrics
from metrics.sampling import DEFAULT_RATIO, Sampling, sampling_of
from metrics.spans import UNSAMPLED, UNSAMPLED_CHILD, Attributes, CallSpan, ContinuedCall, OnExport
from metrics.trace_context import (
    CHARACTERS_MAX,
    MEMBERS_MAX,
    TraceParent,
    parse_traceparent,
    propagated_tracestate,
    render_traceparent,
)
from metrics.tracing import Tracing
from tests.support.collector import Sink, read_spans, running_sink
from tests.support.logs import ExpectLog, logs
from tests.support.rows import cases, each

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


class Recorded(CallSpan):
    """Stands for a recorded span."""

    __slots__ = ()


class FakeSource:
    """Keeps what was asked of it."""

    def __init__(self) -> None:
        self.parents: list[TraceParent | None] = []
        self.states: list[str] = []
        self.shutdowns = 0

    def start(
        self,
        *,
        name: str,
        parent: TraceParent | None,
        state: str,
        trace_id: int,
        began: float,
        attributes: Attributes,
    ) -> CallSpan:
        self.parents.append(parent)
        self.states.append(state)
        return Recorded()

    def shutdown(self) -> None:
        self.shutdowns += 1


def draws(*numbers: float) -> Callable[[], float]:
    """Return a random source that gives these numbers and no more."""
    rest: Iterator[float] = iter(numbers)
    return lambda: next(rest)


def start(
    tracing: Tracing,
    traceparent: str | None = None,
    *,
    is_stranger: bool = False,
    state: str | None = None,
) -> CallSpan:
    headers = {"traceparent": traceparent, "tracestate": state}
    return tracing.start_call(
        name="chat",
        header=headers.get,
        trace_id=1,
        began=0.0,
        attributes=dict,
        is_stranger=is_stranger,
    )


def traced(source: FakeSource | None, ratio: float, rng: Callable[[], float]) -> Tracing:
    return Tracing(source, sampling=Sampling(ratio), rng=rng)


def test_share_of_the_calls_is_drawn() -> None:
    source = FakeSource()
    tracing = traced(source, 0.25, draws(0.0, 0.2499, 0.25, 0.99))
    spans = [start(tracing) for _ in range(4)]
    assert [isinstance(span, Recorded) for span in spans] == [True, True, False, False]
    assert source.parents == [None, None]


def test_caller_that_samples_is_followed_without_drawing() -> None:
    source = FakeSource()
    span = start(traced(source, 0.0, draws()), f"00-{TRACE}-{SPAN}-01")
    assert isinstance(span, Recorded)
    assert source.parents == [
        TraceParent(trace_id=int(TRACE, 16), span_id=int(SPAN, 16), is_sampled=True)
    ]


def test_caller_that_does_not_sample_is_followed_without_drawing() -> None:
    source = FakeSource()
    span = start(traced(source, 1.0, draws()), f"00-{TRACE}-{SPAN}-00")
    assert isinstance(span, ContinuedCall)
    assert source.parents == []
    assert (span.sampled, span.trace_id, span.exemplar) == (False, TRACE, None)
    assert span.log_fields == {"trace_id": TRACE}
    request = span.request_trace(propagates=True)
    assert request is not None
    assert request.header == f"traceparent: 00-{TRACE}-{SPAN}-00\r\n".encode()
    assert span.request_trace(propagates=False) is None


def test_what_others_say_of_a_trace_goes_on_with_it() -> None:
    source, message = FakeSource(), "congo=t61, A=1, rojo=2"
    tracing = traced(source, 1.0, draws(0.0))
    start(tracing, f"00-{TRACE}-{SPAN}-01", state=message)
    continued = start(tracing, f"00-{TRACE}-{SPAN}-00", state=message)
    start(tracing, "garbage", state=message)
    assert source.states == ["congo=t61,rojo=2", ""]
    request = continued.request_trace(propagates=True)
    assert request is not None
    lines = f"traceparent: 00-{TRACE}-{SPAN}-00\r\ntracestate: congo=t61,rojo=2\r\n"
    assert request.header == lines.encode()


def test_stranger_is_recorded_no_more_often_for_asking() -> None:
    source = FakeSource()
    tracing = traced(source, 0.5, draws(0.1, 0.9))
    header = f"00-{TRACE}-{SPAN}-01"
    assert isinstance(start(tracing, header, is_stranger=True), Recorded)
    assert isinstance(start(tracing, header, is_stranger=True), ContinuedCall)
    assert len(source.parents) == 1


@cases("header", "", "garbage", f"00-{TRACE.upper()}-{SPAN}-00")
def test_malformed_header_leaves_it_to_the_draw(header: str) -> None:
    source = FakeSource()
    tracing = traced(source, 0.5, draws(0.1, 0.9))
    assert isinstance(start(tracing, header), Recorded)
    assert start(tracing, header) is UNSAMPLED
    assert source.parents == [None]


def test_unsampled_call_gets_the_one_span_that_does_nothing() -> None:
    span = start(traced(FakeSource(), 0.0, draws(0.5)))
    assert span is UNSAMPLED
    assert not span.sampled
    assert (span.trace_id, span.exemplar, dict(span.log_fields)) == (None, None, {})
    assert span.request_trace(propagates=True) is None
    attempt = span.attempt("chat up", began=span.now(), attributes={"a": 1})
    assert attempt is span.child("gw.wallet.hold") is UNSAMPLED_CHILD
    attempt.event("gw.response_head")
    attempt.end(error_type="cut", attributes={"a": 1})
    span.end(error_type="cut", is_failure=True)
    assert repr(span) == "<CallSpan unsampled>"
    assert repr(attempt) == "<ChildSpan unsampled>"


def test_after_shutdown_nothing_is_recorded() -> None:
    source = FakeSource()
    tracing = traced(source, 1.0, draws(0.0))
    tracing.shutdown()
    tracing.shutdown()
    assert source.shutdowns == 1
    assert tracing.source is None, "no call begins a span"
    assert repr(tracing) == "<Tracing off>"


@cases(
    "environ",
    {},
    {"OTEL_TRACES_SAMPLER_ARG": "1"},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "  "},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "True"},
    {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
)
def test_without_an_endpoint_nothing_is_recorded(environ: dict[str, str]) -> None:
    tracing = Tracing.from_environment(environ, draws())
    assert tracing.source is None, "no call begins a span"
    tracing.shutdown()


SAMPLERS = {
    "nothing said": ("", "", Sampling(DEFAULT_RATIO)),
    "ratio alone": ("", " 0.25 ", Sampling(0.25)),
    "none": ("", "0", Sampling(0.0)),
    "all": ("", "1", Sampling(1.0)),
    "by ratio": ("traceidratio", "0.5", Sampling(0.5, follows_caller=False)),
    "by ratio of all": ("traceidratio", "", Sampling(1.0, follows_caller=False)),
    "on": ("always_on", "0.5", Sampling(1.0, follows_caller=False)),
    "off": ("always_off", "", Sampling(0.0, follows_caller=False)),
    "callers and a ratio": ("parentbased_traceidratio", "0.5", Sampling(0.5)),
    "callers and the rest": ("ParentBased_Always_On", "", Sampling(1.0)),
    "callers alone": ("parentbased_always_off", "", Sampling(0.0)),
}


@each("sampler, argument, expected", SAMPLERS.values())
def test_sampler_comes_from_the_environment(
    sampler: str, argument: str, expected: Sampling
) -> None:
    environ = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert sampling_of(environ) == expected
    environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:9"
    tracing = Tracing.from_environment(environ, draws())
    assert repr(tracing) == f"<Tracing {expected}>"
    tracing.shutdown()


def test_sampler_without_callers_draws_for_each_call() -> None:
    source = FakeSource()
    sampling = Sampling(0.5, follows_caller=False)
    tracing = Tracing(source, sampling=sampling, rng=draws(0.1, 0.9))
    spans = [start(tracing, f"00-{TRACE}-{SPAN}-{flags}") for flags in ("00", "01")]
    assert [isinstance(span, Recorded) for span in spans] == [True, False]
    assert [parent is not None for parent in source.parents] == [True]


@logs("sampler_ignored")
@pytest.mark.parametrize(
    ("sampler", "argument"),
    [("", "often"), ("", "1.5"), ("", "-0.1"), ("", "nan"), ("", "inf"), ("jaeger_remote", "")],
)
def test_sampler_that_is_none_is_reported_and_ignored(sampler: str, argument: str) -> None:
    environ = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert sampling_of(environ) == Sampling(DEFAULT_RATIO)


def test_opentelemetry_is_not_imported_where_it_is_not_used() -> None:
    code = (
        "import sys, metrics.tracing as t; t.Tracing.from_environment({}, lambda: 0.0);"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@cases(
    "header, is_sampled",
    (f"00-{TRACE}-{SPAN}-01", True),
    (f"00-{TRACE}-{SPAN}-00", False),
    (f"00-{TRACE}-{SPAN}-03", True),  # other flags are not ours
    (f"00-{TRACE}-{SPAN}-fe", False),
    (f"cc-{TRACE}-{SPAN}-01", True),  # a later version, read as far as we know it
    (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
    (f"cc-{TRACE}-{SPAN}-00-", False),
)
def test_wellformed_header_is_read(header: str, is_sampled: bool) -> None:
    assert parse_traceparent(header) == TraceParent(
        trace_id=int(TRACE, 16), span_id=int(SPAN, 16), is_sampled=is_sampled
    )


@cases(
    "header",
    "",
    "00",
    f"ff-{TRACE}-{SPAN}-01",
    f"0-{TRACE}-{SPAN}-01",
    f"000-{TRACE}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE.upper()}-{SPAN}-01",
    f"00-{TRACE}-{SPAN.upper()}-01",
    f"00-{TRACE}-{SPAN}-0A",
    f"0A-{TRACE}-{SPAN}-01",
    f"00-{TRACE[:-1]}-{SPAN}-01",
    f"00-{TRACE}0-{SPAN}-01",
    f"00-{TRACE}-{SPAN[:-1]}-01",
    f"00-{TRACE[:-1]}g-{SPAN}-01",
    f"00-{TRACE}-{SPAN}-1",
    f"00-{TRACE}-{SPAN}-01-more",
    f"00-{TRACE}-{SPAN}-01.",
    f"cc-{TRACE}-{SPAN}-01.what",
    f"00-{TRACE}-{SPAN}",
    f"00_{TRACE}_{SPAN}_01",
    f" 00-{TRACE}-{SPAN}-01",
    f"00-{TRACE}-{SPAN}-01\n",
    f"00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01",  # the header came twice
    f"00-{TRACE}-{SPAN}-٠١",
)
def test_malformed_header_is_ignored(header: str) -> None:
    assert parse_traceparent(header) is None


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_written_header_is_read_back(trace_id: int, span_id: int, is_sampled: bool) -> None:
    header = render_traceparent(trace_id=trace_id, span_id=span_id, is_sampled=is_sampled)
    assert parse_traceparent(header) == TraceParent(
        trace_id=trace_id, span_id=span_id, is_sampled=is_sampled
    )


@given(st.text(max_size=60))
def test_any_text_is_read_without_raising(header: str) -> None:
    parse_traceparent(header)


@cases(
    "header, expected",
    ("congo=t61rcWkgMzE", "congo=t61rcWkgMzE"),
    ("rojo=00f067aa0ba902b7, congo=t61 r", "rojo=00f067aa0ba902b7,congo=t61 r"),
    ("1a-2f@foo=1,\t bar_*/=x;y ", "1a-2f@foo=1,bar_*/=x;y"),
    ("a=1,,b=2, ,", "a=1,b=2"),
    ("a=1,a=2", "a=1"),
    ("a" * 256 + "=1", "a" * 256 + "=1"),
    ("a=" + "v" * 256, "a=" + "v" * 256),
    ("", ""),
    ("a", ""),
    ("a=", ""),
    ("=1", ""),
    ("A=1,b=2", "b=2"),
    ("1a=1,b=2", "b=2"),
    ("a b=1,b=2", "b=2"),
    ("a=1=2,b=2", "b=2"),
    ("a=é,b=2", "b=2"),
    ("a=1\r\nx: y,b=2", "b=2"),
    ("a@1b=1,b=2", "b=2"),
    ("a" * 257 + "=1,b=2", "b=2"),
    ("a=" + "v" * 257 + ",b=2", "b=2"),
)
def test_members_that_are_well_formed_are_kept_in_their_order(header: str, expected: str) -> None:
    assert propagated_tracestate(header) == expected


def test_first_of_too_many_are_kept() -> None:
    members = [f"k{number}=1" for number in range(MEMBERS_MAX + 8)]
    assert propagated_tracestate(",".join(members)) == ",".join(members[:MEMBERS_MAX])


def test_long_members_go_first_where_there_is_no_room_and_then_the_last() -> None:
    long, short = "l=" + "x" * 200, [f"k{number}=" + "y" * 60 for number in range(9)]
    assert propagated_tracestate(",".join([short[0], long, *short[1:4]])) == ",".join(
        [short[0], long, *short[1:4]]
    )
    assert propagated_tracestate(",".join([short[0], long, *short[1:9]])) == ",".join(short[:8])
    assert propagated_tracestate(",".join([long, *short[:5]])) == ",".join(short[:5])


_MEMBERS = st.lists(
    st.builds("{}={}".format, st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.text(max_size=300)),
    max_size=60,
)


@given(_MEMBERS)
def test_whatever_comes_what_is_sent_is_bounded_and_is_read_as_itself(members: list[str]) -> None:
    sent = propagated_tracestate(",".join(members))
    assert len(sent) <= CHARACTERS_MAX
    assert len(sent.split(",")) <= MEMBERS_MAX
    assert sent.isascii()
    assert sent.isprintable()
    assert propagated_tracestate(sent) == sent


CALLER = "00f067aa0ba902b7"


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    # The exporter asks the environment for a proxy.
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running_sink() as sink:
        yield sink


def trace_one(environ: dict[str, str], on_export: OnExport | None = None) -> str | None:
    """Record one call with one attempt, export it, and return what the upstream was told."""
    tracing = Tracing.from_environment(environ, lambda: 0.99, on_export or Metrics().spans_exported)
    call = tracing.start_call(
        name="chat gpt-5",
        header={"traceparent": f"00-{TRACE}-{CALLER}-01"}.get,
        trace_id=1,
        began=time.time(),
        attributes=lambda: {
            genai.OPERATION_NAME: "chat",
            genai.REQUEST_MODEL: "gpt-5",
            genai.REQUEST_STREAM: True,
        },
    )
    attempt = call.attempt("chat up", began=call.now(), attributes={"gw.channel": "openai-a"})
    trace = call.request_trace(propagates=True)
    attempt.end(error_type="503", attributes={"gw.outcome": "status_5xx"})
    call.end(attributes={genai.USAGE_INPUT_TOKENS: 12, genai.RESPONSE_FINISH_REASONS: ["stop"]})
    tracing.shutdown()
    return None if trace is None else trace.header.decode()


def test_collector_gets_the_tree_of_a_sampled_call(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=gateway")  # read by the SDK
    result = trace_one(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{sink.url}/", "OTEL_SERVICE_NAME": "gw-eu"}
    )
    path, headers, body = sink.posts.get(timeout=15)
    assert path == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["x-team"] == "gateway"
    spans = {span.name: span for span in read_spans(body)}
    whole, attempt = spans["chat gpt-5"], spans["chat up"]
    assert whole.service == attempt.service == "gw-eu"
    assert whole.trace_id == attempt.trace_id == TRACE
    assert whole.parent_id == CALLER
    assert attempt.parent_id == whole.span_id
    assert result == f"traceparent: 00-{TRACE}-{attempt.span_id}-01\r\n"
    assert whole.attributes["gen_ai.operation.name"] == "chat"
    assert whole.attributes["gen_ai.request.stream"] is True
    assert whole.attributes["gen_ai.usage.input_tokens"] == 12
    assert whole.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert (whole.is_error, attempt.is_error) == (False, True)
    assert whole.start_ns <= attempt.start_ns
    assert attempt.end_ns <= whole.end_ns


def test_endpoint_of_the_signal_is_taken_as_it_is(sink: Sink) -> None:
    trace_one({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{sink.url}/custom"})
    path, _, body = sink.posts.get(timeout=15)
    assert path == "/custom"
    assert {span.service for span in read_spans(body)} == {"gw"}


@pytest.mark.parametrize(("status", "outcome"), [(200, "exported"), (400, "failed")])
def test_spans_are_counted_by_what_the_collector_did_and_a_refusal_is_logged(
    sink: Sink, expect_log: ExpectLog, status: int, outcome: str
) -> None:
    if outcome == "failed":
        expect_log("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    sink.status = status
    registry = CollectorRegistry()
    counted = Metrics(registry).spans_exported
    assert trace_one({"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url}, counted) is not None
    for name in ("exported", "failed"):
        spans = registry.get_sample_value("gw_trace_spans_total", {"outcome": name})
        assert spans == (2 if name == outcome else 0)
