"""The ledger as functions: one batch applied, an account credited, a balance read.

All SQL that moves money is `ledger.sql` and the database function `ledger_batch`; who calls it,
when, and what happens when the database is away is the writer's business (`writer.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol
from uuid import UUID

import ujson

from actors.store.connection import Params, Row, StoreUnavailable
from actors.store.database import Database, Statements
from actors.store.queries import load
from actors.wallet.batch import Batch, parameters
from actors.wallet.messages import (
    CallFacts,
    ClaimState,
    RefusalReason,
    Settle,
    Void,
)

SQL = load("actors.wallet", "ledger.sql")
# Why each hold of a process is refused that was declared dead, or that no row of `processes` names.
BURIED = "buried"


class Executor(Protocol):
    """Anything that runs one statement: the pool, a transaction, the writer's own connection."""

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]: ...


class UnknownAccount(Exception):
    """No account has this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a batch did. A hold in neither `refused` nor `taken` (by its index) was granted.

    `corrected`: calls that recovery had settled, whose row and cost are now those of their true
    settlement; they are not among the `settled`. `is_buried`: others have declared the process
    dead, and none of the holds was looked at; of a batch with a number, nothing. `leases` is what
    the process leases of the batch's accounts now, in nano-USD, where that may have changed.
    """

    settled: frozenset[UUID]
    corrected: frozenset[UUID]
    is_buried: bool
    refused: dict[int, RefusalReason]
    taken: dict[int, ClaimState]  # its idempotency key was not free
    balances: dict[str, tuple[int, int]]  # account id -> balance, held, in nano-USD
    leases: dict[str, int] = field(default_factory=dict)


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


async def apply(
    session: Executor, process_id: str, batch: Batch, number: int | None = None
) -> Applied:
    """Apply a batch in one transaction; applying it again changes nothing (contract §3).

    One that has something leased comes with a number, other than that of the process's batch
    before; whether it was applied is then asked (`last_batch`) before it is sent again.

    Raises StoreUnavailable when the connection broke: the batch may or may not have committed.
    """
    settlements = _first_of_each_call(batch.settlements)
    arguments = parameters(process_id, number, settlements, batch)
    rows = await session.fetch_all(SQL["apply"], arguments)
    value = rows[0][0]
    found = ujson.loads(value) if isinstance(value, str) else value
    if found.get("buried"):
        nothing: frozenset[UUID] = frozenset()
        return Applied(
            settled=nothing, corrected=nothing, is_buried=True, refused={}, taken={}, balances={}
        )
    unsettled = {UUID(call_id) for call_id in found["unsettled"]}
    written = len(batch.admitted)
    refused = {seq - written: reason for seq, reason in found["refused"]}
    is_buried = BURIED in refused.values()  # the whole batch's holds, or none
    return Applied(
        settled=frozenset(s.facts.call_id for s in settlements) - unsettled,
        corrected=frozenset(map(UUID, found["corrected"])),
        is_buried=is_buried,
        refused={} if is_buried else refused,
        taken={seq - written: state for seq, state in found["taken"]},
        balances={account: (balance, held) for account, balance, held in found["accounts"]},
        leases=dict(found["leases"]),
    )


async def was_applied(session: Executor, process_id: str, number: int) -> bool:
    """Whether the last batch of a process that has a number is this one."""
    rows = await session.fetch_all(SQL["last_batch"], (process_id,))
    return bool(rows) and rows[0][0] == number


async def leases_of(
    session: Executor, process_id: str, account_ids: Sequence[str]
) -> dict[str, int]:
    """What a process leases of these accounts, in nano-USD."""
    rows = await session.fetch_all(SQL["leases_of"], (process_id, list(account_ids)))
    return {**dict.fromkeys(account_ids, 0), **dict(rows)}


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
        made_id=call.get("made_id"),
    )


@dataclass(frozen=True, slots=True)
class HoldsSummary:
    """Open holds of processes, the age in seconds of the oldest; the last proof of the ledger.

    `lease_seconds`: since the last heartbeat of a process that leases something, at most.
    """

    open_count: int
    oldest_seconds: float
    lease_seconds: float
    proved_at: float  # Unix seconds; 0: never
    faults: int  # rows that were off then


async def read_holds_summary(database: Database) -> HoldsSummary:
    """State of the ledger between calls."""
    row = await database.fetch_one(SQL["holds_summary"])
    assert row is not None
    return HoldsSummary(*row)


async def record_proof(database: Statements, *, faults: int, report: str) -> None:
    """Remember for every gateway that the ledger was proved now, and how many rows were off.

    `report` is what was found, in JSON.
    """
    await database.execute(SQL["record_proof"], (faults, report))


async def last_proof(database: Statements) -> tuple[datetime, int, Any] | None:
    """When the ledger was proved last, how many rows were off, and what was found, if known."""
    row = await database.fetch_one(SQL["last_proof"])
    return None if row is None else (row[0], row[1], row[2])


def _first_of_each_call(settlements: Sequence[Settle | Void]) -> list[Settle | Void]:
    """A call that is settled twice within a batch would break the whole of it.

    What recovery makes of a call gives way to the call's own settlement.
    """
    first: dict[UUID, Settle | Void] = {}
    for settlement in settlements:
        found = first.setdefault(settlement.facts.call_id, settlement)
        if isinstance(found, Settle) and found.is_recovery:
            first[settlement.facts.call_id] = settlement
    return list(first.values())
