"""What the processes of one host have used together, as their parent keeps it.

Judges as `sliding_window.py` does and follows what `shared.py` says, as the scripts for Redis do;
but a lease here lasts as long as the process that holds it, which the parent knows. Sans I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice

from actors.limits.sliding_window import SlidingWindows, WindowUsage
from actors.limits.status import WINDOW_SECONDS, LimitStatus

WorkerSlot = tuple[int, int]  # which worker, and its own number for the request


class _SharedUsage(WindowUsage[WorkerSlot]):
    """Usage whose single admissions can be found, added late and taken out again."""

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
        """Remember one that was admitted some time ago; where it is known, its time stays."""
        if slot not in self._window:
            self._window[slot] = at
            self._is_sorted = False

    def withdraw(self, slot: WorkerSlot) -> None:
        """Forget one that was not admitted after all."""
        self._window.pop(slot, None)

    def _sort(self) -> None:
        if not self._is_sorted:
            self._window = OrderedDict(sorted(self._window.items(), key=lambda item: item[1]))
            self._is_sorted = True


class SharedWindows(SlidingWindows[WorkerSlot]):
    """The figures of all workers; a worker's leases end with it, what it admitted stays counted."""

    def __init__(self) -> None:
        super().__init__()
        self._leases: dict[int, set[tuple[str, WorkerSlot]]] = {}

    def enter(
        self, name: str, slot: WorkerSlot, *, rpm: int | None, concurrency: int | None, now: float
    ) -> LimitStatus:
        """Admit the request if both limits have room; with a concurrency it holds a lease."""
        status = self.judge(name, slot, rpm=rpm, concurrency=concurrency, now=now)
        if status.refused is None:
            if concurrency is None:
                self.leave(name, slot)
            else:
                self._leases.setdefault(slot[0], set()).add((name, slot))
        return status

    def lease(self, name: str, slot: WorkerSlot) -> None:
        """A request is in flight that was admitted without asking, or is said again."""
        self.fly(name, slot)
        self._leases.setdefault(slot[0], set()).add((name, slot))

    def add_late(self, name: str, slot: WorkerSlot, *, at: float) -> None:
        """A request was admitted without asking."""
        self._shared(name).add_late(at, slot)

    def release(self, name: str, slot: WorkerSlot, *, from_window: bool) -> None:
        """A request is over, or was never admitted; one that is not known is no error."""
        self._leases.get(slot[0], set()).discard((name, slot))
        usage = self._shared(name)
        usage.flying.discard(slot)
        if from_window:
            usage.withdraw(slot)

    def drop_leases(self, worker: int) -> None:
        """Nothing of a worker is in flight: it has ended, or says everything anew."""
        for name, slot in self._leases.pop(worker, ()):
            self._shared(name).flying.discard(slot)

    def _shared(self, name: str) -> _SharedUsage:
        usage = self._of(name)
        assert isinstance(usage, _SharedUsage)
        return usage

    def _made(self) -> _SharedUsage:
        return _SharedUsage()
