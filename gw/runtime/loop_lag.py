"""Measures the lag of the event loop: the delay of a due callback.

A lagging loop delays every call of the process, and is the first symptom of many causes. This
measures and reports the lag, not its cause: each measurement to who decides on overload, and one in
each interval to the operator.
"""

from __future__ import annotations

from typing import Protocol

from actors.clock import Clock
from metrics.logs import EventLog
from metrics.prometheus import Metrics

INTERVAL_SECONDS = 0.2
# Half a second delays every stream noticeably, and exceeds the jitter of a busy machine.
WARN_SECONDS = 0.5
# The interval of warnings under steady overload.
LAG_QUIET_SECONDS = 10.0


class LagWatch(Protocol):
    """Receives every measurement, and sets the time between them (`gw/http/overload.py`)."""

    @property
    def interval_seconds(self) -> float: ...

    def measured(self, lag_seconds: float, *, now: float) -> None: ...


class LoopLag:
    """Measures how late a sleeping task wakes up."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        clock: Clock,
        watch: LagWatch,
        interval_seconds: float = INTERVAL_SECONDS,
        warn_seconds: float = WARN_SECONDS,
        quiet_seconds: float = LAG_QUIET_SECONDS,
        log: EventLog | None = None,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._watch = watch
        self._interval_seconds = interval_seconds
        self._warn_seconds = warn_seconds
        self._quiet_seconds = quiet_seconds
        self._log = log or EventLog("gw.runtime")
        self._silent_until = float("-inf")
        # Since the last warning.
        self._late = 0
        self._worst_seconds = 0.0

    def __repr__(self) -> str:
        return f"<LoopLag {self._late} unreported, worst {self._worst_seconds:.3f} s>"

    async def run(self) -> None:
        """Measure until cancelled."""
        clock, watch = self._clock, self._watch
        report_at = clock.monotonic() + self._interval_seconds
        while True:
            seconds = watch.interval_seconds
            due = clock.monotonic() + seconds
            await clock.sleep(seconds)
            now = clock.monotonic()
            lag_seconds = max(0.0, now - due)
            watch.measured(lag_seconds, now=now)
            if now >= report_at:
                self.measured(lag_seconds, now=now)
                report_at = now + self._interval_seconds

    def measured(self, lag_seconds: float, *, now: float) -> None:
        """Record one measurement; log a warning unless the last one is recent."""
        self._metrics.loop_lag(lag_seconds)
        if lag_seconds >= self._warn_seconds:
            self._late += 1
            self._worst_seconds = max(self._worst_seconds, lag_seconds)
        if self._late and now >= self._silent_until:
            self._log.warning(
                "loop_lagged", worst_seconds=round(self._worst_seconds, 3), times=self._late
            )
            self._silent_until = now + self._quiet_seconds
            self._late = 0
            self._worst_seconds = 0.0
