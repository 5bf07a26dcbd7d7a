"""Which core each process of a benchmark gets: what is measured is alone where it can be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

Cores = frozenset[int]


@dataclass(frozen=True)
class Placement:
    """Cores of the server under test, of PostgreSQL, of the upstream, and of the load."""

    server: Cores
    database: Cores
    upstream: Cores
    load: Cores

    @property
    def rig(self) -> Cores:
        """Every core that something other than the server under test may use."""
        return self.database | self.upstream | self.load

    @property
    def is_disjoint(self) -> bool:
        """Whether the server under test shares its cores with nothing."""
        return not self.server & self.rig

    def describe(self) -> str:
        """One sentence for the table."""
        roles = ("server under test", self.server), ("PostgreSQL", self.database)
        every = *roles, ("upstream", self.upstream), ("load", self.load)
        text = ", ".join(f"{role} on {_named(cores)}" for role, cores in every)
        if not self.is_disjoint:
            return text + "; they compete, so rates and latencies are not to be compared"
        if len(self.rig) < 3:
            return text + "; what surrounds the server shares cores, so its own figures are CPU"
        return text


def place(available: Sequence[int], *, server: int = 1) -> Placement:
    """Share out cores; `server` is how many the server under test wants.

    Where there are too few, PostgreSQL, upstream and load share what is left, or everything.
    """
    everything = sorted(available)
    own, rest = everything[:server], everything[server:]
    if len(rest) >= 3:
        parts = [[core] for core in rest[:3]]
    elif rest:  # of two that are left the load has one
        parts = [rest[:-1] or rest, rest[:-1] or rest, rest[-1:]]
    else:
        parts = [everything] * 3
    return Placement(*map(frozenset, (own, *parts)))


@cache
def available_cores() -> tuple[int, ...]:
    """The cores of this process. Asked once, before it keeps itself to some of them."""
    return tuple(sorted(os.sched_getaffinity(0)))


def _named(cores: Cores) -> str:
    return f"core{'s' * (len(cores) > 1)} {', '.join(map(str, sorted(cores)))}"
