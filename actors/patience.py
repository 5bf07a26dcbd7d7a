"""Gives up on what is waited for too long: one timer for all, since all may wait equally long.

A call asks once or twice; a time-out of its own each time would be a noticeable part of its cost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Patience:
    """Watches futures, oldest first; one that is not done after `seconds` gets an error."""

    def __init__(self, seconds: float, error: Callable[[], Exception]) -> None:
        self._seconds = seconds
        self._error = error
        self._watched: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Patience {self._seconds} s {len(self._watched)} watched>"

    def watch(self, reply: asyncio.Future[Any]) -> None:
        """Give up on this one in time."""
        watched = self._watched
        while watched and watched[0][1].done():
            watched.popleft()
        loop = reply.get_loop()
        until = loop.time() + self._seconds
        watched.append((until, reply))
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)

    def _look(self) -> None:
        self._timer = None
        watched = self._watched
        loop = asyncio.get_running_loop()
        while watched:
            until, reply = watched[0]
            if not reply.done():
                if until > loop.time():
                    self._timer = loop.call_at(until, self._look)
                    return
                reply.set_exception(self._error())
            watched.popleft()
