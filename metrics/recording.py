"""Spans that are recorded and exported, on OpenTelemetry's SDK. Made for sampled calls only.

Parents and times are given explicitly: nothing depends on a context variable, which would be lost
in an executor and outlive its request. Importing this file costs a tenth of a second (protobuf,
requests), so `tracing.py` does it only where an endpoint is configured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
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

from metrics.spans import NO_ATTRIBUTES, AttemptSpan, Attributes, CallSpan
from metrics.traceparent import TraceParent, render

# A collector that does not answer must not keep a drained process from ending.
SHUTDOWN_SECONDS = 5.0

Nanoseconds = Callable[[], int]


class Recorder:
    """Starts recorded spans and hands them to a processor when they end."""

    def __init__(
        self, processor: SpanProcessor, *, service_name: str, time_ns: Nanoseconds
    ) -> None:
        # Sampling has been decided when a span is asked for; the SDK is not to decide again.
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({"service.name": service_name}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("gw")
        self._time_ns = time_ns

    @classmethod
    def exporting_to(cls, endpoint: str, *, service_name: str, time_ns: Nanoseconds) -> Recorder:
        """Return a recorder that posts batches to a collector's full URL, from its own thread.

        Headers, time-out, compression and certificates are read by the SDK from its own
        environment variables.
        """
        processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint))
        return cls(processor, service_name=service_name, time_ns=time_ns)

    def start(
        self, *, name: str, parent: TraceParent | None, attributes: Attributes
    ) -> RecordedCall:
        """Start the span of a call, below the caller's span if there is one."""
        context = Context()  # empty: whatever is current here has nothing to do with the call
        if parent is not None:
            caller = SpanContext(
                trace_id=parent.trace_id,
                span_id=parent.span_id,
                is_remote=True,
                trace_flags=TraceFlags(TraceFlags.SAMPLED),
            )
            context = set_span_in_context(NonRecordingSpan(caller), context)
        span = self._tracer.start_span(
            name, context, SpanKind.SERVER, attributes, start_time=self._time_ns()
        )
        return RecordedCall(span, self._tracer, self._time_ns)

    def shutdown(self) -> None:
        """Export what has ended and stop; gives up after SHUTDOWN_SECONDS."""
        stopping = threading.Thread(
            target=self._provider.shutdown, name="gw-tracing-shutdown", daemon=True
        )
        stopping.start()
        stopping.join(SHUTDOWN_SECONDS)


class RecordedAttempt(AttemptSpan):
    """The recorded span of one try on one channel."""

    __slots__ = ("_span", "_time_ns")

    def __init__(self, span: Span, time_ns: Nanoseconds) -> None:
        self._span = span
        self._time_ns = time_ns

    def __repr__(self) -> str:
        return f"<AttemptSpan {'open' if self.is_open else 'ended'} {self.traceparent()}>"

    @property
    def is_open(self) -> bool:
        """Whether it has not ended yet."""
        return self._span.is_recording()

    def end(self, *, status_ok: bool, attributes: Attributes = NO_ATTRIBUTES) -> None:
        _end(self._span, self._time_ns(), status_ok=status_ok, attributes=attributes)

    def traceparent(self) -> str:
        """Return the header that names this span as the parent."""
        return _header(self._span)


class RecordedCall(CallSpan):
    """The recorded span of a call."""

    __slots__ = ("_attempt", "_span", "_time_ns", "_tracer")

    def __init__(self, span: Span, tracer: Tracer, time_ns: Nanoseconds) -> None:
        self._span = span
        self._tracer = tracer
        self._time_ns = time_ns
        self._attempt: RecordedAttempt | None = None

    @property
    def sampled(self) -> bool:
        """Whether anything is recorded."""
        return True

    def __repr__(self) -> str:
        state = "open" if self._span.is_recording() else "ended"
        return f"<CallSpan {state} {_header(self._span)}>"

    def attempt(self, *, attributes: Attributes = NO_ATTRIBUTES) -> RecordedAttempt:
        span = self._tracer.start_span(
            "gw.failover.attempt",
            set_span_in_context(self._span, Context()),
            SpanKind.CLIENT,
            attributes,
            start_time=self._time_ns(),
        )
        self._attempt = RecordedAttempt(span, self._time_ns)
        return self._attempt

    def set(self, attributes: Attributes) -> None:
        if self._span.is_recording():
            self._span.set_attributes(attributes)

    def end(self, *, status_ok: bool, attributes: Attributes = NO_ATTRIBUTES) -> None:
        if self._attempt is not None and self._attempt.is_open:
            self._attempt.end(status_ok=False)  # an attempt that was not ended went wrong
        _end(self._span, self._time_ns(), status_ok=status_ok, attributes=attributes)

    def traceparent(self) -> str:
        attempt = self._attempt
        if attempt is not None and attempt.is_open:
            return attempt.traceparent()
        return _header(self._span)


def _end(span: Span, time_ns: int, *, status_ok: bool, attributes: Attributes) -> None:
    if not span.is_recording():
        return
    if attributes:
        span.set_attributes(attributes)
    if not status_ok:  # success is left unset, as the conventions want it of servers and clients
        span.set_status(Status(StatusCode.ERROR))
    span.end(time_ns)


def _header(span: Span) -> str:
    context = span.get_span_context()
    return render(trace_id=context.trace_id, span_id=context.span_id)
