"""Starts the span of each call, sampled or not: decided before any span is made, so that an
unsampled call costs one comparison.

A client's valid `traceparent` decides for its call, either way; else a share of the calls is drawn
(`sampling.py`). Without a configured endpoint nothing is recorded. The spans are in `spans.py`
(interface and no-ops) and `recording.py` (OpenTelemetry).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from metrics import spans
from metrics.sampling import Sampling, sampling_of
from metrics.trace_context import TraceParent, parse_traceparent, propagated_tracestate

DEFAULT_SERVICE_NAME: Final = "gw"
_NOTHING: Final = Sampling(ratio=0.0)


def _uncounted(count: int, *, is_taken: bool) -> None:
    """Count nothing."""


class SpanSource(Protocol):
    """Starts recorded spans (`recording.Recorder`)."""

    def start(
        self,
        *,
        name: str,
        parent: TraceParent | None,
        state: str,
        trace_id: int,
        began: float,
        attributes: spans.Attributes,
    ) -> spans.CallSpan: ...

    def shutdown(self) -> None: ...


class Tracing:
    """Starts the span of each call, a recorded one or a no-op.

    Without a `source` there are no recorded spans.
    """

    def __init__(
        self, source: SpanSource | None, *, sampling: Sampling, rng: Callable[[], float]
    ) -> None:
        self.source = source
        self._sampling = sampling
        self._rng = rng

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        rng: Callable[[], float],
        on_export: spans.OnExport = _uncounted,
    ) -> Tracing:
        """Read OpenTelemetry's variables; `rng` returns numbers in [0, 1).

        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is a full URL, OTEL_EXPORTER_OTLP_ENDPOINT its base;
        OTEL_SERVICE_NAME the name (gw); `sampling_of` has the share. OTEL_SDK_DISABLED=true and
        OTEL_TRACES_EXPORTER=none disable tracing. Starts the exporter's thread, so call it after
        any fork.
        """
        endpoint = _endpoint(environ)
        is_off = (
            environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
            or environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
        )
        if endpoint is None or is_off:
            return cls(None, sampling=_NOTHING, rng=rng)
        # Imported here, since it takes a tenth of a second, and most processes (all commands but
        # serve, and serve without a collector) never use it.
        from metrics.recording import Recorder

        source = Recorder.exporting_to(
            endpoint,
            service_name=environ.get("OTEL_SERVICE_NAME") or DEFAULT_SERVICE_NAME,
            time_ns=time.time_ns,
            on_export=on_export,
        )
        return cls(source, sampling=sampling_of(environ), rng=rng)

    def __repr__(self) -> str:
        return f"<Tracing {'off' if self.source is None else self._sampling}>"

    def start_call(
        self,
        *,
        name: str,
        header: Callable[[str], str | None],
        trace_id: int,
        began: float,
        attributes: Callable[[], spans.Attributes],
        is_stranger: bool = False,
    ) -> spans.CallSpan:
        """Start the span of a call that began at `began`, in Unix seconds; needs a source.

        `header` returns a header of the client's by name. Without a valid `traceparent` the trace
        is `trace_id`, and `tracestate` is ignored. `attributes` is only called for a sampled call.
        `is_stranger`: a client without a key cannot have its calls sampled by a header.
        """
        assert self.source is not None
        traceparent = header("traceparent")
        parent = parse_traceparent(traceparent) if traceparent else None
        state = "" if parent is None else propagated_tracestate(header("tracestate") or "")
        if not self._is_sampled(parent, is_stranger=is_stranger):
            return spans.UNSAMPLED if parent is None else spans.ContinuedCall(parent, state)
        return self.source.start(
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
        """Export the ended spans and stop the exporter; blocks for some seconds at most."""
        source, self.source = self.source, None
        if source is not None:
            source.shutdown()


def _endpoint(environ: Mapping[str, str]) -> str | None:
    full = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if full:
        return full
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return f"{base.rstrip('/')}/v1/traces" if base else None
