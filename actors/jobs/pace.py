"""How many polls a process may begin: as many as are due, few while its calls need it.

Polls have time and calls have none. A process is busy when what is due waits for its loop, or when
its loop's thread is at work for a good part of the time: polls alone never come to that. Pure: what
was measured comes as arguments, in seconds.
"""

from __future__ import annotations

# Later than this, by a quick average, the loop is busy; so it is when it works for this share.
LATE_SECONDS = 0.003
WORKING_SHARE = 0.2
# Of one measurement in the averages, of which there are some tens a second.
WEIGHT = 0.1
# A process that is busy begins no more polls than these: some hundredths of what it can do.
BUSY_POLLS_PER_SECOND = 100.0
# What it may begin at once after it has begun none for a while.
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

    def __repr__(self) -> str:
        state = "busy" if self.is_busy else "free"
        return f"<Pace {state} {self._late:.4f} s late, at work {self._share:.0%}>"

    @property
    def is_busy(self) -> bool:
        """Do calls need this process?"""
        return self._late > LATE_SECONDS or self._share > WORKING_SHARE

    def measured(self, *, late: float, worked: float, now: float) -> None:
        """What was due has waited so long for the loop; its thread has worked so long in all."""
        self._late += WEIGHT * (late - self._late)
        if self._measured_at is not None and now > self._measured_at:
            share = (worked - self._worked) / (now - self._measured_at)
            self._share += WEIGHT * (share - self._share)
        self._worked, self._measured_at = worked, now

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
