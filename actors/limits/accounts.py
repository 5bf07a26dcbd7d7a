"""The two limits of an account, over all its keys, and what their headers say (spec: Limits).

A refused request takes nothing: it is neither in the window nor in flight. An admission is left
exactly once, on every way out; leaving twice is harmless.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType

from actors.clock import Clock
from actors.limits.shared import SharedLimits
from actors.limits.window import LimitStatus, SlidingWindows
from metrics.prometheus import Metrics

# Limits by any name: at most so many requests in any 60 seconds, at most so many in flight.
#
# The name is whatever the limit hangs on: `AccountLimits` uses account ids, the log API a
# prefix of its own (`logs:key_…`). One process needs nothing outside it. Several share their limits
# (`shared.py`) through their parent or Redis; while that is away each process goes on with its own
# figures.

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


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class LimitExceeded(Exception):
    """The account has reached one of its limits."""

    def __init__(
        self, dimension: str, limit: int, headers: Mapping[str, str], retry_after_seconds: int
    ) -> None:
        super().__init__(dimension)
        self.dimension = dimension  # "requests per minute" or "concurrency"
        self.limit = limit
        self.headers = headers
        self.retry_after_seconds = retry_after_seconds


class LimitLease:
    """The right to be in flight, until `leave`."""

    __slots__ = ("_is_left", "_limiter", "_slot", "account_id", "headers")

    def __init__(
        self, limiter: Limiter, account_id: str, slot: int, headers: Mapping[str, str]
    ) -> None:
        self._limiter = limiter
        self._slot = slot
        self._is_left = False
        self.account_id = account_id
        self.headers = headers

    def leave(self) -> None:
        """Give the slot back."""
        if not self._is_left:
            self._is_left = True
            self._limiter.leave(self.account_id, self._slot)


class AccountLimits:
    """Admits requests of accounts within their limits."""

    def __init__(self, *, limiter: Limiter, metrics: Metrics) -> None:
        self._limiter = limiter
        self._metrics = metrics

    async def enter(
        self, account_id: str, *, rpm: int | None, concurrency: int | None
    ) -> LimitLease:
        """Admit one request. Raises LimitExceeded, with the headers of the reply."""
        status, slot = await self._limiter.enter(account_id, rpm=rpm, concurrency=concurrency)
        return self._admission(account_id, status, slot, rpm, concurrency)

    def try_enter(
        self, account_id: str, *, rpm: int | None, concurrency: int | None
    ) -> LimitLease | None:
        """`enter` where no other process has to be asked; None where one has."""
        entered = self._limiter.try_enter(account_id, rpm=rpm, concurrency=concurrency)
        if entered is None:
            return None
        return self._admission(account_id, *entered, rpm, concurrency)

    def _admission(
        self,
        account_id: str,
        status: LimitStatus,
        slot: int,
        rpm: int | None,
        concurrency: int | None,
    ) -> LimitLease:
        if status is UNLIMITED:
            return LimitLease(self._limiter, account_id, slot, _NO_HEADERS)
        headers = _headers(status, rpm, concurrency)
        if status.refused is None:
            return LimitLease(self._limiter, account_id, slot, headers)
        self._metrics.limit_refused(status.refused)
        retry_after_seconds = status.retry_after_seconds
        headers["Retry-After"] = str(retry_after_seconds)
        if status.refused == "rpm":
            assert rpm is not None
            raise LimitExceeded("requests per minute", rpm, headers, retry_after_seconds)
        assert concurrency is not None
        raise LimitExceeded("concurrency", concurrency, headers, retry_after_seconds)

    def in_flight(self, account_id: str) -> int:
        """Requests of the account in flight in this process."""
        return self._limiter.in_flight(account_id)


def _headers(status: LimitStatus, rpm: int | None, concurrency: int | None) -> dict[str, str]:
    headers: dict[str, str] = {}
    if rpm is not None:
        headers["x-ratelimit-limit-requests"] = str(rpm)
        headers["x-ratelimit-remaining-requests"] = str(max(0, rpm - status.requests))
        headers["x-ratelimit-reset-requests"] = str(status.reset_whole_seconds)
    if concurrency is not None:
        headers["x-ratelimit-limit-concurrency"] = str(concurrency)
        headers["x-ratelimit-remaining-concurrency"] = str(max(0, concurrency - status.in_flight))
    return headers
