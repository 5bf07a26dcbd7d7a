"""Overload: admission control by queue delay.

Overload is detected as CoDel detects a standing queue (RFC 8289): the delay stays above a target
for a whole interval, so a shorter burst is no overload. Then the number of calls that wait for
their hold is limited, and the limit follows the delay by additive increase and multiplicative
decrease (AIMD; Chiu and Jain, 1989), once an interval:

    state     in an interval                                   then
    free      every delay was above the target                 limited to LIMIT_FIRST
    limited   the mean delay was above a quarter of the target the limit falls to DECREASE of it
    limited   it was not, and calls were refused               the limit rises by LIMIT_FIRST / 4
    limited   no refusal, in CALM_INTERVALS on end            free

A call above the limit is refused after its head, before its key is looked up and its body read
(`gw/api/application.py`). The delay is that of the loop (`gw/runtime/loop_lag.py`) and of the
ledger's queue, joined by `DelayWatch`; `Overload` itself is pure: time is an argument (monotonic
seconds).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from metrics.logs import EventLog
from metrics.prometheus import Metrics

INTERVAL_SECONDS = 0.25
# This many calls keep the loop busy while their holds are made. A smaller limit makes ledger
# batches smaller, which cost more per call; a quarter of it is the minimum.
LIMIT_FIRST = 64
DECREASE = 2 / 3
CALM_INTERVALS = 4


class Overload:
    """Decides whether a call may wait for its hold. One per process."""

    __slots__ = (
        "_calm",
        "_count",
        "_interval_at",
        "_refused",
        "_sum_seconds",
        "_target_seconds",
        "limit",
        "waiting",
    )

    def __init__(self, target_seconds: float | None) -> None:
        """Without a target no call is refused."""
        self.waiting = 0  # calls whose body is complete and whose hold is not granted
        self.limit: float = inf
        self._target_seconds = inf if target_seconds is None else target_seconds
        self._calm = 0  # intervals in a row without a refusal
        # In this interval:
        self._interval_at = 0.0
        self._count = 0
        self._sum_seconds = 0.0
        self._refused = 0

    @property
    def is_limited(self) -> bool:
        """Whether calls may be refused."""
        return self.limit != inf

    @property
    def is_full(self) -> bool:
        """Whether the next call has to be refused."""
        return self.waiting >= self.limit

    def refused(self) -> None:
        """A call was refused."""
        self._refused += 1

    def measured(self, delay_seconds: float, now: float) -> None:
        """Add a delay measured at `now`; change the limit at the end of an interval."""
        if not self.is_limited and delay_seconds <= self._target_seconds:
            self._begin_interval()
            return
        if not self._count:  # a pause of the process is one delay, however long it was
            self._interval_at = now
        self._count += 1
        self._sum_seconds += delay_seconds
        if now - self._interval_at < INTERVAL_SECONDS:
            return
        if self.is_limited:
            self._adjust()
        else:
            self.limit, self._calm = LIMIT_FIRST, 0
        self._begin_interval()

    def _adjust(self) -> None:
        step = LIMIT_FIRST // 4
        self._calm = 0 if self._refused else self._calm + 1
        if self._calm >= CALM_INTERVALS:
            self.limit = inf
        elif self.waiting > self.limit:
            return  # calls that waited when the limit was set still wait
        elif self._sum_seconds / self._count > self._target_seconds / 4:
            self.limit = max(step, int(self.limit * DECREASE))
        elif self._refused:
            self.limit += step

    def _begin_interval(self) -> None:
        self._count, self._sum_seconds, self._refused = 0, 0.0, 0


BUSY_SECONDS = 0.01
REST_SECONDS = 0.05


class DelayWatch:
    """Reports to `Overload` how long work waits in this process.

    The delay of the loop is how late a timer fires. Holds that did not fit into the last batch wait
    for the ledger even while the loop is idle. A busy process is measured more often.
    """

    def __init__(
        self, overload: Overload, *, ledger_seconds: Callable[[], float], metrics: Metrics
    ) -> None:
        self._overload = overload
        self._ledger_seconds = ledger_seconds
        self._metrics = metrics
        self._log = EventLog("gw.web.overload")

    @property
    def interval_seconds(self) -> float:
        """The time until the next measurement."""
        is_busy = self._overload.waiting or self._overload.is_limited
        return BUSY_SECONDS if is_busy else REST_SECONDS

    def measured(self, lag_seconds: float, *, now: float) -> None:
        """Record how late a timer of the loop fired."""
        overload = self._overload
        delay_seconds = max(lag_seconds, self._ledger_seconds())
        was_limited = overload.is_limited
        overload.measured(delay_seconds, now)
        self._metrics.queue_delay(delay_seconds)
        if overload.is_limited != was_limited:
            self._metrics.overloaded(overload.is_limited)
            if overload.is_limited:
                self._log.warning("overload_began", waiting=overload.waiting)
            else:
                self._log.warning("overload_ended")
