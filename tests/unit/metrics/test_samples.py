"""Cells and families: counting, buckets, the bound on label values."""

from __future__ import annotations

import bisect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from metrics.families import Distribution, Number, SeriesFamily

BOUNDS = (0.001, 0.5, 1, 2.5)


def numbers(*, width: int = 1, limit: int = 100) -> SeriesFamily[Number]:
    return SeriesFamily(Number, width=width, limit=limit)


def test_cell_is_made_once_for_each_label_value() -> None:
    family = numbers(width=2)
    family["a", "b"].value += 1
    family["a", "b"].value += 1
    family["b", "a"].value += 1
    assert {values: cell.value for values, cell in family.shown()} == {
        ("a", "b"): 2,
        ("b", "a"): 1,
    }


def test_family_without_labels_has_its_cell_from_the_start() -> None:
    assert [values for values, _ in numbers(width=0).shown()] == [()]


def test_number_and_its_text_are_one_series() -> None:
    family = numbers(width=2)
    family["/v1", 200].value += 1
    family["/v1", "200"].value += 1
    family["/v1", 200].value += 1
    assert [(values, cell.value) for values, cell in family.shown()] == [(("/v1", "200"), 3)]
    assert family.get(("/v1", 200)) is family["/v1", "200"]  # found at once next time


def test_empty_label_value_is_other() -> None:
    family = numbers()
    family[("",)].value += 1
    family[("other",)].value += 1
    assert [(values, cell.value) for values, cell in family.shown()] == [(("other",), 2)]


def test_values_past_the_limit_share_one_series() -> None:
    family = numbers(width=2, limit=3)
    for n in range(1000):
        family[f"m{n}", "chat"].value += 1
    assert {values: cell.value for values, cell in family.shown()} == {
        ("m0", "chat"): 1,
        ("m1", "chat"): 1,
        ("m2", "chat"): 1,
        ("other", "other"): 997,
    }
    family["m1", "chat"].value += 1
    assert family["m1", "chat"].value == 2  # what is known goes on


def test_wrong_number_of_labels_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        numbers(width=2)[("a",)]


def test_discarded_cells_are_gone_under_every_name() -> None:
    family = numbers(width=2)
    for channel in ("a", "b"):
        for status in (200, 500):
            family[channel, status].value += 1
    family.discard({0: "a"})
    assert [values for values, _ in family.shown()] == [("b", "200"), ("b", "500")]
    assert family["a", 200].value == 0


@pytest.mark.parametrize(
    ("value", "bound"),
    [(-1, "0.001"), (0.001, "0.001"), (0.0011, "0.5"), (1, "1.0"), (2.5, "2.5"), (2.6, "+Inf")],
)
def test_observation_falls_under_the_first_bound_not_below_it(value: float, bound: str) -> None:
    cell = Distribution(BOUNDS)
    cell.observe(value)
    buckets = {labels["le"]: n for suffix, labels, n, _ in cell.samples() if suffix == "_bucket"}
    assert list(buckets) == ["0.001", "0.5", "1.0", "2.5", "+Inf"]
    place = list(buckets).index(bound)
    assert list(buckets.values()) == [0] * place + [1] * (5 - place)


@given(st.lists(st.floats(-10, 10)))
def test_distribution_equals_the_librarys_histogram(values: list[float]) -> None:
    """The library's histogram is slower and is the reference."""
    registry = CollectorRegistry()
    reference = Histogram("h", "help", registry=registry, buckets=BOUNDS)
    cell = Distribution(BOUNDS)
    for value in values:
        reference.observe(value)
        cell.observe(value)

    def key(suffix: str, labels: dict[str, str]) -> tuple[str, str]:
        return suffix, labels.get("le", "")

    (metric,) = registry.collect()
    wanted: dict[Any, float] = {
        key(sample.name.removeprefix("h"), dict(sample.labels)): sample.value
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }
    assert {key(suffix, labels): value for suffix, labels, value, _ in cell.samples()} == wanted


def test_bucket_remembers_the_last_of_its_observations_that_has_a_trace() -> None:
    cell = Distribution(BOUNDS)
    for value, trace_id in ((0.4, "a"), (0.3, "b"), (0.2, None), (9.0, "c")):
        cell.observe(value, trace_id)
    found = {
        labels["le"]: (exemplar.labels, exemplar.value)
        for _, labels, _, exemplar in cell.samples()
        if exemplar is not None
    }
    assert found == {"0.5": ({"trace_id": "b"}, 0.3), "+Inf": ({"trace_id": "c"}, 9.0)}


def test_bounds_are_found_as_bisect_finds_them() -> None:
    assert list(BOUNDS) == sorted(BOUNDS)
    assert bisect.bisect_left(BOUNDS, 1) == BOUNDS.index(1)


def test_sum_of_whole_numbers_stays_exact() -> None:
    cell = Number()
    cell.value += 2**53
    cell.value += 1
    assert cell.samples() == [("", {}, 2**53 + 1, None)]
