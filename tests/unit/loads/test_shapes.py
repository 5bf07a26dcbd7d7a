"""How many users a run has at each moment."""

from __future__ import annotations

import pytest

from loadtests.locust.shapes import SHAPES, users_at

PEAK, SECONDS = 100, 50.0
EXPECTED = {
    "ramp": {0: 5, 20: 52, 40: 100, 49.9: 100},
    "spike": {0: 20, 19.9: 20, 20: 100, 29.9: 100, 30: 20, 49.9: 20},
    "soak": {0: 20, 2.5: 100, 25: 100, 49.9: 100},
}


@pytest.mark.parametrize("shape", EXPECTED)
def test_shape_has_these_users(shape: str) -> None:
    moments = EXPECTED[shape]
    assert moments == {at: users_at(shape, at, peak=PEAK, seconds=SECONDS) for at in moments}


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_covers_every_moment_up_to_its_end(shape: str) -> None:
    for tenths in range(int(SECONDS * 10)):
        users = users_at(shape, tenths / 10, peak=PEAK, seconds=SECONDS)
        assert users is not None
        assert 1 <= users <= PEAK
    assert users_at(shape, SECONDS, peak=PEAK, seconds=SECONDS) is None
    assert users_at(shape, 1000.0, peak=PEAK, seconds=SECONDS) is None


def test_few_users_are_at_least_one() -> None:
    assert users_at("ramp", 0, peak=1, seconds=SECONDS) == 1
    assert users_at("spike", 0, peak=2, seconds=SECONDS) == 1
