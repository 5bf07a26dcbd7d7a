"""How full the pools of connections to the database are, and what waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from metrics.families import Families


class Pool(Protocol):
    """A pool of connections, as a scrape sees it. Read beside the thread that uses it."""

    @property
    def size(self) -> int:
        """How many connections it may have."""

    @property
    def in_use(self) -> int:
        """How many of them work, or are being opened."""

    @property
    def idle(self) -> int:
        """How many are open and wait for work."""


class DatabaseMetrics:
    """Connections of every pool, read when somebody scrapes; waits as they end."""

    def __init__(self, make: Families) -> None:
        self._connections = make.gauge("gw_database_connections")
        self._waits = make.histogram("gw_database_wait_seconds")
        self._pools: dict[str, Pool] = {}

    def watch(self, name: str, pool: Pool) -> None:
        """Show this pool from now on."""
        self._pools[name] = pool

    def waiting(self, name: str) -> Callable[[float], None]:
        """What is told of each wait, in seconds, for a connection of this pool; shown as none."""
        return self._waits[(name,)].observe

    def read(self) -> None:
        """Look at the pools."""
        for name, pool in self._pools.items():
            self._connections[name, "in_use"].value = pool.in_use
            self._connections[name, "idle"].value = pool.idle
            self._connections[name, "limit"].value = pool.size
