"""Reads the responses kept under idempotency keys, and deletes expired ones.

Claims and their ends are written only by the ledger, with the money
(`actors/wallet/messages.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from actors.clock import Clock
from actors.store.database import Database
from actors.store.queries import load
from actors.store.waits import in_time
from actors.wallet.claims import Claim, ClaimState, KeptResponse

SQL = load("gw.idempotency", "idempotency.sql")

KEPT_DAYS = 7  # reference 1.10; those of the admin API as long
FORGET_SECONDS = 60.0
# A statement for each table runs between two heartbeats, and a response may be a megabyte.
FORGET_KEYS_MAX = 100


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A kept response, and the call that received it."""

    call_id: UUID
    response: KeptResponse


class IdempotencyStore:
    """The keys of every account. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, account_id: str, claim: Claim) -> StoredResponse | None:
        """Return the response kept for this request, or None."""
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

    async def state(self, account_id: str, claim: Claim) -> ClaimState | None:
        """Return the state of a key for this request, as its hold would find it; None: free."""
        about = (account_id, claim.key, claim.fingerprint.hex())
        row = await in_time(self._database.fetch_one(SQL["state"], about))
        assert row is not None
        found: ClaimState | None = row[0]
        return found

    async def is_known(self, account_id: str, key: str) -> bool:
        """Whether the key is in use by any request."""
        row = await in_time(self._database.fetch_one(SQL["is_known"], (account_id, key)))
        assert row is not None
        return bool(row[0])


class ExpiredKeys:
    """Deletes expired keys of clients and of the admin API, as a chore of the heartbeat."""

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._next = 0.0

    async def forget(self) -> None:
        """Delete one batch of each a minute; with every beat while there are more."""
        if self._clock.monotonic() < self._next:
            return
        bounds = {"rows": FORGET_KEYS_MAX, "days": KEPT_DAYS}
        gone = await self._database.execute(SQL["forget_expired"], bounds)
        gone_of_admin = await self._database.execute(SQL["forget_expired_of_admin"], bounds)
        if max(gone, gone_of_admin) < FORGET_KEYS_MAX:
            self._next = self._clock.monotonic() + FORGET_SECONDS
