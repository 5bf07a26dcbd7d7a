"""Kills workers that hang: each must send signs of life from its own loop.

A worker that is stopped or blocked keeps its share of the port, and the kernel gives it further
connections that are never served. The parent judges silence only while it was awake itself: after
a pause it counts from its waking. Nor does time count in which the worker waited for a CPU: on a
busy machine it is slow, and its replacement would be slower. Silence alone is no death: the worker
is killed, and its replacement and the settlement of its calls begin when the kernel reports its
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.clock import Clock
from gw.processes.parent_metrics import FleetMetrics
from metrics.logs import EventLog

# Signs of life, and checks, within the tolerated silence; their interval is at most a second.
BEATS = 5
BEAT_SECONDS_MAX = 1.0


class WatchedWorker(Protocol):
    """A serving worker; `heard_at` is of the watch's clock."""

    @property
    def pid(self) -> int: ...

    @property
    def heard_at(self) -> float: ...

    @property
    def is_running(self) -> bool: ...

    def cpu_wait_seconds(self) -> float:
        """Return how long its loop has waited for a CPU so far."""

    def kill(self) -> None: ...


def beat_seconds(silence_seconds: float) -> float:
    """Return the interval of signs of life for a tolerated silence."""
    return min(BEAT_SECONDS_MAX, silence_seconds / BEATS)


class WorkerWatchdog:
    """Checks the current workers at intervals."""

    def __init__(
        self,
        *,
        workers: Sequence[WatchedWorker | None],
        silence_seconds: float,
        clock: Clock,
        metrics: FleetMetrics,
    ) -> None:
        self._workers = workers
        self._silence_seconds = silence_seconds
        self._clock = clock
        self._metrics = metrics
        self._killed: set[WatchedWorker] = set()  # and not yet ended
        # Since when each is silent, and how long it had waited for a CPU by the first look since.
        self._silent: dict[WatchedWorker, tuple[float, float]] = {}
        self._log = EventLog("gw.processes")

    async def run(self) -> None:
        """Check until cancelled."""
        pause = beat_seconds(self._silence_seconds)
        looked_at = awake_since = self._clock.monotonic()
        while True:
            await self._clock.sleep(pause)
            now = self._clock.monotonic()
            if now - looked_at > 2 * pause:  # lines sent meanwhile have not been read yet
                awake_since = now
            looked_at = now
            self._look(now, awake_since)

    def _look(self, now: float, awake_since: float) -> None:
        present = [one for one in self._workers if one is not None and one.is_running]
        self._killed.intersection_update(present)
        longest = 0.0
        silent = {}
        for worker in present:
            since, waited = max(worker.heard_at, awake_since), worker.cpu_wait_seconds()
            known_since, before = self._silent.get(worker, (since, waited))
            silent[worker] = since, before if since == known_since else waited
            silence = now - since - (waited - silent[worker][1])
            longest = max(longest, silence)
            if silence > self._silence_seconds and worker not in self._killed:
                self._killed.add(worker)
                self._metrics.hung()
                self._log.error("process_hung", pid=worker.pid, silent_seconds=round(silence, 1))
                worker.kill()
        self._silent = silent
        self._metrics.silent(longest)
