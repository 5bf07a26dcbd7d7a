"""Measures how long work waits in this process, and tells `overload.py` of it.

What the loop owes a timer it owes everybody; and holds that a full batch has left behind wait for
the ledger though the loop be idle. A busy process is looked at more often than one at rest.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.clock import Clock
from gw.api.overload import Overload
from metrics.logs import EventLog
from metrics.prometheus import Metrics

BUSY_SECONDS = 0.01
REST_SECONDS = 0.05


class DelayWatch:
    """Looks again and again, until cancelled."""

    def __init__(
        self,
        overload: Overload,
        *,
        ledger_seconds: Callable[[], float],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._overload = overload
        self._ledger_seconds = ledger_seconds
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("gw.web.overload")

    def __repr__(self) -> str:
        return f"<DelayWatch {self._overload!r}>"

    async def run(self) -> None:
        """Measure until cancelled."""
        overload, clock = self._overload, self._clock
        while True:
            is_busy = overload.waiting or overload.is_limited
            seconds = BUSY_SECONDS if is_busy else REST_SECONDS
            due = clock.monotonic() + seconds
            await clock.sleep(seconds)
            now = clock.monotonic()
            self._measured(max(now - due, self._ledger_seconds()), now)

    def _measured(self, delay_seconds: float, now: float) -> None:
        overload = self._overload
        was_limited = overload.is_limited
        overload.measured(delay_seconds, now)
        self._metrics.queue_delay(delay_seconds)
        if overload.is_limited != was_limited:
            self._metrics.overloaded(overload.is_limited)
            if overload.is_limited:
                self._log.warning("overload_began", waiting=overload.waiting)
            else:
                self._log.warning("overload_ended")
