"""Loop lag on a clock that moves by hand."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gw.runtime.loop_lag import INTERVAL_SECONDS, LoopLag
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from metrics.version import COMMIT_FILE, commit
from tests.support.aio import run
from tests.tidy.files import ROOT


class RecordingLog(EventLog):
    """Keeps the warnings."""

    __slots__ = ("warnings",)

    def __init__(self) -> None:
        super().__init__("test")
        self.warnings: list[dict[str, Any]] = []

    def warning(self, action: str, /, *, exc_info: bool = False, **fields: Any) -> None:
        self.warnings.append({"action": action, **fields})


class LateClock:
    """Wakes each sleeper as late as the next number says; ends the run when there is none."""

    def __init__(self, *lags: float) -> None:
        self._lags = list(lags)
        self._now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self._now

    now = monotonic

    async def sleep(self, seconds: float) -> None:
        if not self._lags:
            raise asyncio.CancelledError
        self.slept.append(seconds)
        self._now += seconds + self._lags.pop(0)


class Watch:
    """Keeps every measurement."""

    def __init__(self, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self.interval_seconds = interval_seconds
        self.lags: list[float] = []

    def measured(self, lag_seconds: float, *, now: float) -> None:
        self.lags.append(lag_seconds)


def measure(
    *lags: float, watch: Watch | None = None
) -> tuple[CollectorRegistry, list[dict[str, Any]], LateClock]:
    registry, log, clock = CollectorRegistry(), RecordingLog(), LateClock(*lags)
    lag = LoopLag(metrics=Metrics(registry), clock=clock, watch=watch or Watch(), log=log)

    async def main() -> None:
        try:
            await lag.run()
        except asyncio.CancelledError:
            return

    run(main())
    return registry, log.warnings, clock


def test_each_interval_is_measured() -> None:
    registry, warnings, clock = measure(0.0, 0.004, 0.03)
    assert clock.slept == [INTERVAL_SECONDS] * 3
    assert 0.1 <= INTERVAL_SECONDS <= 0.25
    assert registry.get_sample_value("gw_loop_lag_seconds_count") == 3
    assert registry.get_sample_value("gw_loop_lag_seconds_bucket", {"le": "0.005"}) == 2
    assert warnings == []


def test_operator_gets_one_measurement_an_interval_of_those_that_decide_on_overload() -> None:
    watch = Watch(INTERVAL_SECONDS / 4)
    registry, warnings, clock = measure(*[0.0] * 5, 0.9, *[0.0] * 2, watch=watch)
    assert clock.slept == [INTERVAL_SECONDS / 4] * 8
    assert [round(one, 3) for one in watch.lags] == [0.0] * 5 + [0.9] + [0.0] * 2
    assert registry.get_sample_value("gw_loop_lag_seconds_count") == 2
    assert warnings == [{"action": "loop_lagged", "worst_seconds": 0.9, "times": 1}]


def test_waking_early_counts_as_on_time() -> None:
    lag = LoopLag(metrics=Metrics(CollectorRegistry()), clock=LateClock(), watch=Watch())
    assert repr(lag) == "<LoopLag 0 unreported, worst 0.000 s>"
    watch = Watch()
    measure(-0.01, watch=watch)
    assert watch.lags == [0.0]


def test_late_loop_is_a_warning() -> None:
    _, warnings, _ = measure(0.7004)
    assert warnings == [{"action": "loop_lagged", "worst_seconds": 0.7, "times": 1}]


def test_steadily_late_loop_warns_once_in_ten_seconds() -> None:
    _, warnings, _ = measure(0.6, *[0.8] * 8, 0.9, *[0.8] * 2)
    # The first at once; then, ten seconds after it, the ten that were late since.
    assert warnings == [
        {"action": "loop_lagged", "worst_seconds": 0.6, "times": 1},
        {"action": "loop_lagged", "worst_seconds": 0.9, "times": 10},
    ]


def test_lag_within_the_quiet_time_is_reported_after_it() -> None:
    _, warnings, _ = measure(0.7, 0.6, *[0.0] * 60)
    assert [warning["times"] for warning in warnings] == [1, 1]
    assert [warning["worst_seconds"] for warning in warnings] == [0.7, 0.6]


HASH = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example"]
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_build_writes_the_commit_where_it_is_read(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)]
    # Sources are only read: what setuptools writes beside them goes into the test's folder.
    command[3:3] = ["egg_info", "--egg-base", str(tmp_path)]
    environ = {**os.environ, "GW_COMMIT": HASH, "PYTHONWARNINGS": "ignore"}
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    assert commit(tmp_path / "metrics") == HASH
    assert not (ROOT / "metrics" / COMMIT_FILE).exists()


def test_checkout_is_read(tmp_path: Path) -> None:
    package = tmp_path / "metrics"
    package.mkdir()
    git(tmp_path, "init", "--quiet")
    assert commit(package) == ""  # no commit yet
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "one")
    assert commit(package) == git(tmp_path, "rev-parse", "HEAD")


def test_unknown_commit_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit(tmp_path / "metrics") == ""
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert commit(tmp_path / "metrics") == ""
