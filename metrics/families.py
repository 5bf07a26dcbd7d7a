"""Makes the metrics that `series.py` names, and exposes them to a Prometheus registry.

Requesting a name that is not in the table, or of another kind, is a programming error and raises an
AssertionError or KeyError at start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.registry import Collector

from metrics.series import SERIES, Kind, MetricFamily
from metrics.values import Distribution, Number, SeriesFamily, Shown

# Maximum series of one metric. A distribution takes some fifteen lines in every scrape, a number
# one. Both are far above the needs of a catalog of a few hundred models.
NUMBERS_MAX: Final = 4000
DISTRIBUTIONS_MAX: Final = 1000

_TABLE: Final = {series.name: series for series in SERIES}


class Families(Collector):
    """Makes the family of each metric, once, and collects them all."""

    def __init__(self) -> None:
        self._made: dict[MetricFamily, Callable[[], Shown[Any]]] = {}

    def counter(self, name: str) -> SeriesFamily[Number]:
        """Make the family of the counter `name`."""
        return self._numbers(name, "counter")

    def gauge(self, name: str) -> SeriesFamily[Number]:
        """Make the family of the gauge `name`."""
        return self._numbers(name, "gauge")

    def histogram(self, name: str) -> SeriesFamily[Distribution]:
        """Make the family of the histogram `name`."""
        series = _find(name, "histogram")
        family = SeriesFamily(
            lambda: Distribution(series.buckets),
            width=len(series.labels),
            limit=DISTRIBUTIONS_MAX,
        )
        self._made[series] = family.shown
        return family

    def sums(self, name: str, shown: Callable[[], Shown[Number]]) -> None:
        """Make the counter `name` of sums that are made at a scrape, beside the loop's thread."""
        self._made[_find(name, "counter")] = shown

    def describe(self) -> Iterable[Metric]:
        """Yield the metrics without samples: the registry refuses a duplicate name."""
        return [_metric(series) for series in self._made]

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics with their present samples."""
        for series in filter(self._made.__contains__, SERIES):
            metric = _metric(series)
            base = series.name
            for values, one in self._made[series]():
                labels = dict(zip(series.labels, values, strict=True))
                for suffix, more, value, exemplar in one.samples():
                    labelled = {**labels, **more}
                    metric.add_sample(base + suffix, labelled, value, exemplar=exemplar)
            yield metric

    def _numbers(self, name: str, kind: Kind) -> SeriesFamily[Number]:
        series = _find(name, kind)
        family = SeriesFamily(Number, width=len(series.labels), limit=NUMBERS_MAX)
        self._made[series] = family.shown
        return family


def _find(name: str, kind: Kind) -> MetricFamily:
    series = _TABLE[name]
    assert series.kind == kind, series
    return series


def _metric(series: MetricFamily) -> Metric:
    # The library appends a counter's `_total` itself.
    return Metric(series.name.removesuffix("_total"), series.help, series.kind)
