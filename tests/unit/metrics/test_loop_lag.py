"""Loop lag on a clock that moves by hand."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry

from gw.runtime import INTERVAL_SECONDS, LoopLag
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from tests.support.aio import run


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
        self.asked: list[float] = []

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if not self._lags:
            raise asyncio.CancelledError
        self.asked.append(seconds)
        self._now += seconds + self._lags.pop(0)


def measure(*lags: float) -> tuple[CollectorRegistry, list[dict[str, Any]], LateClock]:
    registry, log, clock = CollectorRegistry(), RecordingLog(), LateClock(*lags)
    lag = LoopLag(metrics=Metrics(registry), clock=clock, log=log)

    async def main() -> None:
        try:
            await lag.run()
        except asyncio.CancelledError:
            return

    run(main())
    return registry, log.warnings, clock


def test_each_interval_is_measured() -> None:
    registry, warnings, clock = measure(0.0, 0.004, 0.03)
    assert clock.asked == [INTERVAL_SECONDS] * 3
    assert 0.1 <= INTERVAL_SECONDS <= 0.25
    assert registry.get_sample_value("gw_loop_lag_seconds_count") == 3
    assert registry.get_sample_value("gw_loop_lag_seconds_bucket", {"le": "0.005"}) == 2
    assert warnings == []


def test_waking_early_counts_as_on_time() -> None:
    lag = LoopLag(metrics=Metrics(CollectorRegistry()), clock=LateClock())
    assert repr(lag) == "<LoopLag 0 unreported, worst 0.000 s>"
    registry, _, _ = measure(-0.01)
    assert registry.get_sample_value("gw_loop_lag_seconds_sum") == 0


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
