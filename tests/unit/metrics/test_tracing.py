"""Which calls get a recorded span, and what the environment decides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from metrics.spans import (
    UNSAMPLED,
    UNSAMPLED_CHILD,
    Attributes,
    CallSpan,
    ContinuedCall,
    TraceParent,
)
from metrics.tracing import DEFAULT_RATIO, Sampling, Tracing, sampling_of

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


@pytest.mark.parametrize(("ratio", "draw"), [(0.0, 0.0), (1.0, 0.999999)])
def test_ratio_of_none_or_all_is_exact(ratio: float, draw: float) -> None:
    span = start(traced(FakeSource(), ratio, draws(draw)))
    assert isinstance(span, Recorded) == bool(ratio)


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
    source, said = FakeSource(), "congo=t61, A=1, rojo=2"
    tracing = traced(source, 1.0, draws(0.0))
    start(tracing, f"00-{TRACE}-{SPAN}-01", state=said)
    continued = start(tracing, f"00-{TRACE}-{SPAN}-00", state=said)
    start(tracing, "garbage", state=said)
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


@pytest.mark.parametrize("header", ["", "garbage", f"00-{TRACE.upper()}-{SPAN}-00"])
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


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_TRACES_SAMPLER_ARG": "1"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "  "},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "True"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
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


@pytest.mark.parametrize(("sampler", "argument", "expected"), SAMPLERS.values(), ids=SAMPLERS)
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


@pytest.mark.parametrize(
    ("sampler", "argument"),
    [("", "often"), ("", "1.5"), ("", "-0.1"), ("", "nan"), ("", "inf"), ("jaeger_remote", "")],
)
def test_sampler_that_is_none_is_reported_and_ignored(
    sampler: str, argument: str, expect_log: Callable[..., None]
) -> None:
    expect_log("sampler_ignored")
    environ = {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": argument}
    assert sampling_of(environ) == Sampling(DEFAULT_RATIO)


def test_opentelemetry_is_not_imported_where_it_is_not_used() -> None:
    code = (
        "import sys, metrics.tracing as t; t.Tracing.from_environment({}, lambda: 0.0);"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
