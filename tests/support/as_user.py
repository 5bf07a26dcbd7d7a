"""Run one use of the embedded PostgreSQL as another user; a program for tests, not a module.

    python -m tests.support.as_user UID DATA_DIR

Starts the server, writes a row, stops it, and prints the row count, or the fault after "fault: ".
Everything is imported before the user is changed, because that user may not be able to read the
Python installation.
"""

import asyncio
import concurrent.futures.thread  # noqa: F401 - asyncio imports it late
import os
import sys
from pathlib import Path

from actors.store.database import Database
from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.postgres import EmbeddedPostgres


async def use(data_dir: Path) -> int:
    """Return how many rows the table has after one more was written."""
    embedded = EmbeddedPostgres(data_dir)
    url = await embedded.start()
    try:
        async with Database(url) as database:
            await database.execute("CREATE TABLE IF NOT EXISTS visits (at timestamptz)")
            await database.execute("INSERT INTO visits VALUES (now())")
            return len(await database.fetch_all("SELECT at FROM visits"))
    finally:
        await embedded.stop()


def main() -> None:
    """Become the user and do it."""
    uid, data_dir = int(sys.argv[1]), Path(sys.argv[2])
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    try:
        print(asyncio.run(use(data_dir)))
    except EmbeddedFault as fault:
        print(f"fault: {fault}")


if __name__ == "__main__":
    main()
