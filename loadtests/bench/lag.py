"""The longest time the gateway's loop was blocked, from its own histogram on /metrics."""

from __future__ import annotations

import math
import re
import urllib.request
from collections.abc import Mapping

_BUCKET = re.compile(r'^gw_loop_lag_seconds_bucket\{[^}]*le="([^"]+)"[^}]*\} (\S+)$', re.MULTILINE)
TIMEOUT_SECONDS = 10.0

Buckets = Mapping[float, float]


def parse_buckets(page: str) -> dict[float, float]:
    """Counts up to each bound in seconds, of all processes together."""
    counts: dict[float, float] = {}
    for bound, count in _BUCKET.findall(page):
        seconds = math.inf if bound == "+Inf" else float(bound)
        counts[seconds] = counts.get(seconds, 0.0) + float(count)
    return counts


def read_buckets(admin_url: str) -> dict[float, float]:
    """Ask the gateway. Raises OSError."""
    with urllib.request.urlopen(f"{admin_url}/metrics", timeout=TIMEOUT_SECONDS) as answer:
        return parse_buckets(answer.read().decode())


def longest_seconds(before: Buckets, after: Buckets) -> float:
    """The bound of the highest bucket that something was added to; 0 when nothing was."""
    below, longest = 0.0, 0.0
    for bound in sorted(after):
        so_far = after[bound] - before.get(bound, 0.0)
        if so_far > below:
            longest = bound
        below = so_far
    return longest
