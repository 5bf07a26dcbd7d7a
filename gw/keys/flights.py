"""Single flight: many who ask for the same thing at once share one read, and none is told old news.

Knows nothing of keys; the cache that uses it is `cache.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Flight:
    """One read under way, and what has changed since its latest start."""

    __slots__ = ("_changes", "_has_gap")

    def __init__(self) -> None:
        self._changes: set[str] = set()
        self._has_gap = False

    def start(self) -> None:
        """A read begins: what changed before does not matter to it."""
        self._changes.clear()
        self._has_gap = False

    def note(self, change: str | None) -> None:
        """Something changed; None: nobody knows what did."""
        if change is None:
            self._has_gap = True
        else:
            self._changes.add(change)

    def was_overtaken(self, concerns: Callable[[str], bool]) -> bool:
        """Whether a change since the start concerns what was read."""
        return self._has_gap or any(map(concerns, self._changes))


class Flights(Generic[T]):
    """The reads under way, by the name of what is read."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, tuple[Flight, asyncio.Task[T]]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def note(self, change: str | None) -> None:
        """Tell every read under way of a change."""
        for flight, _ in self._under_way.values():
            flight.note(change)

    async def join(self, name: bytes, fly: Callable[[Flight], Coroutine[Any, Any, T]]) -> T:
        """Return the outcome of the read of `name`; begin it with `fly` unless it is under way.

        A caller that is cancelled leaves the read to the others.
        """
        if name in self._under_way:
            _, task = self._under_way[name]
        else:
            flight = Flight()
            task = asyncio.create_task(self._fly(name, fly(flight)))
            task.add_done_callback(_mark_retrieved)
            self._under_way[name] = (flight, task)
        await asyncio.wait([task])
        return task.result()

    async def _fly(self, name: bytes, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        finally:
            # Before anyone can run who might join: the outcome is for those who are here already.
            del self._under_way[name]


def _mark_retrieved(task: asyncio.Task[Any]) -> None:
    """All who waited may have been cancelled; the error is not lost on anybody then."""
    if not task.cancelled():
        task.exception()
