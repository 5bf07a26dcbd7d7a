"""How many users there are at each moment of a run: a ramp, a spike or a soak.

Plain numbers; locust asks for them once a second (`users.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

# Parts of the run, each as (until, users at its end), both as shares of the whole. Between two
# points the users grow or shrink evenly; two points at one moment are a jump.
Points = Sequence[tuple[float, float]]

SHAPES: Mapping[str, Points] = {
    # Up to the peak, a while there: where does it begin to hurt?
    "ramp": ((0.0, 0.05), (0.8, 1.0), (1.0, 1.0)),
    # A fifth of the peak, suddenly all of it, and back: does it refuse quickly and recover?
    "spike": ((0.0, 0.2), (0.4, 0.2), (0.4, 1.0), (0.6, 1.0), (0.6, 0.2), (1.0, 0.2)),
    # The peak throughout: does anything grow or wear out?
    "soak": ((0.0, 0.2), (0.05, 1.0), (1.0, 1.0)),
}


def users_at(shape: str, elapsed_seconds: float, *, peak: int, seconds: float) -> int | None:
    """Return the number of users at this moment, at least one; None when the run is over."""
    share = elapsed_seconds / seconds
    if share >= 1.0:
        return None
    points = SHAPES[shape]
    for (start, low), (end, high) in pairwise(points):
        if start <= share < end:
            return max(1, round(peak * (low + (high - low) * (share - start) / (end - start))))
    raise AssertionError((shape, share))
