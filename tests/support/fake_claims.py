"""The in-memory twin of the table of idempotency keys, for the fake ledger.

Its time is a number that tests advance; on PostgreSQL they make the rows older instead.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

CLAIM_SECONDS = 600.0
KEEP_SECONDS = 7 * 86400.0


@dataclass
class ClaimRow:
    """One key of an account."""

    call_id: UUID
    fingerprint: str
    expires_at: float
    state: str = "executing"
    status: int | None = None
    headers: list[list[str]] | None = None
    body: bytes | None = None


@dataclass
class FakeClaims:
    """The rows by account and key."""

    now: float = 0.0
    rows: dict[tuple[str, str], ClaimRow] = field(default_factory=dict)

    def standing(self, want: Mapping[str, Any], *, open_calls: set[UUID]) -> str | None:
        row = self.rows.get((want["account_id"], want["key"]))
        if row is None:
            return None
        is_under_way = row.state == "executing" and row.call_id in open_calls
        if row.expires_at <= self.now and not is_under_way:
            return None
        if row.state == "executing":
            return "in_flight"
        return row.state if row.fingerprint == want["fingerprint"] else "reuse"

    def claim(self, want: Mapping[str, Any]) -> None:
        call_id, place = UUID(want["call_id"]), (want["account_id"], want["key"])
        if place in self.rows and self.rows[place].call_id == call_id:
            return  # the batch was sent again
        self.rows[place] = ClaimRow(call_id, want["fingerprint"], self.now + CLAIM_SECONDS)

    def end(self, end: Mapping[str, Any]) -> None:
        for place, row in list(self.rows.items()):
            if row.call_id != UUID(end["call_id"]) or row.state != "executing":
                continue
            if end["state"] == "free":
                del self.rows[place]
                continue
            row.state, row.expires_at = end["state"], self.now + KEEP_SECONDS
            row.status, row.headers = end.get("status"), end.get("headers")
            body = end.get("body")
            row.body = base64.b64decode(body) if body is not None else None
