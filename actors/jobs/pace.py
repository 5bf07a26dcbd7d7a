"""How many polls a process may begin: as many as are due, few while calls are waiting.

Polls have time and calls have none. What tells that a process is busy is what delays its calls too:
its loop comes late to what is due. Pure: delays and instants come as arguments.
"""

from __future__ import annotations

# Later than this, by a quick average, the loop is busy.
LATE_SECONDS = 0.004
# Of one delay in the average.
WEIGHT = 0.2
# A process whose loop is busy begins no more polls than these: some hundredths of what it can do.
BUSY_POLLS_PER_SECOND = 100.0
# What it may begin at once after it has begun none for a while.
BUSY_POLLS_MAX = 25.0


class Pace:
    """Grants polls to one poller."""

    __slots__ = ("_granted_at", "_late_seconds", "_left")

    def __init__(self) -> None:
        self._late_seconds = 0.0
        self._left = BUSY_POLLS_MAX
        self._granted_at: float | None = None

    def __repr__(self) -> str:
        return f"<Pace {'busy' if self.is_busy else 'free'} {self._late_seconds:.4f} s late>"

    @property
    def is_busy(self) -> bool:
        """Does work wait for the loop?"""
        return self._late_seconds > LATE_SECONDS

    def came_late(self, seconds: float) -> None:
        """Something that was due has waited so long for the loop."""
        self._late_seconds += WEIGHT * (seconds - self._late_seconds)

    def grant(self, wanted: int, now: float) -> int:
        """How many of these polls may be begun at `now` (monotonic seconds)."""
        if self._granted_at is not None:
            more = (now - self._granted_at) * BUSY_POLLS_PER_SECOND
            self._left = min(BUSY_POLLS_MAX, self._left + more)
        self._granted_at = now
        if not self.is_busy:
            return wanted
        return min(wanted, int(self._left))

    def began(self, count: int) -> None:
        """So many were begun."""
        self._left = max(0.0, self._left - count)
