"""A limit for what shares its CPU: it lasts as long as what is waited for was given one."""

from pathlib import Path

import pytest

from loadtests.rig.own_time import STRETCH_MAX, OwnTime
from tests.support.rows import cases

SECOND = 10**9
THREAD = Path("/proc/1/task/1")


@cases(
    "ran, waited, expected",
    (1.0, 0.0, 10.0),
    (0.5, 0.5, 5.0),
    (0.01, 1.0, 10.0 / STRETCH_MAX),  # it is given hardly any
    (0.0, 0.01, 10.0),  # it hangs: it waits for something else than a CPU
    (0.0, 0.0, 10.0),
)
def test_own_time_is_the_share_of_the_time_that_was_given(
    ran: float, waited: float, expected: float
) -> None:
    now = 0.0
    own_time = OwnTime(
        lambda: [1],
        clock=lambda: now,
        scheduled=lambda _: {THREAD: (int(now * ran * SECOND), int(now * waited * SECOND))},
    )
    for _ in range(10):
        now += 1.0
        own_time.seconds()
    assert own_time.seconds() == pytest.approx(expected)


def test_thread_that_begins_or_ends_in_between_counts_for_what_it_did() -> None:
    now, known = 0.0, {1: {THREAD: (5 * SECOND, 0)}}
    own_time = OwnTime(lambda: list(known), clock=lambda: now, scheduled=lambda pid: known[pid])
    known = {2: {Path("/proc/2/task/2"): (SECOND, 3 * SECOND)}}
    now = 4.0
    assert own_time.seconds() == pytest.approx(1.0)


async def test_what_never_comes_true_is_given_up_after_its_time() -> None:
    now = 0.0

    async def never() -> bool:
        nonlocal now
        now += 1.0
        return False

    async def soon() -> bool:
        return now > 12.0

    own_time = OwnTime(list, clock=lambda: now)
    assert not await own_time.until(never, 10.0, pause=0.0)
    assert now == 11.0
    now += 2.0
    assert await own_time.until(soon, 0.0, pause=0.0)
