"""The status of a name's limits after one request.

`SlidingWindows` in this process and `enter.lua` in Redis follow the same rules, and return the
same figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Dimension = Literal["rpm", "concurrency"]

WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The figures after one request, which they include if it was admitted."""

    refused: Dimension | None  # None: admitted
    requests: int  # admitted in the last 60 seconds
    reset_seconds: float  # until the oldest of them is 60 seconds old; 0 if there is none
    retry_seconds: float  # when refused by the window: until it has room
    in_flight: int

    @property
    def reset_whole_seconds(self) -> int:
        """The value of a header, rounded up so that no client retries too early."""
        return math.ceil(self.reset_seconds)

    @property
    def retry_after_seconds(self) -> int:
        """The value of `Retry-After`, at least 1.

        A concurrency limit has no window that ends; a second is a sensible time for a retry.
        """
        return max(1, math.ceil(self.retry_seconds)) if self.refused == "rpm" else 1
