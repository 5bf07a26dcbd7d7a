"""Rows of the call log as plain Python, written straight into the table; the model of the tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from actors.store.database import Database

START = datetime(2026, 10, 30, 22, tzinfo=UTC)
NOW = START + timedelta(days=4, minutes=17, seconds=3)
ACCOUNTS = {"acct_a": ("key_a", "key_b"), "acct_z": ("key_z",)}
HOURS_APART = (0, 1, 2, 3, 26, 27, 50, 75, 95, 96)


@dataclass(frozen=True)
class Row:
    """One row; `id` is what the database gave it."""

    number: int
    created_at: datetime
    key_id: str
    model: str
    status: str
    unit_type: str | None
    error_code: str | None
    cost_nano_usd: int
    input_tokens: int
    task_id: str | None = None
    id: int = 0

    @property
    def account_id(self) -> str:
        return next(account for account, keys in ACCOUNTS.items() if self.key_id in keys)

    @property
    def request_id(self) -> UUID:
        return UUID(int=self.number)


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
    await database.execute("TRUNCATE call_logs, call_log_rollups")
    written = [
        {
            **asdict(row),
            "created_at": row.created_at.isoformat(),
            "request_id": row.request_id.hex,
            "account_id": row.account_id,
        }
        for row in rows
    ]
    found = await database.fetch_all(
        "INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol,"
        " model, status, unit_type, unit_count, error_code, error_message, input_tokens,"
        " output_tokens, cached_tokens, cost_nano_usd, latency_ms, task_id)"
        " SELECT created_at, created_at, account_id, key_id, request_id, 'chat', model, status,"
        " unit_type, CASE WHEN unit_type IS NOT NULL THEN 2 END, error_code, error_code,"
        " input_tokens, 2 * input_tokens, input_tokens / 2, cost_nano_usd, 7, task_id"
        " FROM json_to_recordset(%s) AS x(created_at timestamptz, account_id text, key_id text,"
        " request_id uuid, model text, status text, unit_type text, error_code text,"
        " input_tokens bigint, cost_nano_usd bigint, task_id text) RETURNING request_id::text, id",
        (json.dumps(written),),
    )
    ids = {UUID(request_id): row_id for request_id, row_id in found}
    return [replace(row, id=ids[row.request_id]) for row in rows]


class Table:
    """One database and one loop for all examples."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.database = Database(url, size=1)
        self.run(make_keys(self.database))

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def close(self) -> None:
        self.run(self.database.close())
        self.runner.close()
