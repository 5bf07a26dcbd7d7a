"""Spans that are recorded and exported by OpenTelemetry's SDK, for sampled calls only.

Parents and times are explicit: a context variable would be lost in an executor and outlive its
request. The id of a trace that starts with a call is the call's own id, `x-gateway-trace`.
Importing this file takes a tenth of a second (protobuf, requests), so `tracing.py` imports it only
if an endpoint is configured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from metrics.spans import (
    CONNECTED,
    LEASED,
    NO_ATTRIBUTES,
    Attributes,
    CallSpan,
    ChildSpan,
    OnExport,
    RequestTrace,
)
from metrics.trace_context import TraceParent, header_lines, render_traceparent
from metrics.version import release

# A collector without a response must not keep a drained process from ending.
SHUTDOWN_SECONDS = 5.0

Nanoseconds = Callable[[], int]


class CallIds(RandomIdGenerator):
    """Random ids of spans; the id of a trace that starts here is `trace_id`."""

    trace_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id


class _CountedExporter(OTLPSpanExporter):
    """Posts batches and counts each once, after the SDK's own retries."""

    def __init__(self, endpoint: str, on_export: OnExport) -> None:
        super().__init__(endpoint=endpoint)
        self._on_export = on_export

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = super().export(spans)
        finally:
            self._on_export(len(spans), is_taken=result is SpanExportResult.SUCCESS)
        return result


class Recorder:
    """Starts recorded spans; a processor exports them when they end."""

    def __init__(
        self, processor: SpanProcessor, *, service_name: str, time_ns: Nanoseconds
    ) -> None:
        self._ids = CallIds()
        # The sampling was decided before; the SDK must not decide again.
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({"service.name": service_name, "service.version": release()}),
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("gw", release())
        self._time_ns = time_ns

    @classmethod
    def exporting_to(
        cls, endpoint: str, *, service_name: str, time_ns: Nanoseconds, on_export: OnExport
    ) -> Recorder:
        """Return a recorder that posts batches to a collector's full URL, from its own thread.

        The SDK reads headers, time-out, compression, certificates and the length of the queue from
        its own environment variables.
        """
        processor = BatchSpanProcessor(_CountedExporter(endpoint, on_export))
        return cls(processor, service_name=service_name, time_ns=time_ns)

    def start(
        self,
        *,
        name: str,
        parent: TraceParent | None,
        state: str,
        trace_id: int,
        began: float,
        attributes: Attributes,
    ) -> RecordedCall:
        """Start the span of a call, as a child of the client's span if there is one.

        `trace_id`: the trace's id without a client's span. `began`: in Unix seconds. `state`: the
        `tracestate` for upstreams.
        """
        context = Context()  # empty: the current context is not the call's
        if parent is not None:
            caller = SpanContext(
                trace_id=parent.trace_id,
                span_id=parent.span_id,
                is_remote=True,
                trace_flags=TraceFlags(TraceFlags.SAMPLED),
            )
            context = set_span_in_context(NonRecordingSpan(caller), context)
        self._ids.trace_id = trace_id
        start = min(self._time_ns(), round(began * 1e9))
        span = self._tracer.start_span(name, context, SpanKind.SERVER, attributes, start_time=start)
        return RecordedCall(span, self._tracer, self._time_ns, state)

    def shutdown(self) -> None:
        """Export the ended spans and stop, within SHUTDOWN_SECONDS."""
        stopping = threading.Thread(
            target=self._provider.shutdown, name="gw-tracing-shutdown", daemon=True
        )
        stopping.start()
        stopping.join(SHUTDOWN_SECONDS)


