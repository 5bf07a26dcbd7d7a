"""What a channel promises for data, and what a call demands: read, joined, kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.data_promise import (
    NO_PROMISE,
    RETENTION_DAYS_MAX,
    DataDemand,
    DataPromise,
    InvalidDemand,
    read_demand,
    strictest,
)
from tests.support.rows import cases, each

REGIONS = st.sampled_from(["eu", "us", "ch-1"])
DAYS = st.integers(0, RETENTION_DAYS_MAX)
PROMISES = st.builds(DataPromise, st.none() | DAYS, st.none() | REGIONS)
DEMANDS = st.builds(DataDemand, st.none() | DAYS, st.frozensets(REGIONS, max_size=1)).filter(
    lambda one: one != DataDemand()
)


@cases(
    "text, demand",
    ("region=eu; retention=0", DataDemand(0, frozenset({"eu"}))),
    ("retention=30;region=eu-west-1", DataDemand(30, frozenset({"eu-west-1"}))),
    (" region = eu ", DataDemand(None, frozenset({"eu"}))),
    ("retention=007", DataDemand(7)),
    ("retention=36500", DataDemand(36_500)),
)
def test_demand_is_read_as_it_is_written(text: str, demand: DataDemand) -> None:
    assert read_demand(text) == demand


@each(
    "text",
    [
        *("", " ", ";", "eu", "region", "region=", "retention=", "region=eu;", ";region=eu"),
        *("region=EU", "region=1eu", "region=eu west", "region=" + "e" * 33, "region=eü"),
        *("retention=-1", "retention=0.5", "retention=36501", "retention=²", "retention=000007"),
        *("region=eu; region=eu", "region=eu; retention=0; region=us", "Region=eu", "zone=eu"),
        *("region=eu, retention=0", "retention=1" + "0" * 10_000, ";" * 10_000),
    ],
)
def test_what_is_no_demand_is_refused(text: str) -> None:
    with pytest.raises(InvalidDemand, match="region=NAME"):
        read_demand(text)


@given(DEMANDS)
def test_demand_is_written_as_it_is_read(demand: DataDemand) -> None:
    assert read_demand(str(demand)) == demand


@given(st.none() | DEMANDS, st.none() | DEMANDS, PROMISES)
def test_of_two_demands_both_are_kept(
    one: DataDemand | None, other: DataDemand | None, promise: DataPromise
) -> None:
    joined = strictest(one, other)
    assert joined == strictest(other, one)
    kept = joined is None or joined.is_kept_by(promise)
    assert kept == all(each is None or each.is_kept_by(promise) for each in (one, other))


@given(DEMANDS)
def test_what_is_not_stated_keeps_nothing(demand: DataDemand) -> None:
    assert not demand.is_kept_by(NO_PROMISE)
    assert not NO_PROMISE


@cases(
    "demand, promise, is_kept",
    ("retention=7", DataPromise(7), True),
    ("retention=7", DataPromise(0), True),
    ("retention=7", DataPromise(8), False),
    ("retention=7", DataPromise(None, "eu"), False),
    ("region=eu", DataPromise(0, "us"), False),
    ("region=eu", DataPromise(None, "eu"), True),
    ("region=eu; retention=0", DataPromise(0, "eu"), True),
    ("region=eu; retention=0", DataPromise(1, "eu"), False),
)
def test_promise_keeps_a_demand_or_not(demand: str, promise: DataPromise, is_kept: bool) -> None:
    assert read_demand(demand).is_kept_by(promise) == is_kept
