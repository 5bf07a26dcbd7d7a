"""Spans as a collector gets them: a real OTLP POST over HTTP, read as protobuf."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from metrics import genai
from metrics.prometheus import Metrics
from metrics.spans import OnExport
from metrics.tracing import Tracing
from tests.support.collector import Sink, read_spans, running_sink

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
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
    told = trace_one({"OTEL_EXPORTER_OTLP_ENDPOINT": f"{sink.url}/", "OTEL_SERVICE_NAME": "gw-eu"})
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
    assert told == f"traceparent: 00-{TRACE}-{attempt.span_id}-01\r\n"
    assert whole.attributes["gen_ai.operation.name"] == "chat"
    assert whole.attributes["gen_ai.request.stream"] is True
    assert whole.attributes["gen_ai.usage.input_tokens"] == 12
    assert whole.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert (whole.is_error, attempt.is_error) == (False, True)
    assert whole.start_ns <= attempt.start_ns
    assert attempt.end_ns <= whole.end_ns


def test_endpoint_of_the_signal_is_taken_as_it_is(sink: Sink) -> None:
    trace_one(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{sink.url}/custom",
        }
    )
    path, _, body = sink.posts.get(timeout=15)
    assert path == "/custom"
    assert {span.service for span in read_spans(body)} == {"gw"}


@pytest.mark.parametrize(("status", "outcome"), [(200, "exported"), (400, "failed")])
def test_spans_are_counted_by_what_the_collector_did_and_a_refusal_is_logged(
    sink: Sink, expect_log: Callable[..., None], status: int, outcome: str
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