class RecordedChild(ChildSpan):
    """The recorded span of one step."""

    __slots__ = ("_span", "_time_ns")

    def __init__(self, span: Span, time_ns: Nanoseconds) -> None:
        self._span = span
        self._time_ns = time_ns

    def __repr__(self) -> str:
        return f"<ChildSpan {'open' if self.is_open else 'ended'} {self.traceparent()}>"

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self._span.is_recording()

    def event(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> None:
        if self.is_open:
            self._span.add_event(name, attributes, self._time_ns())

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        if self.is_open:
            self._span.set_attributes(attributes)

    def end(self, *, error_type: str | None = None, attributes: Attributes = NO_ATTRIBUTES) -> None:
        _end(
            self._span,
            self._time_ns(),
            error_type=error_type,
            is_failure=error_type is not None,
            attributes=attributes,
        )

    def traceparent(self) -> str:
        """Return the `traceparent` of this span."""
        return _header(self._span)


class RecordedRequest(RequestTrace):
    """Adds the phases of one request to the span of its attempt."""

    __slots__ = ("_attempt",)

    def __init__(self, header: bytes, attempt: ChildSpan) -> None:
        super().__init__(header)
        self._attempt = attempt

    def connected(self, *, is_reused: bool) -> None:
        self._attempt.event(CONNECTED, {"gw.connection.reused": is_reused})


class RecordedCall(CallSpan):
    """The recorded span of a call."""

    __slots__ = ("_attempt", "_span", "_state", "_time_ns", "_tracer", "exemplar", "trace_id")

    sampled = True

    def __init__(self, span: Span, tracer: Tracer, time_ns: Nanoseconds, state: str = "") -> None:
        self._state = state
        self.trace_id = self.exemplar = f"{span.get_span_context().trace_id:032x}"
        self._span = span
        self._tracer = tracer
        self._time_ns = time_ns
        self._attempt: RecordedChild | None = None

    def __repr__(self) -> str:
        state = "open" if self._span.is_recording() else "ended"
        return f"<CallSpan {state} {_header(self._span)}>"

    def now(self) -> int:
        return self._time_ns()

    def event(self, name: str) -> None:
        self._span.add_event(name, timestamp=self._time_ns())

    def child(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> RecordedChild:
        return self._child(name, SpanKind.INTERNAL, self._time_ns(), attributes)

    def attempt(
        self, name: str, *, began: int, attributes: Attributes = NO_ATTRIBUTES
    ) -> RecordedChild:
        self._attempt = self._child(name, SpanKind.CLIENT, began, attributes)
        self._attempt.event(LEASED)
        return self._attempt

    def request_trace(
        self, *, propagates: bool, attributes: Attributes = NO_ATTRIBUTES
    ) -> RequestTrace | None:
        attempt = self._attempt
        if attempt is None or not attempt.is_open:
            return None
        attempt.set(attributes)
        lines = header_lines(attempt.traceparent(), self._state) if propagates else b""
        return RecordedRequest(lines, attempt)

    def end(
        self,
        *,
        error_type: str | None = None,
        is_failure: bool = False,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> None:
        if self._attempt is not None and self._attempt.is_open:
            self._attempt.end(error_type=error_type or "abandoned")
        _end(
            self._span,
            self._time_ns(),
            error_type=error_type,
            is_failure=is_failure,
            attributes=attributes,
        )

    def _child(
        self, name: str, kind: SpanKind, began: int, attributes: Attributes
    ) -> RecordedChild:
        context = set_span_in_context(self._span, Context())
        span = self._tracer.start_span(name, context, kind, attributes, start_time=began)
        return RecordedChild(span, self._time_ns)


def _end(
    span: Span, time_ns: int, *, error_type: str | None, is_failure: bool, attributes: Attributes
) -> None:
    if not span.is_recording():
        return
    if attributes:
        span.set_attributes(attributes)
    if error_type is not None:
        span.set_attribute("error.type", error_type)
    if is_failure:  # unset after success and a client's error, by the conventions
        span.set_status(Status(StatusCode.ERROR))
    span.end(time_ns)


def _header(span: Span) -> str:
    context = span.get_span_context()
    return render_traceparent(trace_id=context.trace_id, span_id=context.span_id, is_sampled=True)
