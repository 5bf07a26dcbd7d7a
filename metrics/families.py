"""Makes the series of what `metric_families.py` names, and exposes them to a Prometheus registry.

Requesting a name that is not in the table, or of another kind, is a programming error and raises an
AssertionError or KeyError at start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from prometheus_client import Metric
from prometheus_client.registry import Collector

from metrics.metric_families import METRIC_FAMILIES, Kind, MetricFamily
from metrics.values import Distribution, FamilySeries, Number, Shown

# Maximum series of one metric. A distribution takes some fifteen lines in every scrape, a number
# one. Both are far above the needs of a catalog of a few hundred models.
NUMBERS_MAX: Final = 4000
DISTRIBUTIONS_MAX: Final = 1000

_TABLE: Final = {family.name: family for family in METRIC_FAMILIES}


class Families(Collector):
    """Makes the series of each metric family, once, and collects them all."""

    def __init__(self) -> None:
        self._made: dict[MetricFamily, Callable[[], Shown[Any]]] = {}

    def counter(self, name: str) -> FamilySeries[Number]:
        """Make the series of the counter `name`."""
        return self._numbers(name, "counter")

    def gauge(self, name: str) -> FamilySeries[Number]:
        """Make the series of the gauge `name`."""
        return self._numbers(name, "gauge")

    def histogram(self, name: str) -> FamilySeries[Distribution]:
        """Make the series of the histogram `name`."""
        family = _find(name, "histogram")
        series = FamilySeries(
            lambda: Distribution(family.buckets),
            width=len(family.labels),
            limit=DISTRIBUTIONS_MAX,
        )
        self._made[family] = series.shown
        return series

    def sums(self, name: str, shown: Callable[[], Shown[Number]]) -> None:
        """Make the counter `name` of sums that are made at a scrape, beside the loop's thread."""
        self._made[_find(name, "counter")] = shown

    def describe(self) -> Iterable[Metric]:
        """Yield the metrics without samples: the registry refuses a duplicate name."""
        return [_metric(family) for family in self._made]

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics with their present samples."""
        for family in filter(self._made.__contains__, METRIC_FAMILIES):
            metric = _metric(family)
            base = family.name
            for values, one in self._made[family]():
                labels = dict(zip(family.labels, values, strict=True))
                for suffix, more, value, exemplar in one.samples():
                    labelled = {**labels, **more}
                    metric.add_sample(base + suffix, labelled, value, exemplar=exemplar)
            yield metric

    def _numbers(self, name: str, kind: Kind) -> FamilySeries[Number]:
        family = _find(name, kind)
        series = FamilySeries(Number, width=len(family.labels), limit=NUMBERS_MAX)
        self._made[family] = series.shown
        return series


def _find(name: str, kind: Kind) -> MetricFamily:
    family = _TABLE[name]
    assert family.kind == kind, family
    return family


def _metric(family: MetricFamily) -> Metric:
    # The library appends a counter's `_total` itself.
    return Metric(family.name.removesuffix("_total"), family.help, family.kind)
