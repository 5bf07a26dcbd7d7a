"""Which calls are traced. The decision falls before any span is made, so that an unsampled call
costs one comparison.

The caller's decision counts when it sends a valid `traceparent`, in both directions; else a share
of the calls is drawn. Without a configured endpoint nothing is recorded. Spans are in `spans.py`
(shape, and the one that does nothing) and `recording.py` (OpenTelemetry).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from metrics import spans
from metrics.logs import EventLog
from metrics.spans import (
    UNSAMPLED,
    Attributes,
    CallSpan,
    ContinuedCall,
    OnExport,
    TraceParent,
    parse,
)

# Which share of the calls is traced, by OpenTelemetry's own variables.

# By default: an operator who names a collector wants to see calls, not all of them.
DEFAULT_RATIO: Final = 0.01
_RATIO: Final = "traceidratio"
_PARENT_BASED: Final = "parentbased_"
_SHARES: Final[Mapping[str, float | None]] = MappingProxyType(
    {"always_on": 1.0, "always_off": 0.0, _RATIO: None}
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """`ratio` is the share of the calls; where a caller's decision is followed, of the others."""

    ratio: float
    follows_caller: bool = True


def sampling_of(environ: Mapping[str, str]) -> Sampling:
    """Read OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG; what cannot be read is logged and
    ignored.

    Without a sampler it is the parent-based one by ratio, and the ratio DEFAULT_RATIO; one that is
    named without a ratio takes every call, as OpenTelemetry has it.
    """
    named = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    kind = named.removeprefix(_PARENT_BASED)
    if named and kind not in _SHARES:
        allowed = [f"{prefix}{one}" for prefix in (_PARENT_BASED, "") for one in _SHARES]
        _ignored(named, ", ".join(allowed), f"{_PARENT_BASED}{_RATIO}")
        named = ""
    usual = 1.0 if named else DEFAULT_RATIO
    share = _SHARES[kind] if named else None
    return Sampling(
        ratio=_ratio(environ, usual) if share is None else share,
        follows_caller=not named or named.startswith(_PARENT_BASED),
    )


def _ratio(environ: Mapping[str, str], usual: float) -> float:
    text = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if not text:
        return usual
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if 0.0 <= ratio <= 1.0:
        return ratio
    _ignored(text, "0 to 1", usual)
    return usual


def _ignored(found: str, allowed: str, used: object) -> None:
    EventLog("metrics.tracing").warning("sampler_ignored", found=found, allowed=allowed, used=used)


DEFAULT_SERVICE_NAME: Final = "gw"
_NOTHING: Final = Sampling(ratio=0.0)


def _uncounted(count: int, *, is_taken: bool) -> None:
    """Count nothing."""


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
    """Gives each call its span: a recorded one, or one that does nothing.

    Without a `source` none is started: every call has `UNSAMPLED`.
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
        on_export: OnExport = _uncounted,
    ) -> Tracing:
        """Read OpenTelemetry's own variables; `rng` returns numbers in [0, 1).

        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is a full URL, OTEL_EXPORTER_OTLP_ENDPOINT the base of
        one; OTEL_SERVICE_NAME the name (gw); the share of the calls is this file's;
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
        attributes: Callable[[], Attributes],
        is_stranger: bool = False,
    ) -> CallSpan:
        """Start the span of a call that began at `began`, in Unix seconds.

        `header` finds the client's by name, as they came; without `traceparent` the trace is
        `trace_id`, and `tracestate` counts for nothing. There is a source.
        `attributes` are asked for only when the call is sampled. A stranger, who has shown no key,
        is recorded no more often for asking for it.
        """
        assert self.source is not None
        traceparent = header("traceparent")
        parent = parse(traceparent) if traceparent else None
        state = "" if parent is None else spans.read(header("tracestate") or "")
        if not self._is_sampled(parent, is_stranger=is_stranger):
            return UNSAMPLED if parent is None else ContinuedCall(parent, state)
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
        """Export what has ended and stop the exporter; blocks for a few seconds at most."""
        source, self.source = self.source, None
        if source is not None:
            source.shutdown()


def _endpoint(environ: Mapping[str, str]) -> str | None:
    full = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if full:
        return full
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return f"{base.rstrip('/')}/v1/traces" if base else None
