"""python -m loadtests.logs: fill a database with rows and explain what the call log asks of it.

    python -m loadtests.logs FOLDER [--rows 11200000] [--plans FILE] [--pages]

A PostgreSQL of its own with the gateway's settings runs in FOLDER, which is filled when it is
empty and used as it is otherwise. Nine rows in ten are of the account that is asked about; the
default makes ten million of those, and wants 15 GB. Prints milliseconds of database
time, planning included; FILE gets the plans. With `--pages` every page of the console is opened
over it, and its time, CPU and size are printed.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from actors.store.database import Database
from actors.store.embedded.cluster import EmbeddedPostgres
from actors.store.schema import migrate
from loadtests.logs.fill import fill
from loadtests.logs.pages import time_pages
from loadtests.logs.plans import explain

# Only for the filling: fewer checkpoints.
SETTINGS = {"max_wal_size": "8GB"}


def main() -> None:
    """Fill if need be, explain, print."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.logs")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=11_200_000)
    parser.add_argument("--plans", type=Path)
    parser.add_argument("--pages", action="store_true")
    options = parser.parse_args()
    asyncio.run(_run(options))
    if options.pages:
        time_pages(options.folder)


async def _run(options: argparse.Namespace) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    embedded = EmbeddedPostgres(options.folder, settings=SETTINGS)
    url = await embedded.start()
    try:
        async with Database(url, size=1, statement_seconds=600.0) as database:
            await migrate(database)
            found = await database.fetch_one("SELECT max(created_at) FROM call_logs")
            until = found[0] if found is not None else None
            if until is None:
                until = await fill(database, options.rows)
            answers = await explain(database, until)
    finally:
        await embedded.stop()
    print(f"{'asked for':40} {'first ms':>9} {'then ms':>9}")
    for name, (times, _) in answers.items():
        print(f"{name:40} {times[0]:9.1f} {min(times[1:]):9.1f}")
    if options.plans is not None:
        text = "\n\n".join(f"## {name}\n\n" + "\n\n".join(p) for name, (_, p) in answers.items())
        options.plans.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
