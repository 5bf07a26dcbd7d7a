"""What a run takes of the machine, from readings of its processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from loadtests.locust import resources
from loadtests.locust.resources import Taken, report, watched
from tests.support.waiting import until


def taken(*readings: tuple[float, float, float]) -> Taken:
    """Readings of (second, CPU seconds, MB)."""
    at, cpu, mb = (list(column) for column in zip(*readings, strict=True))
    return Taken(at, cpu, mb)


def test_cpu_is_shared_among_the_requests_and_memory_told_from_first_to_last() -> None:
    one = taken((0.0, 1.0, 50.0), (2.0, 1.2, 90.0), (4.0, 3.0, 60.0))
    assert one.cpu_seconds == pytest.approx(2.0)
    assert one.busiest == pytest.approx(0.9)
    heading, line = report({"gateway": one, "gone": taken((0.0, 0.0, 1.0))}, 1000)
    assert line.split() == ["gateway", "0.50", "0.90", "2.000", "50", "90", "60", "–"]
    assert "CPU ms/request" in heading


def test_growth_is_told_of_a_long_run_once_it_has_settled() -> None:
    long = [(float(at), 0.0, 100.0 if at < 200 else 40.0 + at / 100) for at in range(0, 1001, 100)]
    assert taken(*long).mb_per_hour == pytest.approx(36.0)
    assert taken(*long[:3]).mb_per_hour is None


def test_processes_are_read_until_the_end_and_one_that_ends_early_keeps_what_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resources, "EVERY_SECONDS", 0.01)
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child,
        watched({"own": os.getpid(), "child": child.pid}) as both,
    ):
        until(lambda: len(both["child"].at) >= 3, what="three readings")
        child.communicate(b"\n")
        seen = len(both["own"].at)
        until(lambda: len(both["own"].at) >= seen + 2, what="two more of what lives")
    assert len(both["child"].at) < len(both["own"].at)
    assert both["own"].cpu_seconds > 0
    assert min(both["child"].mb) > 0
