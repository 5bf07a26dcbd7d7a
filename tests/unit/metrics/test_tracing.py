"""Which calls get a recorded span, and what the environment decides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from metrics.spans import UNSAMPLED, UNSAMPLED_ATTEMPT, Attributes, CallSpan
from metrics.traceparent import TraceParent
from metrics.tracing import Tracing

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


class Recorded(CallSpan):
    """Stands for a recorded span."""

    __slots__ = ()


class FakeSource:
    """Keeps what was asked of it."""

    def __init__(self) -> None:
        self.parents: list[TraceParent | None] = []
        self.shutdowns = 0

    def start(self, *, name: str, parent: TraceParent | None, attributes: Attributes) -> CallSpan:
        self.parents.append(parent)
        return Recorded()

    def shutdown(self) -> None:
        self.shutdowns += 1


def draws(*numbers: float) -> Callable[[], float]:
    """Return a random source that gives these numbers and no more."""
    rest: Iterator[float] = iter(numbers)
    return lambda: next(rest)


def start(tracing: Tracing, traceparent: str | None = None) -> CallSpan:
    return tracing.start_call(name="gw.chat.complete", traceparent=traceparent, attributes=dict)


def test_share_of_the_calls_is_drawn() -> None:
    source = FakeSource()
    tracing = Tracing(source, ratio=0.25, rng=draws(0.0, 0.2499, 0.25, 0.99))
    spans = [start(tracing) for _ in range(4)]
    assert [isinstance(span, Recorded) for span in spans] == [True, True, False, False]
    assert source.parents == [None, None]


@pytest.mark.parametrize(("ratio", "draw"), [(0.0, 0.0), (1.0, 0.999999)])
def test_ratio_of_none_or_all_is_exact(ratio: float, draw: float) -> None:
    span = start(Tracing(FakeSource(), ratio=ratio, rng=draws(draw)))
    assert isinstance(span, Recorded) == bool(ratio)


def test_caller_that_samples_is_followed_without_drawing() -> None:
    source = FakeSource()
    span = start(Tracing(source, ratio=0.0, rng=draws()), f"00-{TRACE}-{SPAN}-01")
    assert isinstance(span, Recorded)
    assert source.parents == [
        TraceParent(trace_id=int(TRACE, 16), span_id=int(SPAN, 16), is_sampled=True)
    ]


def test_caller_that_does_not_sample_is_followed_without_drawing() -> None:
    source = FakeSource()
    span = start(Tracing(source, ratio=1.0, rng=draws()), f"00-{TRACE}-{SPAN}-00")
    assert span is UNSAMPLED
    assert source.parents == []


@pytest.mark.parametrize("header", ["", "garbage", f"00-{TRACE.upper()}-{SPAN}-00"])
def test_malformed_header_leaves_it_to_the_draw(header: str) -> None:
    source = FakeSource()
    tracing = Tracing(source, ratio=0.5, rng=draws(0.1, 0.9))
    assert isinstance(start(tracing, header), Recorded)
    assert start(tracing, header) is UNSAMPLED
    assert source.parents == [None]


def test_unsampled_call_gets_the_one_span_that_does_nothing() -> None:
    span = start(Tracing(FakeSource(), ratio=0.0, rng=draws(0.5)))
    assert span is UNSAMPLED
    assert not span.sampled
    assert span.traceparent() is None
    attempt = span.attempt(attributes={"a": 1})
    assert attempt is UNSAMPLED_ATTEMPT
    attempt.end(status_ok=False, attributes={"a": 1})
    span.set({"a": 1})
    span.end(status_ok=True)
    assert repr(span) == "<CallSpan unsampled>"
    assert repr(attempt) == "<AttemptSpan unsampled>"


def test_after_shutdown_nothing_is_recorded() -> None:
    source = FakeSource()
    tracing = Tracing(source, ratio=1.0, rng=draws(0.0))
    tracing.shutdown()
    tracing.shutdown()
    assert source.shutdowns == 1
    assert start(tracing) is UNSAMPLED
    assert repr(tracing) == "<Tracing off>"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_TRACES_SAMPLER_ARG": "1"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "  "},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "True"},
    ],
)
def test_without_an_endpoint_nothing_is_recorded(environ: dict[str, str]) -> None:
    tracing = Tracing.from_environment(environ, draws())
    assert start(tracing, f"00-{TRACE}-{SPAN}-01") is UNSAMPLED
    tracing.shutdown()


@pytest.mark.parametrize(
    ("text", "ratio"), [("", 0.01), ("0.5", 0.5), ("0", 0.0), ("1", 1.0), (" 0.25 ", 0.25)]
)
def test_ratio_comes_from_the_environment(text: str, ratio: float) -> None:
    tracing = Tracing.from_environment(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_SAMPLER_ARG": text},
        draws(),
    )
    assert repr(tracing) == f"<Tracing ratio={ratio}>"
    tracing.shutdown()


@pytest.mark.parametrize("text", ["often", "1.5", "-0.1", "nan", "inf"])
def test_ratio_that_is_none_is_reported_and_ignored(
    text: str, expect_log: Callable[..., None]
) -> None:
    expect_log("sampler_ratio_ignored")
    tracing = Tracing.from_environment(
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_SAMPLER_ARG": text},
        draws(),
    )
    assert repr(tracing) == "<Tracing ratio=0.01>"
    tracing.shutdown()


def test_opentelemetry_is_not_imported_where_it_is_not_used() -> None:
    code = (
        "import sys, metrics.tracing as t; t.Tracing.from_environment({}, lambda: 0.0);"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
