"""Drops the idle entries of a dictionary a few at a time, so that no round takes long.

For dictionaries that grow with the number of accounts seen: a scan of all entries every second
would block the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

# Every entry is checked once in so many rounds, and at least FEWEST entries per round.
LAP_ROUNDS = 64
FEWEST = 256


class IdleSweep(Generic[T]):
    """Cycles through the entries added to it; the maker of an entry adds it, once."""

    def __init__(self, entries: dict[str, T]) -> None:
        self._entries = entries
        self._names: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: str) -> None:
        """Add an entry by name. Only the sweep removes it."""
        self._names.append(name)

    def round(self, is_idle: Callable[[T], bool]) -> int:
        """Check the next few entries, drop the idle ones, return how many were checked."""
        names = self._names
        count = min(len(names), max(FEWEST, -(-len(names) // LAP_ROUNDS)))
        for _ in range(count):
            name = names.popleft()
            if is_idle(self._entries[name]):
                del self._entries[name]
            else:
                names.append(name)
        return count
