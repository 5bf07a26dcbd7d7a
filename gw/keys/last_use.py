"""Writes when keys were last used: what the cache noted, in one statement a beat of the heartbeat.

No call waits for it, and a database that is away loses nothing (spec: Balance says which requests
leave the time alone; the cache is told by them).
"""

from __future__ import annotations

from typing import Protocol

from actors.store.session import Statements
from gw.keys import store


class Touched(Protocol):
    """The part of the cache that is read here."""

    def touched(self) -> dict[str, float]: ...


class LastUse:
    """Moves the times from the cache to the database."""

    def __init__(self, *, keys: Touched, database: Statements) -> None:
        self._keys = keys
        self._database = database
        self._pending: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<LastUse {len(self._pending)} pending>"

    async def write(self) -> None:
        """Write everything noted so far; on StoreUnavailable it is kept for the next time."""
        self._pending |= self._keys.touched()
        if not self._pending:
            return
        await store.write_last_use(self._database, self._pending)
        self._pending = {}
