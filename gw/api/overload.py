"""Refuses calls early when there is more to do than can be done: admission by queue delay.

What waits too long is not one call but the loop, or the ledger's queue: `measured` is told of their
delay many times a second. A delay that stays above the target for longer than a burst takes is an
overload. From then on only so many calls may wait for their hold at a time; the next is refused
when its head is there, before its key is looked up and its body read. How many follows the delay,
and how long a hold takes, which is counted and not timed: calls that wait, over calls a second.

    state     what is seen                                     then
    free      every delay above the target, BURST_SECONDS long limited to LIMIT_FIRST
    limited   an interval in which work or holds were late     the limit falls by a third
    limited   one in which neither was, and calls were refused the limit rises by a fifth
    limited   CALM_SECONDS without a refusal                   free

Pure: time comes as an argument (monotonic seconds). `DelayWatch` below measures; the response to a
refused call is in `base.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from actors.clock import Clock
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# Some hundred calls that come at once are done within this time.
BURST_SECONDS = 0.25
# A pause of the process is one measurement, however long it was.
MEASUREMENTS_MIN = 4
# Between two changes of the limit; longer where a hold takes longer, or no change would be seen.
INTERVAL_SECONDS, INTERVAL_MAX_SECONDS = 0.1, 1.0
CALM_SECONDS = 1.0
# Of the target: under a limit a loop is kept busy by a far shorter queue than shows an overload.
LATE_SHARE = 0.25
# Holds take too long at so many targets, and so many times what they take without a limit: where a
# ledger is slow by nature, fewer of them at a time would only make fewer calls.
HOLD_TARGETS = 2
HOLD_TIMES_REST = 4
# What they take without a limit is the least that was seen; it is forgotten by so much an interval.
REST_DRIFT = 1.02
# So many calls keep the loop busy while their holds are made, so many the ledger, whose batches
# cost the less a call the larger they are. More than the first limit wait when it is set: it is
# left alone until they are through.
LIMIT_MIN = 16
LIMIT_FIRST = 64
FALL, RISE = 2 / 3, 1.2


class Overload:
    """Decides for each call whether it may wait for its hold. One per process."""

    __slots__ = (
        "_above_count",
        "_above_since",
        "_count",
        "_interval_at",
        "_left",
        "_refused",
        "_refused_at",
        "_rest_seconds",
        "_sum_seconds",
        "_target_seconds",
        "_waiting_sum",
        "limit",
        "waiting",
    )

    def __init__(self, target_seconds: float | None) -> None:
        """Without a target nothing is ever refused."""
        self.waiting = 0  # calls whose body is here and whose hold is not answered
        self.limit: float = inf
        self._target_seconds = inf if target_seconds is None else target_seconds
        self._above_since: float | None = None
        self._above_count = 0
        self._refused_at = -inf
        self._rest_seconds = inf  # that a hold takes without a limit
        # In this interval:
        self._interval_at = -inf
        self._count = 0
        self._sum_seconds = 0.0
        self._waiting_sum = 0
        self._left = 0
        self._refused = 0

    def __repr__(self) -> str:
        return f"<Overload {self.waiting} waiting, limit {self.limit:g}>"

    @property
    def is_limited(self) -> bool:
        """Whether calls may be refused."""
        return self.limit != inf

    @property
    def is_full(self) -> bool:
        """Whether the next call has to be refused."""
        return self.waiting >= self.limit

    def enter(self) -> None:
        """A call waits for its hold from now on."""
        self.waiting += 1

    def leave(self) -> None:
        """Note that a call has its hold, or will not get one."""
        self.waiting -= 1
        self._left += 1

    def refused(self) -> None:
        """A call was refused."""
        self._refused += 1

    def measured(self, delay_seconds: float, now: float) -> None:
        """What was due at this moment has waited so long."""
        self._count += 1
        self._sum_seconds += delay_seconds
        self._waiting_sum += self.waiting
        if self.limit == inf:
            self._look_for_overload(delay_seconds, now)
        elapsed = now - self._interval_at
        if elapsed < INTERVAL_SECONDS:
            return
        hold_seconds = self._waiting_sum / self._count * elapsed / max(1, self._left)
        if self.limit == inf:
            self._rest_seconds = min(self._rest_seconds * REST_DRIFT, hold_seconds)
        elif elapsed >= min(self._rest_seconds, INTERVAL_MAX_SECONDS):
            self._adjust(hold_seconds, now)
        else:
            return
        self._begin_interval(now)

    def _look_for_overload(self, delay_seconds: float, now: float) -> None:
        if delay_seconds <= self._target_seconds:
            self._above_since = None
            return
        if self._above_since is None:
            self._above_since, self._above_count = now, 0
        self._above_count += 1
        if self._above_count >= MEASUREMENTS_MIN and now - self._above_since >= BURST_SECONDS:
            self._above_since = None
            self._refused_at = now
            self.limit = LIMIT_FIRST
            self._begin_interval(now)

    def _adjust(self, hold_seconds: float, now: float) -> None:
        if self._refused:
            self._refused_at = now
        target = self._target_seconds
        if now - self._refused_at >= CALM_SECONDS:
            self.limit = inf
        elif self.waiting > self.limit:
            return
        elif self._sum_seconds / self._count > target * LATE_SHARE:
            self.limit = max(LIMIT_MIN, int(self.limit * FALL))
        elif self.limit > LIMIT_FIRST and hold_seconds > max(
            target * HOLD_TARGETS, self._rest_seconds * HOLD_TIMES_REST
        ):
            self.limit = max(LIMIT_FIRST, int(self.limit * FALL))
        elif self._refused:
            self.limit = int(self.limit * RISE) + 1

    def _begin_interval(self, now: float) -> None:
        self._interval_at = now
        self._count, self._sum_seconds, self._waiting_sum = 0, 0.0, 0
        self._left, self._refused = 0, 0


# Measures how long work waits in this process, and reports it to `Overload`.
#
# What the loop owes a timer it owes everybody; and holds that a full batch has left behind wait for
# the ledger though the loop be idle. A busy process is looked at more often than one at rest.

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
