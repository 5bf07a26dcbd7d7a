"""Kills workers that hang: each owes its parent a sign of life from its own loop (`worker.py`).

A worker that is stopped, or whose loop does not turn, keeps its share of the port, and the kernel
goes on giving it connections that are never answered. Its silence is only believed by a parent that
was awake to hear it: one that was itself paused, or busy, counts from when it woke. And its silence
alone is no death: it is killed, and replaced, and its calls are settled, when the kernel says that
it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.clock import Clock
from metrics.fleet import FleetMetrics
from metrics.logs import EventLog

# So many signs of life, or looks for them, within the silence that is one too long; and never
# further apart than a second.
BEATS = 5
BEAT_SECONDS_MAX = 1.0


class Watched(Protocol):
    """A worker that serves; `heard_at` is of the watch's clock."""

    @property
    def pid(self) -> int: ...

    @property
    def heard_at(self) -> float: ...

    @property
    def is_running(self) -> bool: ...

    def kill(self) -> None: ...


def beat_seconds(silence_seconds: float) -> float:
    """How far apart signs of life are, where so long a silence ends a worker."""
    return min(BEAT_SECONDS_MAX, silence_seconds / BEATS)


class WorkerWatchdog:
    """Looks at the workers, as there are at the moment, every now and then."""

    def __init__(
        self,
        *,
        workers: Sequence[Watched | None],
        silence_seconds: float,
        clock: Clock,
        metrics: FleetMetrics,
    ) -> None:
        self._workers = workers
        self._silence_seconds = silence_seconds
        self._clock = clock
        self._metrics = metrics
        self._killed: set[Watched] = set()  # and not yet dead
        self._log = EventLog("gw.processes")

    def __repr__(self) -> str:
        return (
            f"<WorkerWatchdog of {len(self._workers)} for {self._silence_seconds:g} s of silence>"
        )

    async def run(self) -> None:
        """Look until cancelled."""
        pause = beat_seconds(self._silence_seconds)
        looked_at = awake_since = self._clock.monotonic()
        while True:
            await self._clock.sleep(pause)
            now = self._clock.monotonic()
            if now - looked_at > 2 * pause:  # what was said meanwhile has still to be read
                awake_since = now
            looked_at = now
            self._look(now, awake_since)

    def _look(self, now: float, awake_since: float) -> None:
        present = [one for one in self._workers if one is not None and one.is_running]
        self._killed.intersection_update(present)
        longest = 0.0
        for worker in present:
            silence = now - max(worker.heard_at, awake_since)
            longest = max(longest, silence)
            if silence > self._silence_seconds and worker not in self._killed:
                self._killed.add(worker)
                self._metrics.hung()
                self._log.error("process_hung", pid=worker.pid, silent_seconds=round(silence, 1))
                worker.kill()
        self._metrics.silent(longest)
