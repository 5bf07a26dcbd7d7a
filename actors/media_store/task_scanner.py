"""Finds what tasks have made, from the rows of those that succeeded.

Looks back a while each time: a row becomes visible when its transaction commits, which is later
than the instant it carries. What is known by then is passed over, so nothing is found twice.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import ujson

from actors.media_store.copies import SucceededTask
from actors.media_store.store import CopyStore
from actors.store.database import Database
from actors.store.queries import load
from channels.media.replies import TaskResult

SQL: Final = load("actors.media_store", "task_scanner.sql")
# Longer than any transaction lasts and any clock is wrong.
LOOK_BACK_SECONDS: Final = 600.0
# What had succeeded before there was a store: its links may still be good.
FIRST_LOOK_SECONDS: Final = 86_400.0
BATCH: Final = 200


class TaskScanner:
    """Looks through the jobs, one process at a time."""

    def __init__(self, database: Database, store: CopyStore) -> None:
        self._database = database
        self._store = store

    async def find(self) -> bool:
        """Take up a batch of what was made; whether there may be more. Raises StoreError."""
        await self._database.execute(SQL["begin"], {"seconds": FIRST_LOOK_SECONDS})
        async with self._database.transaction() as session:
            if not await session.fetch_all(SQL["mine"]):
                return False  # another process looks
            what = {"seconds": LOOK_BACK_SECONDS, "limit": BATCH}
            rows = await session.fetch_all(SQL["made"], what)
            await self._store.found([_made(row) for row in rows])
            is_all = len(rows) < BATCH
            await session.execute(SQL["seen"], {"to": None if is_all else rows[-1][-1]})
            return not is_all


def _made(row: Any) -> SucceededTask:
    job_id, kind, channel_id, upstream_id, wire, result, _ = row
    return SucceededTask(
        job_id=job_id,
        kind=kind,
        channel_id=channel_id,
        upstream_id=upstream_id,
        wire=wire,
        result=msgspec.convert(ujson.loads(result), TaskResult),
    )
