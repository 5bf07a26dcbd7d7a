"""The ledger as functions: an account credited, a balance read, a session taken over.

All SQL that moves money is `ledger.sql` and the database function `ledger_batch`, which a batch
calls (`batch.py`); when, and what happens when the database is away, the writer decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from actors.store.connection import StoreUnavailable
from actors.store.database import Database, Statements
from actors.store.queries import load
from actors.wallet.batch import Executor
from actors.wallet.messages import CallFacts

SQL = load("actors.wallet", "ledger.sql")


class UnknownAccount(Exception):
    """No account has this id."""


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
