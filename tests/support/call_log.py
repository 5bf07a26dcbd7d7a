"""Rows of the call log as plain Python, written straight into the table."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from actors.store.database import Database


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row; `id` is what the database gave it, the request id is `number`."""

    number: int
    created_at: datetime
    account_id: str
    key_id: str
    model: str = "m"
    status: str = "success"
    unit_type: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    cost_nano_usd: int = 0
    input_tokens: int = 0
    task_id: str | None = None
    attribution: Mapping[str, Any] | None = None
    id: int = 0

    @property
    def request_id(self) -> UUID:
        return UUID(int=self.number)


async def write_rows(database: Database, rows: Iterable[Row]) -> list[Row]:
    """Write these rows, and return them with their ids.

    Twice as many tokens come out as go in, half of which were cached; a piece is two units.
    """
    rows = list(rows)
    written = [
        {**asdict(row), "created_at": row.created_at.isoformat(), "request_id": row.request_id.hex}
        for row in rows
    ]
    found = await database.fetch_all(
        "INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol,"
        " model, status, unit_type, unit_count, error_code, error_message, input_tokens,"
        " output_tokens, cached_tokens, cost_nano_usd, latency_ms, task_id, attribution)"
        " SELECT created_at, created_at, account_id, key_id, request_id, 'chat', model, status,"
        " unit_type, CASE WHEN unit_type IS NOT NULL THEN 2 END, error_code, error_message,"
        " input_tokens, 2 * input_tokens, input_tokens / 2, cost_nano_usd, 7, task_id,"
        " CASE json_typeof(attribution) WHEN 'object' THEN attribution END"
        " FROM json_to_recordset(%s) AS x(created_at timestamptz, account_id text, key_id text,"
        " request_id uuid, model text, status text, unit_type text, error_code text,"
        " error_message text, input_tokens bigint, cost_nano_usd bigint, task_id text,"
        " attribution json)"
        " RETURNING request_id::text, id",
        (json.dumps(written),),
    )
    ids = {UUID(request_id): row_id for request_id, row_id in found}
    return [replace(row, id=ids[row.request_id]) for row in rows]
