"""Which core each process of a load gets: what is measured is alone where it can be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

Cores = frozenset[int]


class Placement(NamedTuple):
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
        text = ", ".join(
            f"{role} on core{'s' * (len(cores) > 1)} {', '.join(map(str, sorted(cores)))}"
            for role, cores in zip(
                ("server under test", "PostgreSQL", "upstream", "load"), self, strict=True
            )
        )
        if not self.is_disjoint:
            return text + "; they compete, so rates and latencies are not to be compared"
        if len(self.rig) < 3:
            return text + "; what surrounds the server shares cores, so its own figures are CPU"
        return text


def place(available: Sequence[int], *, server: int = 1) -> Placement:
    """Share out cores; `server` is how many the server under test wants.

    Where there are too few, PostgreSQL, upstream and load share what is left, or everything.
    """
    own, rest = available[:server], available[server:] or available
    if len(rest) > 2:
        return Placement(*map(frozenset, (own, rest[:1], rest[1:2], rest[2:3])))
    # Of two that are left the load has one.
    others, load = (rest[:1], rest[1:]) if len(rest) == 2 and rest != available else (rest, rest)
    return Placement(*map(frozenset, (own, others, others, load)))


@cache
def available_cores() -> tuple[int, ...]:
    """The cores of this process. Asked once, before it keeps itself to some of them."""
    return tuple(sorted(os.sched_getaffinity(0)))
