"""Usage of the connection pools of the database, and waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from metrics.families import Families


class Pool(Protocol):
    """A connection pool, as read by a scrape beside the thread that uses it."""

    @property
    def size(self) -> int:
        """The maximum number of connections."""

    @property
    def in_use(self) -> int:
        """The number of connections in use, or being opened."""

    @property
    def idle(self) -> int:
        """The number of idle connections."""


class DatabaseMetrics:
    """Connections of every pool, read at a scrape; waits as they end."""

    def __init__(self, make: Families) -> None:
        self._connections = make.gauge("gw_database_connections")
        self._waits = make.histogram("gw_database_wait_seconds")
        self._refusals = make.counter("gw_database_refusals_total")
        self._pools: dict[str, Pool] = {}

    def watch(self, name: str, pool: Pool) -> None:
        """Show this pool from now on."""
        self._pools[name] = pool

    def waiting(self, name: str) -> Callable[[float], None]:
        """Return the observer of waits, in seconds, for a connection of this pool.

        The pool is shown without any yet.
        """
        return self._waits[(name,)].observe

    def refused(self, sqlstate: str) -> None:
        """Count a statement that the server refused for its own state."""
        self._refusals[(sqlstate,)].value += 1

    def read(self) -> None:
        """Read the pools."""
        for name, pool in self._pools.items():
            self._connections[name, "in_use"].value = pool.in_use
            self._connections[name, "idle"].value = pool.idle
            self._connections[name, "limit"].value = pool.size
