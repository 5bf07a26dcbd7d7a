"""Writes the last use of keys, collected by the cache, with the heartbeat.

No call waits for it, and nothing is lost while the database is unreachable (reference 5.10, which
lists the requests that do not count as a use).
"""

from __future__ import annotations

from actors.store.session import Statements
from gw.keys import store
from gw.keys.cache import KeyCache

# Keys of one statement. So many are written with each heartbeat, of more a sixtieth: a key in use
# is at most about a minute late. Written each second, 10,000 keys took 70 ms of each from batches.
USES_AT_ONCE = 256
BEATS_TO_WRITE_ALL = 60


class LastUse:
    """Moves the times from the cache to the database."""

    def __init__(self, *, keys: KeyCache, database: Statements) -> None:
        self._keys = keys
        self._database = database
        self._pending: dict[str, float] = {}  # of the statement under way, or that failed

    def __repr__(self) -> str:
        return f"<LastUse {len(self._pending) + self._keys.touched_count} pending>"

    async def write(self) -> None:
        """Write what has waited longest; on StoreUnavailable it is kept for the next time."""
        await self._write(max(USES_AT_ONCE, self._keys.touched_count // BEATS_TO_WRITE_ALL))

    async def write_all(self) -> None:
        """Write everything noted so far. Raises StoreUnavailable."""
        await self._write(len(self._pending) + self._keys.touched_count)

    async def _write(self, most: int) -> None:
        while most > 0:
            self._pending |= self._keys.touched(min(most, USES_AT_ONCE) - len(self._pending))
            if not self._pending:
                return
            await store.write_last_use(self._database, self._pending)
            most -= len(self._pending)
            self._pending = {}
