"""The numbers behind the metrics: one object per series, one family of series per metric.

Own objects instead of prometheus-client's children because every call touches about twenty of them:
measured, one costs 0.1 to 0.2 µs where a child, which takes locks and walks its buckets, costs
0.5 to 0.8. What pays for it is a rule: one thread writes, the loop's. A scrape in another thread
only copies. Names, labels and buckets are in `series.py`, the text format is prometheus-client's.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from prometheus_client.samples import Exemplar

OTHER = "other"

Key = tuple[str | int, ...]
# A sample's suffix, the labels it has beside those of its series, its value; and of a bucket a
# call that fell into it, if one was traced.
Sample = tuple[str, dict[str, str], float, Exemplar | None]


class Series(Protocol):
    """One figure or histogram under one set of labels, as a scrape reads it."""

    def samples(self) -> list[Sample]: ...


class Number:
    """A counter or a gauge: its event adds to `value` or sets it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0  # stays an exact int as long as only ints are added

    def samples(self) -> list[Sample]:
        """Return the one sample, without a suffix."""
        return [("", {}, self.value, None)]


class Distribution:
    """A histogram: how many observations fell under each upper bound.

    Each bucket remembers the last of its observations that has a trace, for scrapers that ask.
    """

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, trace_id: str | None = None) -> None:
        """Count one observation; one that equals a bound is under it."""
        index = bisect_left(self._bounds, value)
        self._counts[index] += 1
        self._sum += value
        if trace_id is not None:
            self._exemplars[index] = Exemplar({"trace_id": trace_id}, value, time.time())

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


C = TypeVar("C", bound=Series)


class SeriesFamily(dict[Key, C]):
    """The series of one metric by label values, in the order of its labels. A miss makes one.

    An empty label value is shown as `other`. The bound on their number is the last fence against a
    label whose values a client can choose: past it, new ones share one series of `other`.
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
            self[key] = series  # the same series by another key: 200 for "200"
        return series

    def discard(self, wanted: Mapping[int, str]) -> None:
        """Drop the series that have the `wanted` values at these positions."""
        for key in list(self):
            if all(key[index] == value for index, value in wanted.items()):
                del self[key]

    def shown(self) -> list[tuple[tuple[str, ...], C]]:
        """Return each series once, with its label values; safe beside the thread that writes."""
        copied = dict.copy(self)
        return [(_shown(key), series) for key, series in copied.items() if key == _shown(key)]


def _shown(key: Key) -> tuple[str, ...]:
    return tuple([str(value) or OTHER for value in key])


def _bound_text(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(float(bound))
