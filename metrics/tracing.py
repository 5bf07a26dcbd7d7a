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

from metrics.logs import EventLog
from metrics.spans import UNSAMPLED, AttemptSpan, Attributes, AttributeValue, CallSpan
from metrics.traceparent import TraceParent, parse

__all__ = ["AttemptSpan", "AttributeValue", "CallSpan", "Tracing"]

DEFAULT_RATIO: Final = 0.01
DEFAULT_SERVICE_NAME: Final = "gw"


class SpanSource(Protocol):
    """Makes spans that are recorded (`recording.Recorder`)."""

    def start(
        self, *, name: str, parent: TraceParent | None, attributes: Attributes
    ) -> CallSpan: ...

    def shutdown(self) -> None: ...


class Tracing:
    """Gives each call its span: a recorded one, or the one that does nothing."""

    def __init__(
        self, source: SpanSource | None, *, ratio: float, rng: Callable[[], float]
    ) -> None:
        self._source = source
        self._ratio = ratio
        self._rng = rng

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], rng: Callable[[], float]) -> Tracing:
        """Read OpenTelemetry's own variables; `rng` returns numbers in [0, 1).

        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is a full URL, OTEL_EXPORTER_OTLP_ENDPOINT the base of
        one; OTEL_TRACES_SAMPLER_ARG the share of calls without a caller's decision (0.01);
        OTEL_SERVICE_NAME the name (gw); OTEL_SDK_DISABLED=true turns tracing off. Starts the
        exporter's thread: call it after any fork.
        """
        endpoint = _endpoint(environ)
        if endpoint is None or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return cls(None, ratio=0.0, rng=rng)
        # Here, because the exporter takes a tenth of a second to import and most processes (every
        # command but serve, and serve without a collector) never use it.
        from metrics.recording import Recorder

        source = Recorder.exporting_to(
            endpoint,
            service_name=environ.get("OTEL_SERVICE_NAME") or DEFAULT_SERVICE_NAME,
            time_ns=time.time_ns,
        )
        return cls(source, ratio=_ratio(environ), rng=rng)

    def __repr__(self) -> str:
        return f"<Tracing {'off' if self._source is None else f'ratio={self._ratio}'}>"

    def start_call(
        self, *, name: str, traceparent: str | None, attributes: Callable[[], Attributes]
    ) -> CallSpan:
        """Start the span of a call; `traceparent` is the client's header as it came.

        `attributes` are asked for only when the call is sampled.
        """
        source = self._source
        if source is None:
            return UNSAMPLED
        parent = parse(traceparent) if traceparent else None
        is_sampled = parent.is_sampled if parent is not None else self._rng() < self._ratio
        if not is_sampled:
            return UNSAMPLED
        return source.start(name=name, parent=parent, attributes=attributes())

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


def _ratio(environ: Mapping[str, str]) -> float:
    text = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if not text:
        return DEFAULT_RATIO
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if 0.0 <= ratio <= 1.0:
        return ratio
    # As OpenTelemetry wants it: a value that cannot be read is said and then ignored.
    EventLog("metrics.tracing").warning(
        "sampler_ratio_ignored", found=text, allowed="0 to 1", used=DEFAULT_RATIO
    )
    return DEFAULT_RATIO
