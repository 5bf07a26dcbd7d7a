"""One stored row of the call log, for its detail view and its receipt.

Clients see the detail view (`detail.py`); the operators' view is `gw/cli/receipt.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.receipt import Line, lines_of
from gw.api.logs.visibility import Visibility

SQL = load("gw.api.logs", "record.sql")
ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CallRecord:
    """The columns of `record.sql` in their order; `detail` is `gw/calls/observer.py`'s."""

    id: int
    created_at: datetime
    submitted_at: datetime
    account_id: str
    key_id: str
    key_name: str | None
    request_id: str
    protocol: str
    model: str
    status: str
    error_code: str | None
    error_message: str | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    unit_count: int | None
    unit_type: str | None
    cost_nano_usd: int
    latency_ms: int
    task_id: str | None
    attribution: Mapping[str, Any] | None
    attempts: Sequence[Mapping[str, Any]]
    detail: Mapping[str, Any]
    # The row before its call's true settlement; None if it was never corrected.
    corrected_at: datetime | None
    status_before: str | None
    cost_before_nano_usd: int | None

    @property
    def trace(self) -> str:
        """The trace id in the form of clients: 32 hex digits."""
        return UUID(self.request_id).hex

    @property
    def lines(self) -> list[Line]:
        """The charged lines, at the price used. Raises NoPrice."""
        return lines_of(
            self.detail,
            input_tokens=self.input_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
        )


async def find(
    database: Database, call_id: int, sight: Visibility | None = None
) -> CallRecord | None:
    """Return the row of an id if visible to its reader, else None; `sight` None sees every row."""
    account, key = (sight.account_id, sight.key_id) if sight is not None else (None, None)
    row = await database.fetch_one(SQL["by_id"], {"id": call_id, "account": account, "key": key})
    if row is None:
        return None
    *columns, attempts, detail = row[:-3]
    return CallRecord(*(*columns, attempts or (), detail or {}, *row[-3:]))


async def find_ref(database: Database, ref: int | UUID) -> CallRecord | None:
    """Return the row of an id or trace id, for an operator."""
    if isinstance(ref, UUID):
        found = await database.fetch_one(SQL["id_of_trace"], (str(ref),))
        return None if found is None else await find(database, found[0])
    return await find(database, ref)


def read_ref(text: str) -> int | UUID | None:
    """Return an id of a row, or a trace id; None for any other text."""
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text) if int(text) <= ID_MAX else None
    try:
        return UUID(text) if len(text) in (32, 36) else None
    except ValueError:
        return None
