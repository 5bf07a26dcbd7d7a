"""An operator's verification of the ledger: one at a time for requests.

The invariants are in `actors/wallet/verify.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.session import Session
from actors.wallet.ledger import last_proof, record_proof
from actors.wallet.storable import to_json
from actors.wallet.verify import STATEMENT_SECONDS, VerifyReport, verify
from gw.admin import audit
from gw.admin.audit import SQL, Actor
from gw.nouns.refused import Refused
from gw.nouns.values import Instant
from metrics.logs import EventLog

# How long the response to a request waits for the end of a verification; most are shorter.
WAIT_SECONDS = 10.0
# The rows with faults that are stored and shown.
FAULTS_SHOWN = 100
# An arbitrary number, unique among the users of the database.
LOCK_KEY = 0x67775F70726F6F66


class ProofView(Struct, frozen=True):
    """A verification of the ledger. `faults`: the number of faulty rows; `rows`: the first ones.

    `counts`, `rows` and the rest are null for a verification by an earlier program.
    """

    proved_at: Instant
    ok: bool
    faults: int
    rows: list[dict[str, Any]] | None
    counts: dict[str, int] | None
    since: str | None
    sealed: list[str] | None
    seconds: float | None
    proved_by: str | None


class ProofState(Struct, frozen=True):
    """Whether a verification runs in any process, and the result of the last one."""

    is_running: bool
    last: ProofView | None


async def prove(
    database: Database, actor: Actor, *, with_costs: bool = False, is_everything: bool = False
) -> VerifyReport:
    """Verify the ledger, and store the result for every process. Raises StoreError."""
    began = time.monotonic()
    report = await verify(database, with_costs=with_costs, is_everything=is_everything)
    found = {
        "rows": list(report.faults[:FAULTS_SHOWN]),
        "counts": report.counts,
        "since": report.since,
        "sealed": list(report.sealed),
        "seconds": round(time.monotonic() - began, 3),
        "proved_by": f"{actor.kind} {actor.name}",
    }
    async with database.transaction() as session:
        text = to_json(msgspec.to_builtins(found, enc_hook=str))
        await record_proof(session, faults=len(report.faults), report=text)
        details = {"faults": len(report.faults), "with_costs": with_costs, "all": is_everything}
        await audit.note(session, actor, "ledger.verify", "ledger", details=details)
    return report


class LedgerProofs:
    """Runs verifications for requests, one at a time over all processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._running: asyncio.Task[StoreError | None] | None = None
        self._log = EventLog("gw.admin")

    def __repr__(self) -> str:
        return f"<LedgerProofs {'running' if self._running else 'idle'}>"

    async def state(self) -> ProofState:
        """Return whether one runs, and the last result. Raises StoreError."""
        rows = await self._database.fetch_all(SQL["proof_runs"], {"key": LOCK_KEY})
        return ProofState(bool(rows), _view(await last_proof(self._database)))

    async def run_proof(self, actor: Actor, *, with_costs: bool, is_everything: bool) -> ProofState:
        """Begin a verification and wait for its end for a while; it continues afterwards.

        Raises Refused while another one runs, StoreError.
        """
        session = await self._database.session(statement_seconds=STATEMENT_SECONDS)
        try:
            ((is_free,),) = await session.fetch_all(SQL["begin_proof"], {"key": LOCK_KEY})
        except BaseException:
            await session.close()
            raise
        if not is_free:
            await session.close()
            raise Refused("a proof of the ledger is running", "proof_running")
        options = {"with_costs": with_costs, "is_everything": is_everything}
        running = asyncio.create_task(self._run(session, actor, options))
        self._running = running
        done, _ = await asyncio.wait([running], timeout=WAIT_SECONDS)
        if done and (error := running.result()) is not None:
            raise error
        return await self.state()

    async def close(self) -> None:
        """Cancel a running verification."""
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(
        self, session: Session, actor: Actor, options: Mapping[str, bool]
    ) -> StoreError | None:
        """Verify in a session that holds the lock, which ends with this process."""
        try:
            await prove(self._database, actor, **options)
            return None
        except StoreError as error:
            self._log.warning("ledger_proof_failed", error=str(error))
            return error
        finally:
            await session.close()


def _view(found: tuple[Any, int, Any] | None) -> ProofView | None:
    if found is None:
        return None
    proved_at, faults, report = found
    known = report or dict.fromkeys(("rows", "counts", "since", "sealed", "seconds", "proved_by"))
    return ProofView(proved_at=proved_at, ok=not faults, faults=faults, **known)
