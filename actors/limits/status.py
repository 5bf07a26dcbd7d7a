"""The status of a name's limits after one request, whichever judge computed it.

The two judges, `sliding_window.py` in this process and `enter.lua` in Redis, follow the same rules
and give the same figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Dimension = Literal["rpm", "concurrency"]

WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The figures after one request; they count it if it was admitted."""

    refused: Dimension | None  # None: admitted
    requests: int  # admitted in the last 60 seconds
    reset_seconds: float  # until the oldest of them is 60 seconds old; 0 when there is none
    retry_seconds: float  # when refused by the window: until it has room
    in_flight: int

    @property
    def reset_whole_seconds(self) -> int:
        """What a header says: rounded up, so that no client comes back too early."""
        return math.ceil(self.reset_seconds)

    @property
    def retry_after_seconds(self) -> int:
        """For `Retry-After`, at least 1.

        Concurrency has no window that ends; a second is when a client may sensibly look again.
        """
        return max(1, math.ceil(self.retry_seconds)) if self.refused == "rpm" else 1
