"""Fills a database with rows of the call log, batch by batch, through the table's own trigger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from actors.store.database import Database
from actors.store.queries import load

SQL = load("loadtests.logs", "fill.sql")
BATCH_ROWS = 100_000
DAYS = 31  # more than the 30 that are asked for, so that the window's first edge lies among rows


async def fill(database: Database, rows: int) -> datetime:
    """Write so many rows that end now; return that instant."""
    until = datetime.now(UTC)
    months = DAYS // 28 + 2
    await database.execute(
        "SELECT call_logs_make_partitions(%s, %s)",
        ((until - timedelta(days=DAYS)).date(), months),
    )
    await database.execute(SQL["accounts"])
    for first in range(1, rows + 1, BATCH_ROWS):
        last = min(rows, first + BATCH_ROWS - 1)
        await database.execute(
            SQL["rows"],
            {"first": first, "last": last, "total": rows, "days": DAYS, "until": until},
        )
        if last % 1_000_000 == 0 or last == rows:
            print(f"{last} rows", flush=True)
    await database.execute("VACUUM (ANALYZE) call_logs")
    await database.execute("VACUUM (ANALYZE) call_log_rollups")
    return until
