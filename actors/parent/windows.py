"""The usage of all processes of one host, kept by their parent.

It follows the rules of `actors/limits/windows.py` and the commands of `actors/limits/backend.py`,
like the scripts for Redis; but a permit lasts as long as its process, which the parent knows.
Sans I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

from actors.limits.status import WINDOW_SECONDS, LimitStatus
from actors.limits.windows import SlidingWindows, WindowUsage

WorkerSlot = tuple[int, int]  # the worker, and its own number for the request


class _SharedUsage(WindowUsage[WorkerSlot]):
    """Usage whose admissions can be found, added late and withdrawn."""

    __slots__ = ("_is_sorted", "_window")

    def __init__(self) -> None:
        super().__init__()
        self._window: OrderedDict[WorkerSlot, float] = OrderedDict()
        self._is_sorted = True

    @property
    def requests(self) -> int:
        return len(self._window)

    def admitted(self) -> Iterable[tuple[float, WorkerSlot]]:
        self._sort()
        return [(at, slot) for slot, at in self._window.items()]

    def admitted_at(self, index: int) -> float:
        self._sort()
        if index == len(self._window) - 1:
            return self._window[next(reversed(self._window))]
        return next(islice(self._window.values(), index, None))

    def admit(self, now: float, slot: WorkerSlot) -> None:
        self._window[slot] = now

    def trim(self, now: float) -> None:
        self._sort()
        window = self._window
        while window and now - next(iter(window.values())) >= WINDOW_SECONDS:
            window.popitem(last=False)

    def add_late(self, at: float, slot: WorkerSlot) -> None:
        """Add an earlier admission; a known one keeps its time."""
        if slot not in self._window:
            self._window[slot] = at
            self._is_sorted = False

    def withdraw(self, slot: WorkerSlot) -> None:
        """Remove an admission that was not used."""
        self._window.pop(slot, None)

    def _sort(self) -> None:
        if not self._is_sorted:
            self._window = OrderedDict(sorted(self._window.items(), key=lambda item: item[1]))
            self._is_sorted = True


class SharedWindows(SlidingWindows[WorkerSlot]):
    """The figures of all workers; a worker's permits end with it, its admissions still count."""

    def __init__(self) -> None:
        super().__init__()
        self._permits: dict[int, set[tuple[str, WorkerSlot]]] = {}

    def enter(
        self, name: str, slot: WorkerSlot, *, rpm: int | None, concurrency: int | None, now: float
    ) -> LimitStatus:
        """Admit the request if both limits have room; with a concurrency limit it gets a permit."""
        status = self.judge(name, slot, rpm=rpm, concurrency=concurrency, now=now)
        if status.refused is None:
            if concurrency is None:
                self.of(name).flying.remove(slot)
            else:
                self._permits.setdefault(slot[0], set()).add((name, slot))
        return status

    def permit(self, name: str, slot: WorkerSlot) -> None:
        """Permit a request in flight that was admitted elsewhere, or is reported again."""
        self.of(name).flying.add(slot)
        self._permits.setdefault(slot[0], set()).add((name, slot))

    def add_late(self, name: str, slot: WorkerSlot, *, at: float) -> None:
        """Add a request that was admitted elsewhere."""
        self._shared(name).add_late(at, slot)

    def release(self, name: str, slot: WorkerSlot, *, from_window: bool) -> None:
        """End a request, or withdraw one that was never admitted; an unknown one is no error."""
        self._permits.get(slot[0], set()).discard((name, slot))
        usage = self._shared(name)
        usage.flying.discard(slot)
        if from_window:
            usage.withdraw(slot)

    def drop_permits(self, worker: int) -> None:
        """Drop all permits of a worker: it has ended, or will report everything again."""
        for name, slot in self._permits.pop(worker, ()):
            self._shared(name).flying.discard(slot)

    def _shared(self, name: str) -> _SharedUsage:
        usage = self.of(name)
        assert isinstance(usage, _SharedUsage)
        return usage

    def _made(self) -> _SharedUsage:
        return _SharedUsage()
