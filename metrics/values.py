"""The values behind the metrics: one object per series, one table of series per metric family.

Own objects instead of prometheus-client's children because every call updates about twenty of
them: measured, one costs 0.1 to 0.2 µs where a child, which takes locks and scans its buckets,
costs 0.5 to 0.8. The price is a rule: only the loop's thread writes. A scrape in another thread
only copies. Names, labels and buckets are in `metric_families.py`, the text format is
prometheus-client's.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from prometheus_client.samples import Exemplar

OTHER = "other"

Key = tuple[str | int, ...]
# A sample's suffix, its labels besides those of its series, its value; and for a bucket an
# observation of a traced call, if any.
Sample = tuple[str, dict[str, str], float, Exemplar | None]


class Number:
    """A counter or a gauge: code adds to `value` or sets it."""

    __slots__ = ("value",)

    def __init__(self, value: float = 0) -> None:
        self.value = value  # stays an exact int as long as only ints are added

    def samples(self) -> list[Sample]:
        """Return the one sample, without a suffix."""
        return [("", {}, self.value, None)]


class Distribution:
    """A histogram: the number of observations under each upper bound.

    Each bucket keeps its last observation with a trace, for scrapers that request exemplars.
    """

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """Count one observation; one equal to a bound is under it."""
        index = bisect_left(self._bounds, value)
        self._counts[index] += 1
        self._sum += value
        if trace_id is not None:
            self._exemplars[index] = Exemplar({"trace_id": trace_id}, value, time.time())

    def observe_all(self, values: Iterable[float]) -> None:
        """Count observations without a trace: a step for each bucket instead of each value."""
        ordered, below = sorted(values), 0
        for index, bound in enumerate(self._bounds):
            up_to = bisect_right(ordered, bound)
            self._counts[index] += up_to - below
            below = up_to
        self._counts[-1] += len(ordered) - below
        self._sum += sum(ordered)

    @property
    def counts(self) -> list[int]:
        """The number of observations in each bucket, and above the last."""
        return self._counts.copy()

    @property
    def total(self) -> float:
        """The sum of all observations."""
        return self._sum

    def samples(self) -> list[Sample]:
        """Return the cumulative buckets, their total and the sum."""
        # One copy, so that buckets and total agree whatever the loop observes meanwhile.
        counts = self._counts.copy()
        samples: list[Sample] = []
        total = 0
        for index, bound in enumerate((*self._bounds, float("inf"))):
            total += counts[index]
            exemplar = self._exemplars.get(index)
            samples.append(("_bucket", {"le": _bound_text(bound)}, total, exemplar))
        return [*samples, ("_count", {}, total, None), ("_sum", {}, self._sum, None)]


C = TypeVar("C")
Shown = list[tuple[tuple[str, ...], C]]


class FamilySeries(dict[Key, C]):
    """The series of a metric family by label values, in the order of its labels. A miss makes one.

    An empty label value is shown as `other`. The bound on their number is the last defence against
    a label with values that a client can choose: above it, new ones share one series of `other`.
    """

    __slots__ = ("_limit", "_new_series", "_width")

    def __init__(self, new_series: Callable[[], C], *, width: int, limit: int) -> None:
        super().__init__()
        self._new_series = new_series
        self._width = width
        self._limit = limit
        if not width:
            self[()] = new_series()  # shown from the start

    def __missing__(self, key: Key) -> C:
        assert len(key) == self._width, key
        if len(self) >= self._limit:
            return self.setdefault((OTHER,) * self._width, self._new_series())
        shown = _shown(key)
        series = self.get(shown)
        if series is None:
            series = self[shown] = self._new_series()
        if shown != key:
            self[key] = series  # the same series under another key: 200 for "200"
        return series

    def discard(self, wanted: Mapping[int, str]) -> None:
        """Drop the series that have the `wanted` values at these positions."""
        for key in list(self):
            if all(key[index] == value for index, value in wanted.items()):
                del self[key]

    def shown(self) -> Shown[C]:
        """Return each series once, with its label values; safe beside the writing thread."""
        copied = dict.copy(self)
        return [(_shown(key), series) for key, series in copied.items() if key == _shown(key)]


def _shown(key: Key) -> tuple[str, ...]:
    return tuple([str(value) or OTHER for value in key])


def _bound_text(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(float(bound))
