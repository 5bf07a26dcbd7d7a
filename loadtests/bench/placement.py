"""Which core each process of a benchmark gets: what is measured is alone where it can be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

Cores = frozenset[int]


@dataclass(frozen=True)
class Placement:
    """Cores of the server under test, of PostgreSQL, of the upstream, and of each load process."""

    server: Cores
    database: Cores
    upstream: Cores
    load: tuple[Cores, ...]

    @property
    def rig(self) -> Cores:
        """Every core that something other than the server under test may use."""
        return self.database | self.upstream | frozenset().union(*self.load)

    @property
    def is_disjoint(self) -> bool:
        """Whether the server under test shares its cores with nothing."""
        return not self.server & self.rig

    def describe(self) -> str:
        """One sentence for the table."""
        load = ", ".join(_named(cores) for cores in self.load)
        text = (
            f"server under test on {_named(self.server)}, PostgreSQL on {_named(self.database)}, "
            f"upstream on {_named(self.upstream)}, load on {load}"
        )
        if not self.is_disjoint:
            return text + "; they compete, so rates and latencies are not to be compared"
        if len(self.rig) < 3:
            return text + "; what surrounds the server shares cores, so its own figures are CPU"
        return text


def place(available: Sequence[int], *, server: int = 1, load_max: int = 4) -> Placement:
    """Share out cores; `server` is how many the server under test wants.

    Where there are too few, PostgreSQL, upstream and load share what is left, or everything.
    """
    everything = sorted(available)
    if len(everything) <= server:
        own = frozenset(everything)
        rest = everything
    else:
        own = frozenset(everything[:server])
        rest = everything[server:]
    if len(rest) >= 3:
        load = tuple(frozenset({core}) for core in rest[2 : 2 + load_max])
        return Placement(own, frozenset(rest[:1]), frozenset(rest[1:2]), load)
    if len(rest) == 2 and own.isdisjoint(rest):
        shared, last = frozenset(rest[:1]), frozenset(rest[1:])
        return Placement(own, shared, shared, (last,))
    shared = frozenset(rest)
    return Placement(own, shared, shared, (shared,))


@cache
def available_cores() -> tuple[int, ...]:
    """The cores of this process. Asked once, before it keeps itself to some of them."""
    return tuple(sorted(os.sched_getaffinity(0)))


def _named(cores: Cores) -> str:
    numbers = ", ".join(map(str, sorted(cores)))
    return f"core {numbers}" if len(cores) == 1 else f"cores {numbers}"
