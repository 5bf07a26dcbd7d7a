"""Limits by any name: at most so many requests in any 60 seconds, at most so many in flight.

The name is whatever the limit hangs on: `accounts.py` uses account ids, another room its own prefix
(`logs:key_…`). One process needs nothing outside it. Several share their limits (`shared.py`)
through their parent or Redis; while that is away each process goes on with its own figures.
"""

from __future__ import annotations

import itertools

from actors.clock import Clock
from actors.limits.shared import SharedLimits
from actors.limits.sliding_window import SlidingWindows
from actors.limits.status import LimitStatus

UNLIMITED = LimitStatus(refused=None, requests=0, reset_seconds=0.0, retry_seconds=0.0, in_flight=0)


class Limiter:
    """Judges requests and remembers who is in flight."""

    def __init__(self, *, clock: Clock, shared: SharedLimits | None = None) -> None:
        self._clock = clock
        self._shared = shared
        self._book: SlidingWindows[int] = SlidingWindows()
        self._slots = itertools.count()
        if shared is not None:
            shared.windows = lambda: self._book.windows(clock.monotonic())

    def __repr__(self) -> str:
        return f"<Limiter {self._book!r} {self._shared!r}>"

    async def take(self, name: str, limit: int) -> LimitStatus:
        """Ask for one request of at most `limit` in any 60 seconds; there is nothing to give back.

        The headers of the reply come from the status: `limit - requests` are left, the window
        resets in `reset_whole_seconds`, and a refused request may come back after
        `retry_after_seconds`. A refused one is not counted.
        """
        status, slot = await self.enter(name, rpm=limit, concurrency=None)
        if status.refused is None:
            self.leave(name, slot)
        return status

    async def enter(
        self, name: str, *, rpm: int | None, concurrency: int | None
    ) -> tuple[LimitStatus, int]:
        """Ask for one request. If it is admitted, `leave` its slot, once, when it is over.

        Requests in flight are counted where no limit exists too, so that one set a moment later
        knows them.
        """
        alone = self.try_enter(name, rpm=rpm, concurrency=concurrency)
        if alone is not None:
            return alone
        shared = self._shared
        assert shared is not None
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
                is_leased=concurrency is not None,
                is_asked=is_asked,
            )
        elif is_asked:
            shared.refused_alone(name, slot)
        return status, slot

    def try_enter(
        self, name: str, *, rpm: int | None, concurrency: int | None
    ) -> tuple[LimitStatus, int] | None:
        """`enter` where no other process counts the name; None where one may."""
        if rpm is None and concurrency is None:
            slot = next(self._slots)
            self._book.fly(name, slot)
            return UNLIMITED, slot
        if self._shared is not None:
            return None
        slot = next(self._slots)
        now = self._clock.monotonic()
        return self._book.judge(name, slot, rpm=rpm, concurrency=concurrency, now=now), slot

    def leave(self, name: str, slot: int) -> None:
        """An admitted request is over."""
        self._book.leave(name, slot)
        if self._shared is not None:
            self._shared.release(name, slot)

    def share(self, name: str) -> None:
        """Tell the other processes of requests that are in flight without a limit.

        To be called when a limit may have been set: they count from then on.
        """
        if self._shared is None:
            return
        flying, leased = self._book.flying(name), self._shared.leases(name)
        if len(flying) != len(leased):
            for slot in [slot for slot in flying if slot not in leased]:
                self._shared.lease(name, slot)

    def share_all(self) -> None:
        """Share every name, when a change may have been missed."""
        for name in self._book.names_in_flight():
            self.share(name)

    def in_flight(self, name: str) -> int:
        """Requests in flight in this process."""
        return len(self._book.flying(name))

    def forget_idle(self) -> None:
        """Let go of some of the names that are not in use; to be called every second."""
        self._book.forget_idle(self._clock.monotonic())
