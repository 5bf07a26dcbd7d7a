"""The accounts of these tests, and one database and loop for all examples of a test."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from actors.store.database import Database
from tests.integration.driver import Driver
from tests.support.call_log import Row, write_rows

START = datetime(2026, 10, 30, 22, tzinfo=UTC)
NOW = START + timedelta(days=4, minutes=17, seconds=3)
ACCOUNTS = {"acct_a": ("key_a", "key_b"), "acct_z": ("key_z",)}
HOURS_APART = (0, 1, 2, 3, 26, 27, 50, 75, 95, 96)


async def make_keys(database: Database) -> None:
    """Both accounts with their keys."""
    for account, keys in ACCOUNTS.items():
        await database.execute("INSERT INTO accounts (id, name) VALUES (%s, 'n')", (account,))
        for key in keys:
            await database.execute(
                "INSERT INTO keys (id, account_id, name, kind, prefix, lookup_hash)"
                " VALUES (%s, %s, 'name of ' || %s, 'console', 'sk-platform-1234', %s)",
                (key, account, key, key.encode()),
            )


async def fill(database: Database, rows: Iterable[Row]) -> list[Row]:
    """Empty the log, write these rows, and return them with their ids."""
    await database.execute(
        "TRUNCATE call_logs, call_log_rollups, call_log_attributed, call_log_attributed_spans,"
        " call_log_attributed_built"
    )
    return await write_rows(database, rows)


class Table(Driver):
    """The call log of both accounts."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.run(make_keys(self.database))
