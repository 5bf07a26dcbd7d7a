"""Requests per minute and requests in flight, by name, as seen by this process.

Exact and sans I/O: the window keeps every admission, and the time is an argument. It decides
alone without a backend, or while that is unavailable, and otherwise only keeps the figures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from actors.limits.idle_sweep import IdleSweep
from actors.limits.status import WINDOW_SECONDS, Dimension, LimitStatus

Slot = TypeVar("Slot", bound=Hashable)


class WindowUsage(Generic[Slot]):
    """The usage of one name: its admissions, oldest first, and the slots in flight."""

    __slots__ = ("_admitted", "flying")

    def __init__(self) -> None:
        # Time and slot of each admission, oldest first. None before the first: an empty deque takes
        # as much memory as the rest of an account without limits.
        self._admitted: deque[tuple[float, Slot]] | None = None
        self.flying: set[Slot] = set()

    @property
    def requests(self) -> int:
        """The number of admissions in the window."""
        return len(self._admitted) if self._admitted else 0

    def admitted(self) -> Iterable[tuple[float, Slot]]:
        """Return times and slots, oldest first."""
        return self._admitted or ()

    def admitted_at(self, index: int) -> float:
        """Return the time of one of the `requests`; 0 is the oldest."""
        assert self._admitted is not None
        return self._admitted[index][0]

    def admit(self, now: float, slot: Slot) -> None:
        """Add the newest admission."""
        if self._admitted is None:
            self._admitted = deque()
        self._admitted.append((now, slot))

    def trim(self, now: float) -> None:
        """Drop the admissions that are older than the window."""
        admitted = self._admitted
        while admitted and now - admitted[0][0] >= WINDOW_SECONDS:
            admitted.popleft()

    def is_idle(self, now: float) -> bool:
        """Whether the entry can be dropped."""
        requests = self.requests
        return not self.flying and (
            requests == 0 or now - self.admitted_at(requests - 1) >= WINDOW_SECONDS
        )


class SlidingWindows(Generic[Slot]):
    """The usage of each name. A slot identifies one request."""

    def __init__(self) -> None:
        self._usage: dict[str, WindowUsage[Slot]] = {}
        self._sweep = IdleSweep(self._usage)

    def __repr__(self) -> str:
        flying = sum(len(usage.flying) for usage in self._usage.values())
        return f"<SlidingWindows {len(self._usage)} names {flying} in flight>"

    def judge(
        self, name: str, slot: Slot, *, rpm: int | None, concurrency: int | None, now: float
    ) -> LimitStatus:
        """Admit the request if both limits have room; a refused one takes nothing."""
        usage = self.of(name)
        usage.trim(now)
        refused: Dimension | None = None
        retry_seconds = 0.0
        requests = usage.requests
        if rpm is not None and requests >= rpm:
            refused = "rpm"
            # If the limit was lowered meanwhile, several of the oldest have to age out.
            freeing = usage.admitted_at(requests - rpm)
            retry_seconds = WINDOW_SECONDS - (now - freeing)
        elif concurrency is not None and len(usage.flying) >= concurrency:
            refused = "concurrency"
        else:
            if rpm is not None:
                usage.admit(now, slot)
                requests += 1
            usage.flying.add(slot)
        oldest_seconds = now - usage.admitted_at(0) if requests else WINDOW_SECONDS
        return LimitStatus(
            refused=refused,
            requests=requests,
            reset_seconds=WINDOW_SECONDS - oldest_seconds,
            retry_seconds=retry_seconds,
            in_flight=len(usage.flying),
        )

    def note(self, name: str, slot: Slot, *, in_window: bool, now: float) -> None:
        """Count a request that the backend admitted."""
        usage = self.of(name)
        usage.trim(now)
        if in_window:
            usage.admit(now, slot)
        usage.flying.add(slot)

    def flying(self, name: str) -> Collection[Slot]:
        """Return the slots of the requests in flight."""
        usage = self._usage.get(name)
        return usage.flying if usage is not None else ()

    def names_in_flight(self) -> list[str]:
        """Return the names that have requests in flight."""
        return [name for name, usage in self._usage.items() if usage.flying]

    def windows(self, now: float) -> Iterator[tuple[str, list[tuple[Slot, float]]]]:
        """Yield each name with the slots admitted in the last 60 seconds and their ages."""
        for name, usage in list(self._usage.items()):
            usage.trim(now)
            if usage.requests:
                yield name, [(slot, now - at) for at, slot in usage.admitted()]

    def forget_idle(self, now: float) -> None:
        """Drop some of the names with an empty window and no request in flight."""
        self._sweep.round(lambda usage: usage.is_idle(now))

    def of(self, name: str) -> WindowUsage[Slot]:
        """Return the usage of a name."""
        usage = self._usage.get(name)
        if usage is None:
            usage = self._usage[name] = self._made()
            self._sweep.add(name)
        return usage

    def _made(self) -> WindowUsage[Slot]:
        return WindowUsage()
