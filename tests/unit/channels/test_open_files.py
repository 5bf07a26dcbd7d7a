"""The limit on open files is raised as far as the system lets this user."""

import resource

import pytest

from channels.open_files import WANTED, raise_open_files
from tests.support.rows import cases

INFINITY = resource.RLIM_INFINITY


@cases(
    "limits, is_privileged, expected",
    ((1024, 4096), False, (4096, 4096)),
    ((4096, 4096), False, (4096, 4096)),
    ((1024, 4096), True, (WANTED, WANTED)),
    ((1024, 2 * WANTED), False, (2 * WANTED, 2 * WANTED)),
    ((1024, INFINITY), False, (WANTED, INFINITY)),
    ((2 * WANTED, INFINITY), False, (2 * WANTED, INFINITY)),
    ((INFINITY, INFINITY), False, (INFINITY, INFINITY)),
)
def test_limit_is_raised_as_far_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    is_privileged: bool,
    expected: tuple[int, int],
) -> None:
    now = limits

    def set_limits(_: int, wanted: tuple[int, int]) -> None:
        nonlocal now
        if wanted[1] != now[1] and not is_privileged:
            raise ValueError("not allowed to raise maximum limit")
        now = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: now)
    monkeypatch.setattr(resource, "setrlimit", set_limits)
    raise_open_files()
    assert now == expected
