"""The admin listener as a test reads it: `/metrics` as numbers, the probes as answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from loadtests.rig.client import Client
from loadtests.rig.response import Response
from loadtests.rig.waiting import until

# One sample of a series is told from the others by its label values, in the order of their names.
Values = tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """One scrape: sample name to label values to number. Process figures are not kept."""

    samples: dict[str, dict[Values, float]]

    @classmethod
    def parse(cls, text: str) -> Page:
        """Read the text format."""
        samples: dict[str, dict[Values, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("gw_") and not sample.name.endswith("_bucket"):
                    values = tuple(value for _, value in sorted(sample.labels.items()))
                    samples.setdefault(sample.name, {})[values] = sample.value
        return cls(samples)

    def series(self, name: str) -> dict[Values, float]:
        """Every sample of this name by its label values; empty when there is none."""
        return self.samples.get(name, {})

    def value(self, name: str, *values: str) -> float:
        """One sample."""
        return self.samples[name][values]

    def total(self, name: str) -> float:
        """The sum of all samples of this name."""
        return sum(self.series(name).values())


@dataclass(frozen=True)
class Admin:
    """The admin listener at `url`."""

    url: str

    def get(self, path: str, **headers: str) -> Response:
        return Client(self.url, None).get(path, **headers)

    def page(self) -> Page:
        """The metrics of this moment."""
        return Page.parse(self.get("/metrics").body.decode())

    def page_when(self, condition: Callable[[Page], bool], *, what: str) -> Page:
        """The first page of which the condition is true."""

        def found() -> Page | None:
            page = self.page()
            return page if condition(page) else None

        page = until(found, what=what)
        assert page is not None
        return page
