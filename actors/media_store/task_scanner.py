"""Finds the results of tasks, in the rows of succeeded jobs.

Each scan starts some time before the last one: a row becomes visible when its transaction
commits, which is after its timestamp. Known jobs are skipped, so that nothing is found twice.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import ujson

from actors.media_store.copies import SucceededTask
from actors.media_store.store import CopyStore
from actors.store.database import Database
from actors.store.queries import load
from channels.media.results import TaskResult

SQL: Final = load("actors.media_store", "task_scanner.sql")
# Longer than any transaction lasts and any clock is off.
LOOK_BACK_SECONDS: Final = 600.0
# Jobs that had succeeded before the store was configured: their links may still be valid.
FIRST_LOOK_SECONDS: Final = 86_400.0
BATCH: Final = 200


class TaskScanner:
    """Scans the jobs, in one process at a time."""

    def __init__(self, database: Database, store: CopyStore) -> None:
        self._database = database
        self._store = store

    async def find(self) -> bool:
        """Add a batch of results; return whether there may be more. Raises StoreError."""
        await self._database.execute(SQL["begin"], {"seconds": FIRST_LOOK_SECONDS})
        async with self._database.transaction() as session:
            if not await session.fetch_all(SQL["mine"]):
                return False  # another process scans
            what = {"seconds": LOOK_BACK_SECONDS, "limit": BATCH}
            rows = await session.fetch_all(SQL["made"], what)
            await self._store.found([_made(row) for row in rows])
            is_all = len(rows) < BATCH
            await session.execute(SQL["seen"], {"to": None if is_all else rows[-1][-1]})
            return not is_all


def _made(row: Any) -> SucceededTask:
    job_id, kind, channel_id, upstream_id, upstream_protocol, result, _ = row
    return SucceededTask(
        job_id=job_id,
        kind=kind,
        channel_id=channel_id,
        upstream_id=upstream_id,
        upstream_protocol=upstream_protocol,
        result=msgspec.convert(ujson.loads(result), TaskResult),
    )
