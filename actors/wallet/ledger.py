"""The ledger as functions: one batch applied, an account credited, a balance read.

All SQL that moves money is `ledger.sql` and the database function `ledger_apply`; who calls it,
when, and what happens when the database is away is the writer's business (`writer.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from uuid import UUID

import ujson

from actors.store.connection import Params, Row
from actors.store.database import Database, StoreUnavailable
from actors.store.queries import load
from actors.wallet.claims import ClaimState
from actors.wallet.messages import CallFacts, Hold, Record, RefusalReason, Settle, Void
from actors.wallet.parameters import ended_jobs, parameters

SQL = load("actors.wallet", "ledger.sql")
# Why each hold of a process is refused that was declared dead, or that no row of `processes` names.
BURIED = "buried"


class Executor(Protocol):
    """Anything that runs one statement: the pool, a transaction, the writer's own connection."""

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]: ...


class UnknownAccount(Exception):
    """No account has this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one transaction applies, in this order: settlements, holds, records."""

    settlements: Sequence[Settle | Void] = ()
    holds: Sequence[Hold] = ()
    records: Sequence[Record] = ()

    def __len__(self) -> int:
        return len(self.settlements) + len(self.holds) + len(self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a batch did. A hold in neither `refused` nor `taken` (by its index) was granted.

    `corrected`: calls that recovery had settled, whose row and cost are now those of their true
    settlement; they are not among the `settled`. `is_buried`: others have declared the process
    dead, and none of the holds was looked at.
    """

    settled: frozenset[UUID]
    corrected: frozenset[UUID]
    is_buried: bool
    refused: dict[int, RefusalReason]
    taken: dict[int, ClaimState]  # its idempotency key was not free
    balances: dict[str, tuple[int, int]]  # account id -> balance, held, in nano-USD


async def take_over(session: Executor, process_id: str) -> None:
    """Make `session` the one that writes for this process, before its first batch.

    A server that was frozen may still be running a batch in a session given up long ago; what is
    applied beside it could be overtaken by it. Raises StoreUnavailable while that goes on.
    """
    ended = await session.fetch_all(
        SQL["take_over"],
        {"name": f"gw ledger {process_id}"},
    )
    if not all(has_ended for (has_ended,) in ended):
        raise StoreUnavailable("an earlier session of the ledger has not ended yet")


async def apply(session: Executor, process_id: str, batch: Batch) -> Applied:
    """Apply a batch in one transaction; applying it again changes nothing (contract §3).

    Raises StoreUnavailable when the connection broke: the batch may or may not have committed.
    """
    settlements = _first_of_each_call(batch.settlements)
    arguments = parameters(process_id, settlements, batch.holds, batch.records)
    jobs = ended_jobs(settlements)
    if jobs is None:
        rows = await session.fetch_all(SQL["apply"], arguments)
    else:
        rows = await session.fetch_all(SQL["apply_jobs"], (jobs, *arguments))
    value = rows[0][0]
    found = ujson.loads(value) if isinstance(value, str) else value
    unsettled = {UUID(call_id) for call_id in found["unsettled"]}
    refused = dict(found["refused"])
    is_buried = BURIED in refused.values()  # the whole batch's holds, or none
    return Applied(
        settled=frozenset(s.facts.call_id for s in settlements) - unsettled,
        corrected=frozenset(map(UUID, found.get("corrected", ()))),
        is_buried=is_buried,
        refused={} if is_buried else refused,
        taken=dict(found["taken"]),
        balances={account: (balance, held) for account, balance, held in found["accounts"]},
    )


async def top_up(
    database: Executor,
    account_id: str,
    amount_nano_usd: int,
    *,
    kind: Literal["topup", "trial"] = "topup",
) -> int:
    """Credit an account and return its new balance in nano-USD. Raises UnknownAccount."""
    assert amount_nano_usd > 0
    rows = await database.fetch_all(
        SQL["top_up"],
        {"account": account_id, "amount": amount_nano_usd, "kind": kind},
    )
    if not rows:
        raise UnknownAccount(account_id)
    return int(rows[0][0])


async def read_balance(database: Database, account_id: str) -> tuple[int, int] | None:
    """Balance and held of an account in nano-USD, or None when there is no such account."""
    row = await database.fetch_one(SQL["balance"], (account_id,))
    return (int(row[0]), int(row[1])) if row else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """An account's money and one key's part in it, in nano-USD."""

    balance_nano_usd: int
    held_nano_usd: int
    key_spent_nano_usd: int
    key_held_nano_usd: int


async def read_spending(database: Database, *, account_id: str, key_id: str) -> Spending:
    """Read what the balance endpoint shows. Raises UnknownAccount."""
    row = await database.fetch_one(SQL["spending"], (account_id, key_id))
    if row is None:
        raise UnknownAccount(account_id)
    return Spending(
        balance_nano_usd=row[0],
        held_nano_usd=row[1],
        key_spent_nano_usd=row[2],
        key_held_nano_usd=row[3],
    )


def facts_of_hold(
    call_id: str, account_id: str, key_id: str, job_id: str | None, call: Mapping[str, Any]
) -> CallFacts:
    """What an open hold knows of its call; `call` is its column of that name."""
    return CallFacts(
        call_id=UUID(call_id),
        account_id=account_id,
        key_id=key_id,
        protocol=call["protocol"],
        model=call["model"],
        submitted_at=call["submitted_at"],
        job_id=job_id,
    )


@dataclass(frozen=True, slots=True)
class HoldsSummary:
    """Open holds of processes, the age in seconds of the oldest; the last proof of the ledger."""

    open_count: int
    oldest_seconds: float
    proved_at: float  # Unix seconds; 0: never
    faults: int  # rows that were off then


async def read_holds_summary(database: Database) -> HoldsSummary:
    """What the ledger says of itself between calls."""
    row = await database.fetch_one(SQL["holds_summary"])
    assert row is not None
    return HoldsSummary(*row)


async def record_proof(database: Database, *, faults: int) -> None:
    """Remember for every gateway that the ledger was proved now, and how many rows were off."""
    await database.execute(SQL["record_proof"], (faults,))


def _first_of_each_call(settlements: Sequence[Settle | Void]) -> list[Settle | Void]:
    """A call that is settled twice within a batch would break the whole of it.

    What recovery makes of a call gives way to what the call itself says.
    """
    first: dict[UUID, Settle | Void] = {}
    for settlement in settlements:
        found = first.setdefault(settlement.facts.call_id, settlement)
        if isinstance(found, Settle) and found.is_recovery:
            first[settlement.facts.call_id] = settlement
    return list(first.values())
