"""When a job is polled next: growing pauses with jitter. Sans I/O."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

JITTER = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`tasks` of the configuration, in seconds: the first pause, its growth, the longest pause."""

    first_seconds: float
    factor: float
    max_seconds: float

    def pause_seconds(
        self, polls: int, chance: float, *, retry_after_seconds: float | None = None
    ) -> float:
        """Return the pause after so many polls (0: after the submission); `chance` is in [0, 1).

        A delay requested by an upstream is kept, and jitter only added.
        """
        if retry_after_seconds is not None:
            return retry_after_seconds * (1 + JITTER * chance)
        return self._pause(polls) * (1 - JITTER + 2 * JITTER * chance)

    def _pause(self, polls: int) -> float:
        if polls == 0:
            return self.first_seconds
        if self.factor == 1:
            return min(self.first_seconds, self.max_seconds)
        growth = self.max_seconds / self.first_seconds
        # Compared by logarithms: the power for a million polls would overflow.
        if growth <= 1 or polls * log(self.factor) >= log(growth):
            return self.max_seconds
        return self.first_seconds * self.factor**polls
