"""Limits by any name: at most so many requests in any 60 seconds, at most so many in flight.

The name is whatever the limit hangs on: `accounts.py` uses account ids, another room its own prefix
(`logs:key_…`). One process needs nothing outside it. With Redis the limits hold over all processes
(`shared.py`), and while that is away each process goes on with its own figures.
"""

from __future__ import annotations

import itertools

from actors.clock import Clock
from actors.limits.book import Book
from actors.limits.standing import Standing

UNLIMITED = Standing(refused=None, requests=0, reset_seconds=0.0, retry_seconds=0.0, in_flight=0)


class Limiter:
    """Judges requests and remembers who is in flight."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._book = Book()
        self._places = itertools.count()

    def __repr__(self) -> str:
        return f"<Limiter {self._book!r}>"

    async def take(self, name: str, limit: int) -> Standing:
        """Ask for one request of at most `limit` in any 60 seconds; there is nothing to give back.

        The headers of the answer come from the standing: `limit - requests` are left, the window
        resets in `reset_whole_seconds`, and a refused request may come back after
        `retry_after_seconds`. A refused one is not counted.
        """
        standing, place = await self.enter(name, rpm=limit, concurrency=None)
        if standing.refused is None:
            self.leave(name, place)
        return standing

    async def enter(
        self, name: str, *, rpm: int | None, concurrency: int | None
    ) -> tuple[Standing, int]:
        """Ask for one request. If it is admitted, `leave` its place, once, when it is over.

        Requests in flight are counted where no limit exists too, so that one set a moment later
        knows them.
        """
        place = next(self._places)
        if rpm is None and concurrency is None:
            self._book.fly(name, place)
            return UNLIMITED, place
        now = self._clock.monotonic()
        return self._book.judge(name, place, rpm=rpm, concurrency=concurrency, now=now), place

    def leave(self, name: str, place: int) -> None:
        """An admitted request is over."""
        self._book.leave(name, place)

    def in_flight(self, name: str) -> int:
        """Requests in flight in this process."""
        return len(self._book.flying(name))

    def forget_idle(self) -> None:
        """Let go of some of the names that are not in use; to be called every second."""
        self._book.forget_idle(self._clock.monotonic())
