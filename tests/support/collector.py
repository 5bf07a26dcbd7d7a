"""A collector of traces for tests: takes OTLP posts over HTTP and reads their protobuf.

What the gateway's exporter sends is kept as it came (`posts`) and, decoded, as spans.
"""

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from loadtests.rig.waiting import until

POLL_SECONDS = 0.01


@dataclass(frozen=True)
class ReadSpan:
    """One span as the collector got it; ids in hex, `parent_id` empty at the root."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, Any]
    is_error: bool
    start_ns: int
    end_ns: int
    version: str
    events: Mapping[str, int]  # when each happened

    @property
    def error_type(self) -> str | None:
        """What `error.type` says."""
        found = self.attributes.get("error.type")
        assert found is None or isinstance(found, str)
        return found


class Sink(HTTPServer):
    """A collector of one test; answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SinkHandler)
        self.posts: Queue[tuple[str, dict[str, str], bytes]] = Queue()
        self.received: list[ReadSpan] = []
        self.status = 200
        self.replies = threading.Event()  # a collector that hangs has it cleared
        self.replies.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self, trace_id: str, *, count: int) -> list[ReadSpan]:
        """The spans of a trace by their start, once there are so many."""

        def found() -> list[ReadSpan]:
            spans = [span for span in list(self.received) if span.trace_id == trace_id]
            return spans if len(spans) >= count else []

        spans = until(found, what=f"{count} spans of {trace_id}")
        assert len(spans) == count, spans
        return sorted(spans, key=lambda span: span.start_ns)

    @property
    def gateway_traces(self) -> set[str]:
        """The `x-gateway-trace` of every call that has come."""
        return {str(span.attributes.get("gw.call")) for span in list(self.received)}

    def call(self, gateway_trace: str) -> ReadSpan:
        """The span of the call with this `x-gateway-trace`."""

        def found() -> list[ReadSpan]:
            return [s for s in list(self.received) if s.attributes.get("gw.call") == gateway_trace]

        (call,) = until(found, what=f"the span of call {gateway_trace}")
        return call

    def tree(self, gateway_trace: str, *names: str) -> tuple[ReadSpan, list[ReadSpan]]:
        """The span of a call and those below it, which are these in the order of their start."""
        call = self.call(gateway_trace)
        if not names:
            assert not [s for s in list(self.received) if s.parent_id == call.span_id]
            return call, []

        def found() -> list[ReadSpan]:
            below = [s for s in list(self.received) if s.parent_id == call.span_id]
            return below if len(below) >= len(names) else []

        below = sorted(until(found, what=f"{names} below {call}"), key=lambda s: s.start_ns)
        assert [span.name for span in below] == list(names)
        assert {span.trace_id for span in below} == {call.trace_id}
        return call, below

    def of_call(self, gateway_trace: str, *, attempts: int) -> tuple[ReadSpan, list[ReadSpan]]:
        """The span of the call with this `x-gateway-trace`, and those of its attempts."""
        call = self.call(gateway_trace)

        def found() -> list[ReadSpan]:
            tried = [
                s for s in list(self.received) if s.parent_id == call.span_id and s.kind == "client"
            ]
            return tried if len(tried) >= attempts else []

        if attempts:
            tried = until(found, what=f"{attempts} attempts of {call}")
            assert len(tried) == attempts, tried
            return call, sorted(tried, key=lambda span: span.start_ns)
        assert not found()
        return call, []


class SinkHandler(BaseHTTPRequestHandler):
    """Takes a POST."""

    def do_POST(self) -> None:
        sink = self.server
        assert isinstance(sink, Sink)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        sink.posts.put((self.path, headers, body))
        sink.replies.wait()
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if sink.status == 200:
            sink.received.extend(read_spans(body))
        self.send_response(sink.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""


@contextmanager
def running_sink() -> Iterator[Sink]:
    """A collector that listens; stopped afterwards."""
    with Sink() as sink:
        thread = threading.Thread(target=sink.serve_forever, args=(POLL_SECONDS,))
        thread.start()
        try:
            yield sink
        finally:
            sink.replies.set()
            sink.shutdown()
            thread.join()


def read_spans(body: bytes) -> list[ReadSpan]:
    """The spans of one posted batch."""
    return [
        _span(span, _attributes(resource.resource.attributes))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _span(span: Span, resource: Mapping[str, Any]) -> ReadSpan:
    return ReadSpan(
        service=resource["service.name"],
        version=resource["service.version"],
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes=_attributes(span.attributes),
        is_error=span.status.code == Status.STATUS_CODE_ERROR,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        events={event.name: event.time_unix_nano for event in span.events},
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        assert isinstance(pair, KeyValue)
        found[pair.key] = _value(pair.value)
    return found


def _value(value: AnyValue) -> Any:
    which = value.WhichOneof("value")
    if which == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, which) if which is not None else None
