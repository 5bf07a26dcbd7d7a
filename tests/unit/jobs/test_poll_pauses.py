"""Pauses between polls, and how many a process begins while its calls wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.jobs.pace import (
    BUSY_POLLS_MAX,
    BUSY_POLLS_PER_SECOND,
    LATE_SECONDS,
    WORKING_SHARE,
    Pace,
)
from actors.jobs.schedule import Schedule
from tests.support.rows import cases

SCHEDULE = Schedule(first_seconds=2.0, factor=1.5, max_seconds=15.0)
seconds = st.floats(0.001, 86_400.0)


def test_pauses_grow_up_to_the_longest() -> None:
    pauses = [round(SCHEDULE.pause_seconds(polls, 0.5), 3) for polls in range(8)]
    assert pauses == [2.0, 3.0, 4.5, 6.75, 10.125, 15.0, 15.0, 15.0]


def test_chance_moves_a_pause_by_a_fifth_and_never_what_an_upstream_requested() -> None:
    assert SCHEDULE.pause_seconds(0, 0.0) == pytest.approx(1.6)
    assert SCHEDULE.pause_seconds(0, 0.999_999) == pytest.approx(2.4, abs=1e-5)
    assert SCHEDULE.pause_seconds(9, 0.0, retry_after_seconds=40.0) == 40.0
    assert SCHEDULE.pause_seconds(9, 1.0, retry_after_seconds=40.0) == 48.0


@given(
    first=seconds,
    factor=st.floats(1.0, 1000.0),
    longest=seconds,
    polls=st.integers(0, 2**31 - 1),
    chance=st.floats(0.0, 1.0, exclude_max=True),
)
def test_any_schedule_gives_a_pause_within_its_bounds(
    first: float, factor: float, longest: float, polls: int, chance: float
) -> None:
    schedule = Schedule(first_seconds=first, factor=factor, max_seconds=longest)
    pause = schedule.pause_seconds(polls, chance)
    least = first if polls == 0 else min(first, longest)
    most = first if polls == 0 else longest
    assert least * 0.799 <= pause <= most * 1.201


@cases("late, share", (10 * LATE_SECONDS, 0.0), (0.0, 2 * WORKING_SHARE))
def test_free_process_begins_what_is_due_and_a_busy_one_a_few(late: float, share: float) -> None:
    pace = Pace()
    assert pace.grant(1000, now=0.0) == 1000
    now = worked = 0.0
    for _ in range(100):
        now, worked = now + 0.02, worked + 0.02 * share
        pace.measured(late=late, worked=worked, now=now)
    assert pace.is_busy
    begun, since = 0, now
    pace.grant(0, now)
    while now < since + 10.0:
        granted = pace.grant(1000, now)
        pace.began(granted)
        begun += granted
        now += 0.05
    assert begun == pytest.approx(10 * BUSY_POLLS_PER_SECOND + BUSY_POLLS_MAX, rel=0.05)
    for _ in range(100):
        now += 0.02
        pace.measured(late=0.0, worked=worked, now=now)
    assert pace.grant(1000, now) == 1000
