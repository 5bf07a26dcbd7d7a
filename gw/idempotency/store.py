"""Reads what is kept under idempotency keys and forgets what has expired.

Claims and their ends are written by the ledger alone, with the money (`actors/wallet/claims.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from actors.clock import Clock
from actors.store.database import Database
from actors.store.queries import load
from actors.store.waiting import in_time
from actors.wallet.claims import Claim, KeptResponse

SQL = load("gw.idempotency", "idempotency.sql")

FORGET_SECONDS = 60.0
# One statement stands between two heartbeats, and a response may be a megabyte.
FORGET_KEYS_MAX = 100


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response, and the call that it was given to."""

    call_id: UUID
    response: KeptResponse


class IdempotencyStore:
    """The keys of every account. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, account_id: str, claim: Claim) -> StoredResponse | None:
        """The response kept for this request; None when there is none, or no longer."""
        row = await in_time(
            self._database.fetch_one(SQL["answer"], (account_id, claim.key, claim.fingerprint))
        )
        if row is None:
            return None
        call_id, status, headers, body = row
        pairs = tuple((str(name), str(value)) for name, value in headers)
        return StoredResponse(
            UUID(call_id), KeptResponse(status=status, headers=pairs, body=bytes(body))
        )

    async def is_known(self, account_id: str, key: str) -> bool:
        """Is the key in use, whatever for?"""
        row = await in_time(self._database.fetch_one(SQL["is_known"], (account_id, key)))
        assert row is not None
        return bool(row[0])


class ExpiredKeys:
    """Forgets expired keys, some at a time: a chore of the heartbeat."""

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._next = 0.0

    async def forget(self) -> None:
        """Delete a few once a minute; while there are more, with every beat."""
        if self._clock.monotonic() < self._next:
            return
        gone = await self._database.execute(SQL["forget_expired"], (FORGET_KEYS_MAX,))
        if gone < FORGET_KEYS_MAX:
            self._next = self._clock.monotonic() + FORGET_SECONDS
