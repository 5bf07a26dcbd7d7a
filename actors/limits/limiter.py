"""Limits by name: so many requests in any 60 seconds, so many in flight.

`AccountLimits` uses account ids as names, the log API a prefix of its own (`logs:key_…`). A
single process keeps them alone. Several processes share them (`shared.py`) through their parent
or Redis; while that is unavailable each process continues with its own figures.
"""

from __future__ import annotations

import itertools
from collections.abc import Coroutine
from typing import Any

from actors.clock import Clock
from actors.limits.shared import SharedLimits
from actors.limits.status import LimitStatus
from actors.limits.windows import SlidingWindows

# The figures after one request, and its slot.
Entered = tuple[LimitStatus, int]

UNLIMITED = LimitStatus(refused=None, requests=0, reset_seconds=0.0, retry_seconds=0.0, in_flight=0)


class Limiter:
    """Admits requests and counts those in flight."""

    def __init__(self, *, clock: Clock, shared: SharedLimits | None = None) -> None:
        self._clock = clock
        self._shared = shared
        self._book: SlidingWindows[int] = SlidingWindows()
        self._slots = itertools.count()
        if shared is not None:
            shared.windows = lambda: self._book.windows(clock.monotonic())

    async def take(self, name: str, limit: int) -> LimitStatus:
        """Admit one request of at most `limit` in any 60 seconds; it needs no `leave`.

        The status has the values of the response headers: `limit - requests` are left, the window
        resets in `reset_whole_seconds`, and a refused client may retry after `retry_after_seconds`.
        A refused request is not counted.
        """
        entered = self.enter(name, rpm=limit, concurrency=None)
        status, slot = entered if isinstance(entered, tuple) else await entered
        if status.refused is None:
            self.leave(name, slot)
        return status

    def enter(
        self, name: str, *, rpm: int | None, concurrency: int | None
    ) -> Entered | Coroutine[Any, Any, Entered]:
        """Request admission. If it is granted, `leave` its slot once, at the end of the request.

        Decided at once where no other process counts the name, else by what is returned. Requests
        in flight are also counted without a limit, for one that is set later.
        """
        if rpm is None and concurrency is None:
            return UNLIMITED, self.fly(name)
        if self._shared is not None:
            return self._enter_shared(self._shared, name, rpm, concurrency)
        slot = next(self._slots)
        now = self._clock.monotonic()
        return self._book.judge(name, slot, rpm=rpm, concurrency=concurrency, now=now), slot

    async def _enter_shared(
        self, shared: SharedLimits, name: str, rpm: int | None, concurrency: int | None
    ) -> Entered:
        slot = next(self._slots)
        in_window = rpm is not None
        is_asked = shared.is_up
        if is_asked:
            if concurrency is not None:
                self.share(name)
            shared_status = await shared.enter(name, slot, rpm=rpm, concurrency=concurrency)
            if shared_status is not None:
                if shared_status.refused is None:
                    now = self._clock.monotonic()
                    self._book.note(name, slot, in_window=in_window, now=now)
                return shared_status, slot
        now = self._clock.monotonic()
        status = self._book.judge(name, slot, rpm=rpm, concurrency=concurrency, now=now)
        if status.refused is None:
            shared.admitted_alone(
                name,
                slot,
                in_window=in_window,
                has_permit=concurrency is not None,
                is_asked=is_asked,
            )
        elif is_asked:
            shared.refused_alone(name, slot)
        return status, slot

    def fly(self, name: str) -> int:
        """Count a request to which no limit applies, for one that is set later; return its slot."""
        slot = next(self._slots)
        self._book.of(name).flying.add(slot)
        return slot

    def leave(self, name: str, slot: int) -> None:
        """End an admitted request."""
        self._book.of(name).flying.remove(slot)
        if self._shared is not None:
            self._shared.release(name, slot)

    def share(self, name: str) -> None:
        """Report requests that are in flight without a limit to the other processes.

        Called when a limit may have been set, from when they count.
        """
        if self._shared is None:
            return
        flying, permitted = self._book.flying(name), self._shared.permits(name)
        if len(flying) != len(permitted):
            for slot in [slot for slot in flying if slot not in permitted]:
                self._shared.permit(name, slot)

    def share_all(self) -> None:
        """Share every name, when a change of limits may have been missed."""
        for name in self._book.names_in_flight():
            self.share(name)

    def in_flight(self, name: str) -> int:
        """Return the number of requests in flight in this process."""
        return len(self._book.flying(name))

    def forget_idle(self) -> None:
        """Drop some of the idle names; called every second."""
        self._book.forget_idle(self._clock.monotonic())
