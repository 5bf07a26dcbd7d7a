"""Waits until no process admits calls out of what it leased of an account before a change.

The change has called the leases back (`leases_call_back`). A process that is dead or stands still
does not return its lease, which is then taken from it, as recovery does (`recovery.py`).
"""

from __future__ import annotations

from actors.clock import Clock
from actors.process import SQL
from actors.recovery import STALE_SECONDS
from actors.store.database import Database

LOOK_FIRST_SECONDS, LOOK_MAX_SECONDS = 0.01, 0.2


async def leases_returned(database: Database, account_id: str, clock: Clock) -> None:
    """Return when none of the leases that are called back by now is left; in 10 s at the latest.

    Raises StoreUnavailable.
    """
    began, pause = clock.monotonic(), LOOK_FIRST_SECONDS
    left = set(await _called_back(database, account_id))
    while left:
        if clock.monotonic() - began > STALE_SECONDS:
            # Seen for so long: no process admits anything from them (`Recovery._take_leases`).
            for called in sorted(left):
                await database.fetch_all(SQL["take_lease"], called)
            return
        await clock.sleep(pause)
        pause = min(2 * pause, LOOK_MAX_SECONDS)
        left.intersection_update(await _called_back(database, account_id))


async def _called_back(database: Database, account_id: str) -> list[tuple[object, ...]]:
    rows = await database.fetch_all(SQL["called_back_of"], (account_id,))
    return [tuple(row) for row in rows]
