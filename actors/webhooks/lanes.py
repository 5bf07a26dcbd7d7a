"""The deliveries of one webhook in memory: which are under way, and which is begun next.

So many are under way at once. First attempts begin in the order of their numbers; the others, of
deliveries that failed or are replayed, have places of their own, too few to hold first attempts up.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

AT_ONCE = 8
# Of these at most so many for later attempts, and so many of them before any first one.
LATERS_MAX = 4
LATERS_SURE = 2
# Loaded beyond those under way, so that a place that is free again does not wait for the database.
AHEAD = 32


class Waiting(Protocol):
    """A delivery. `is_first`: it was not attempted yet, nor is it a replay."""

    @property
    def sequence(self) -> int: ...

    @property
    def is_first(self) -> bool: ...


D = TypeVar("D", bound=Waiting)


@dataclass(frozen=True, slots=True)
class Wish:
    """How many deliveries to load, and which not to."""

    firsts: int
    laters: int
    known: list[int]


class Lanes(Generic[D]):
    """Deliveries loaded, under way, and ended without being booked yet."""

    def __init__(self) -> None:
        self._firsts: deque[D] = deque()
        self._laters: deque[D] = deque()
        self._under_way: dict[int, D] = {}
        self._unbooked: set[int] = set()

    def __repr__(self) -> str:
        waiting = len(self._firsts) + len(self._laters)
        return f"<Lanes {len(self._under_way)} under way {waiting} waiting>"

    @property
    def is_empty(self) -> bool:
        """Whether nothing is loaded or under way."""
        return not (self._firsts or self._laters or self._under_way)

    def wish(self) -> Wish:
        """Return what there is room for."""
        known = [one.sequence for one in (*self._firsts, *self._laters)]
        return Wish(
            firsts=max(0, AHEAD - len(self._firsts)),
            laters=max(0, LATERS_MAX - len(self._laters)),
            known=[*known, *self._under_way, *self._unbooked],
        )

    def add(self, delivery: D) -> None:
        """Add a loaded delivery."""
        (self._firsts if delivery.is_first else self._laters).append(delivery)

    def begin(self) -> D | None:
        """Return the delivery to be begun now, under way from here on; None: none."""
        if len(self._under_way) >= AT_ONCE:
            return None
        laters = sum(not one.is_first for one in self._under_way.values())
        if self._laters and laters < LATERS_SURE:
            lane = self._laters
        elif self._firsts:
            lane = self._firsts
        elif self._laters and laters < LATERS_MAX:
            lane = self._laters
        else:
            return None
        begun = lane.popleft()
        self._under_way[begun.sequence] = begun
        return begun

    def end(self, sequence: int) -> None:
        """Note the end of an attempt, which is not booked yet."""
        del self._under_way[sequence]
        self._unbooked.add(sequence)

    def booked(self, sequence: int) -> None:
        """Note that the end of an attempt is in the database: it may be loaded again."""
        self._unbooked.discard(sequence)

    def forget_waiting(self) -> None:
        """Drop what is loaded and not under way."""
        self._firsts.clear()
        self._laters.clear()
