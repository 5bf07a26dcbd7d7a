"""What the gateway says itself of a stretch of time, from two readings of its /metrics."""

from __future__ import annotations

import math
import re
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_BUCKET = re.compile(r'^gw_loop_lag_seconds_bucket\{[^}]*le="([^"]+)"[^}]*\} (\S+)$', re.MULTILINE)
_TOTAL = re.compile(r"^(\w+_(?:sum|count))(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
TIMEOUT_SECONDS = 10.0
# column: the histogram whose mean it is, and the factor
MEANS: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "hold_ms": ("gw_hold_latency_seconds", 1000),
        "batch_ms": ("gw_ledger_batch_seconds", 1000),
        "batch_messages": ("gw_ledger_batch_messages", 1),
    }
)

Buckets = Mapping[float, float]


@dataclass(frozen=True)
class Inside:
    """Of all processes together: the loop's lag up to each bound, sums and counts by series."""

    lag: Buckets
    totals: Mapping[str, float]


def parse_inside(page: str) -> Inside:
    """Read a page of metrics."""
    lag: dict[float, float] = {}
    for bound, count in _BUCKET.findall(page):
        seconds = math.inf if bound == "+Inf" else float(bound)
        lag[seconds] = lag.get(seconds, 0.0) + float(count)
    totals: dict[str, float] = {}
    for name, value in _TOTAL.findall(page):
        totals[name] = totals.get(name, 0.0) + float(value)
    return Inside(lag, totals)


def read_inside(admin_url: str) -> Inside:
    """Ask the gateway. Raises OSError."""
    with urllib.request.urlopen(f"{admin_url}/metrics", timeout=TIMEOUT_SECONDS) as answer:
        return parse_inside(answer.read().decode())


def differences(before: Inside | None, after: Inside | None) -> dict[str, float]:
    """Columns of what happened between two readings; none when there was no reading."""
    if before is None or after is None:
        return {}
    made = {"lag_ms": longest_seconds(before.lag, after.lag) * 1000}
    for column, (series, factor) in MEANS.items():
        total, count = (
            after.totals.get(f"{series}_{part}", 0.0) - before.totals.get(f"{series}_{part}", 0.0)
            for part in ("sum", "count")
        )
        if count:
            made[column] = total / count * factor
    return made


def longest_seconds(before: Buckets, after: Buckets) -> float:
    """The bound of the highest bucket that something was added to; 0 when nothing was."""
    below, longest = 0.0, 0.0
    for bound in sorted(after):
        so_far = after[bound] - before.get(bound, 0.0)
        if so_far > below:
            longest = bound
        below = so_far
    return longest
