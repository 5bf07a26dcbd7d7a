"""Requests per minute and requests in flight, by name, as this process has seen them.

Exact and sans I/O: the window remembers every admission, and the time comes in as an argument. It
judges alone where there is no Redis or while that is away, and keeps the books beside it otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from actors.idle_sweep import IdleSweep
from actors.limits.status import WINDOW_SECONDS, Dimension, LimitStatus

Slot = TypeVar("Slot", bound=Hashable)


class WindowUsage(Generic[Slot]):
    """What one name has used: who was admitted when, oldest first, and who is in flight."""

    __slots__ = ("_admitted", "flying")

    def __init__(self) -> None:
        # The instant and the slot of each admission; oldest first. None before the first: an empty
        # one takes as much memory as all else that is remembered of an account without limits.
        self._admitted: deque[tuple[float, Slot]] | None = None
        self.flying: set[Slot] = set()

    @property
    def requests(self) -> int:
        """How many were admitted and not trimmed."""
        return len(self._admitted) if self._admitted else 0

    def admitted(self) -> Iterable[tuple[float, Slot]]:
        """When and who, oldest first."""
        return self._admitted or ()

    def admitted_at(self, index: int) -> float:
        """When one of the `requests` was admitted; 0 is the oldest."""
        assert self._admitted is not None
        return self._admitted[index][0]

    def admit(self, now: float, slot: Slot) -> None:
        """Remember the newest one."""
        if self._admitted is None:
            self._admitted = deque()
        self._admitted.append((now, slot))

    def trim(self, now: float) -> None:
        """Forget who was admitted more than a window ago."""
        admitted = self._admitted
        while admitted and now - admitted[0][0] >= WINDOW_SECONDS:
            admitted.popleft()

    def is_idle(self, now: float) -> bool:
        """Whether there is nothing to remember."""
        requests = self.requests
        return not self.flying and (
            requests == 0 or now - self.admitted_at(requests - 1) >= WINDOW_SECONDS
        )


class SlidingWindows(Generic[Slot]):
    """What each name has used. A slot is its holder's name for one request."""

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
        usage = self._of(name)
        usage.trim(now)
        refused: Dimension | None = None
        retry_seconds = 0.0
        requests = usage.requests
        if rpm is not None and requests >= rpm:
            refused = "rpm"
            # With a limit lowered meanwhile, room comes when enough of the oldest have aged.
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

    def fly(self, name: str, slot: Slot) -> None:
        """A request is in flight that no limit was asked about: one set later counts it."""
        self._of(name).flying.add(slot)

    def note(self, name: str, slot: Slot, *, in_window: bool, now: float) -> None:
        """A request was admitted elsewhere: keep it in mind."""
        usage = self._of(name)
        usage.trim(now)
        if in_window:
            usage.admit(now, slot)
        usage.flying.add(slot)

    def leave(self, name: str, slot: Slot) -> None:
        """A request that was admitted is no longer in flight."""
        self._usage[name].flying.remove(slot)

    def flying(self, name: str) -> Collection[Slot]:
        """The slots of the requests in flight."""
        usage = self._usage.get(name)
        return usage.flying if usage is not None else ()

    def names_in_flight(self) -> list[str]:
        """Everybody who has a request in flight."""
        return [name for name, usage in self._usage.items() if usage.flying]

    def windows(self, now: float) -> Iterator[tuple[str, list[tuple[Slot, float]]]]:
        """Each name with the slots admitted in the last 60 seconds and how long ago that was."""
        for name, usage in list(self._usage.items()):
            usage.trim(now)
            if usage.requests:
                yield name, [(slot, now - at) for at, slot in usage.admitted()]

    def forget_idle(self, now: float) -> None:
        """Drop some of the names with nothing in flight and nothing in the window."""
        self._sweep.round(lambda usage: usage.is_idle(now))

    def _of(self, name: str) -> WindowUsage[Slot]:
        usage = self._usage.get(name)
        if usage is None:
            usage = self._usage[name] = self._made()
            self._sweep.add(name)
        return usage

    def _made(self) -> WindowUsage[Slot]:
        return WindowUsage()
