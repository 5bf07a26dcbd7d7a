"""How many polls a process may begin: all that are due, or few while its calls need it.

Polls can wait and calls cannot. A process is busy when timers are late in its loop, or when its
loop's thread works for a large part of the time, which polls alone never cause. Pure:
measurements are arguments, in seconds.
"""

from __future__ import annotations

# A loop with a larger average lag, or a larger share of work, is busy.
LATE_SECONDS = 0.003
WORKING_SHARE = 0.2
# Weight of one measurement in the averages; there are some tens a second.
WEIGHT = 0.1
# Limit for a busy process: some hundredths of what it can do.
BUSY_POLLS_PER_SECOND = 100.0
# Burst after a pause.
BUSY_POLLS_MAX = 25.0


class Pace:
    """Grants polls to one poller."""

    __slots__ = ("_granted_at", "_late", "_left", "_measured_at", "_share", "_worked")

    def __init__(self) -> None:
        self._late = 0.0
        self._share = 0.0
        self._worked = 0.0  # CPU time of the thread at that moment
        self._measured_at: float | None = None
        self._left = BUSY_POLLS_MAX
        self._granted_at: float | None = None

    @property
    def is_busy(self) -> bool:
        """Whether calls need this process."""
        return self._late > LATE_SECONDS or self._share > WORKING_SHARE

    def measured(self, *, late: float, worked: float, now: float) -> None:
        """Add a measurement: the lag of the loop, and the CPU time of its thread so far."""
        self._late += WEIGHT * (late - self._late)
        if self._measured_at is not None and now > self._measured_at:
            share = (worked - self._worked) / (now - self._measured_at)
            self._share += WEIGHT * (share - self._share)
        self._worked, self._measured_at = worked, now

    def grant(self, wanted: int, now: float) -> int:
        """Return how many of these polls may begin at `now` (monotonic seconds)."""
        if self._granted_at is not None:
            more = (now - self._granted_at) * BUSY_POLLS_PER_SECOND
            self._left = min(BUSY_POLLS_MAX, self._left + more)
        self._granted_at = now
        if not self.is_busy:
            return wanted
        return min(wanted, int(self._left))

    def began(self, count: int) -> None:
        """Count polls that were begun."""
        self._left = max(0.0, self._left - count)
