"""Cores are shared out so that the server under test is alone where there are enough."""

from __future__ import annotations

import pytest

from loadtests.bench.placement import place


@pytest.mark.parametrize(
    ("cores", "server", "database", "upstream", "load"),
    [
        ([3], {3}, {3}, {3}, [{3}]),
        ([0, 1], {0}, {1}, {1}, [{1}]),
        ([0, 1, 2], {0}, {1}, {1}, [{2}]),
        ([4, 5, 6, 7], {4}, {5}, {6}, [{7}]),
        (range(8), {0}, {1}, {2}, [{3}, {4}, {5}, {6}]),
    ],
)
def test_who_gets_which_core(
    cores: list[int],
    server: set[int],
    database: set[int],
    upstream: set[int],
    load: list[set[int]],
) -> None:
    placement = place(cores)
    assert placement.server == server
    assert placement.database == database
    assert placement.upstream == upstream
    assert list(placement.load) == load
    assert placement.is_disjoint == (len(cores) > 1)


def test_two_servers_on_two_cores_compete_with_the_rig_and_the_table_says_so() -> None:
    placement = place([0, 1], server=2)
    assert placement.server == placement.rig == {0, 1}
    assert "compete" in placement.describe()
    assert "compete" not in place(range(5), server=2).describe()
