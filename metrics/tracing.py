"""Which calls are traced. The decision falls before any span is made, so that an unsampled call
costs one comparison.

The caller's decision counts when it sends a valid `traceparent`, in both directions; else a share
of the calls is drawn. Without a configured endpoint nothing is recorded. Spans are in `spans.py`
(shape, and the one that does nothing) and `recording.py` (OpenTelemetry).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from metrics import tracestate
from metrics.sampling import Sampling, sampling_of
from metrics.spans import UNSAMPLED, Attributes, CallSpan, ContinuedCall
from metrics.traceparent import TraceParent, parse

DEFAULT_SERVICE_NAME: Final = "gw"
_NOTHING: Final = Sampling(ratio=0.0)


class SpanSource(Protocol):
    """Makes spans that are recorded (`recording.Recorder`)."""

    def start(
        self,
        *,
        name: str,
        parent: TraceParent | None,
        state: str,
        trace_id: int,
        began: float,
        attributes: Attributes,
    ) -> CallSpan: ...

    def shutdown(self) -> None: ...


class Tracing:
    """Gives each call its span: a recorded one, or one that does nothing."""

    def __init__(
        self, source: SpanSource | None, *, sampling: Sampling, rng: Callable[[], float]
    ) -> None:
        self._source = source
        self._sampling = sampling
        self._rng = rng

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], rng: Callable[[], float]) -> Tracing:
        """Read OpenTelemetry's own variables; `rng` returns numbers in [0, 1).

        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is a full URL, OTEL_EXPORTER_OTLP_ENDPOINT the base of
        one; OTEL_SERVICE_NAME the name (gw); the share of the calls is `sampling.py`'s;
        OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none turn tracing off. Starts the exporter's
        thread: call it after any fork.
        """
        endpoint = _endpoint(environ)
        is_off = (
            environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
            or environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
        )
        if endpoint is None or is_off:
            return cls(None, sampling=_NOTHING, rng=rng)
        # Here, because the exporter takes a tenth of a second to import and most processes (every
        # command but serve, and serve without a collector) never use it.
        from metrics.recording import Recorder

        source = Recorder.exporting_to(
            endpoint,
            service_name=environ.get("OTEL_SERVICE_NAME") or DEFAULT_SERVICE_NAME,
            time_ns=time.time_ns,
        )
        return cls(source, sampling=sampling_of(environ), rng=rng)

    def __repr__(self) -> str:
        return f"<Tracing {'off' if self._source is None else self._sampling}>"

    def start_call(
        self,
        *,
        name: str,
        header: Callable[[str], str | None],
        trace_id: int,
        began: float,
        attributes: Callable[[], Attributes],
        is_stranger: bool = False,
    ) -> CallSpan:
        """Start the span of a call that began at `began`, in Unix seconds.

        `header` finds the client's by name, as they came; without `traceparent` the trace is
        `trace_id`, and `tracestate` counts for nothing.
        `attributes` are asked for only when the call is sampled. A stranger, who has shown no key,
        is recorded no more often for asking for it.
        """
        source = self._source
        if source is None:
            return UNSAMPLED
        traceparent = header("traceparent")
        parent = parse(traceparent) if traceparent else None
        state = "" if parent is None else tracestate.read(header("tracestate") or "")
        if not self._is_sampled(parent, is_stranger=is_stranger):
            return UNSAMPLED if parent is None else ContinuedCall(parent, state)
        return source.start(
            name=name,
            parent=parent,
            state=state,
            trace_id=trace_id,
            began=began,
            attributes=attributes(),
        )

    def _is_sampled(self, parent: TraceParent | None, *, is_stranger: bool) -> bool:
        sampling = self._sampling
        if parent is not None and sampling.follows_caller:
            if not parent.is_sampled:
                return False
            if not is_stranger:
                return True
        return self._rng() < sampling.ratio

    def shutdown(self) -> None:
        """Export what has ended and stop the exporter; blocks for a few seconds at most."""
        source, self._source = self._source, None
        if source is not None:
            source.shutdown()


def _endpoint(environ: Mapping[str, str]) -> str | None:
    full = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if full:
        return full
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return f"{base.rstrip('/')}/v1/traces" if base else None
