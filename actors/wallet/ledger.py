"""The ledger as functions: credit an account, read a balance, take over a session.

All SQL that moves money is `ledger.sql` and the database function `ledger_batch`, called with a
batch (`batch.py`); the writer decides when, and handles an unreachable database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import ujson

from actors.store.connection import Executor
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.store.queries import load
from actors.store.session import Statements
from actors.wallet.attribution import attribution_of
from actors.wallet.messages import CallFacts
from actors.wallet.money import MAX_NANO_USD

SQL = load("actors.wallet", "ledger.sql")
EntryWithoutCall: TypeAlias = Literal["topup", "trial", "correction"]


# A balance is at most this much, either way: the column holds more, and calls may still be booked.
BALANCE_MAX_NANO_USD = 2 * MAX_NANO_USD


class UnknownAccount(Exception):
    """No account has this id."""


class BalanceOutOfRange(Exception):
    """The account's balance would be beyond what the ledger holds."""


async def take_over(session: Executor, process_id: str) -> None:
    """Make `session` the only writer of this process, before its first batch.

    After a freeze, a server may still run a batch in an abandoned session, which could be applied
    after later ones. Raises StoreUnavailable until that session has ended.
    """
    for _ in range(2):  # one that has just ended by itself cannot be ended, and is gone next time
        ended = await session.fetch_all(SQL["take_over"], {"name": f"gw ledger {process_id}"})
        if all(has_ended for (has_ended,) in ended):
            return
    raise StoreUnavailable("an earlier session of the ledger has not ended yet")


async def was_applied(session: Executor, process_id: str, number: int) -> bool:
    """Whether the last batch of a process that has a number is this one."""
    rows = await session.fetch_all(SQL["last_batch"], (process_id,))
    return bool(rows) and rows[0][0] == number


@dataclass(frozen=True, slots=True)
class LeasesOfProcess:
    """What a process leases of some accounts, in nano-USD, and of their nodes (`NodeRow`).

    `called` are the accounts whose leases are called back. `versions` are those of the nodes, and
    whether runs have ceilings.
    """

    amounts: dict[str, int]
    called: Sequence[str]
    versions: dict[str, tuple[int, bool]]
    nodes: list[list[Any]]


async def leases_of(
    session: Executor, process_id: str, account_ids: Sequence[str]
) -> LeasesOfProcess:
    """Return the leases of a process on these accounts."""
    values = {"process": process_id, "accounts": list(account_ids)}
    rows = await session.fetch_all(SQL["leases_of"], values)
    ((nodes,),) = await session.fetch_all(SQL["node_leases_of"], values)
    return LeasesOfProcess(
        amounts={**dict.fromkeys(account_ids, 0), **{row[0]: row[1] for row in rows}},
        called=[name for name, _, is_called, *_ in rows if is_called],
        versions={name: (version, has_runs) for name, _, _, version, has_runs in rows},
        nodes=ujson.loads(nodes),
    )


async def top_up(
    database: Executor,
    account_id: str,
    amount_nano_usd: int,
    *,
    kind: Literal["topup", "trial"] = "topup",
) -> int:
    """Credit an account and return its new balance in nano-USD.

    Raises UnknownAccount, BalanceOutOfRange.
    """
    assert amount_nano_usd > 0
    return await _book(database, account_id, amount_nano_usd, kind)


async def correct(database: Executor, account_id: str, amount_nano_usd: int) -> int:
    """Book an operator's correction, either way, and return the new balance in nano-USD.

    Raises UnknownAccount, BalanceOutOfRange.
    """
    assert amount_nano_usd
    return await _book(database, account_id, amount_nano_usd, "correction")


async def _book(
    database: Executor, account_id: str, amount_nano_usd: int, kind: EntryWithoutCall
) -> int:
    values = {
        "account": account_id,
        "amount": amount_nano_usd,
        "kind": kind,
        "most": BALANCE_MAX_NANO_USD,
    }
    rows = await database.fetch_all(SQL["book"], values)
    if not rows:
        raise UnknownAccount(account_id)
    if rows[0][0] is None:
        raise BalanceOutOfRange(account_id)
    return int(rows[0][0])


async def read_balance(database: Database, account_id: str) -> tuple[int, int] | None:
    """Return balance and held of an account in nano-USD, or None if it does not exist."""
    row = await database.fetch_one(SQL["balance"], (account_id,))
    return (int(row[0]), int(row[1])) if row else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """An account's money and one key's part of it, in nano-USD."""

    balance_nano_usd: int
    held_nano_usd: int
    key_spent_nano_usd: int
    key_held_nano_usd: int


async def read_spending(database: Database, *, account_id: str, key_id: str) -> Spending:
    """Read the data of the balance endpoint. Raises UnknownAccount."""
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
    """Return the facts in an open hold; `call` is its column of that name."""
    return CallFacts(
        call_id=UUID(call_id),
        account_id=account_id,
        key_id=key_id,
        protocol=call["protocol"],
        model=call["model"],
        submitted_at=call["submitted_at"],
        job_id=job_id,
        made_id=call.get("made_id"),
        attribution=attribution_of(call.get("attribution")),
    )


@dataclass(frozen=True, slots=True)
class HoldsSummary:
    """Open holds of processes, the age in seconds of the oldest; the last proof of the ledger.

    `lease_seconds`: the longest time since the last heartbeat of a process with a lease.
    """

    open_count: int
    oldest_seconds: float
    lease_seconds: float
    proved_at: float  # Unix seconds; 0: never
    faults: int  # rows with faults
    quarantined: int  # messages that the ledger refused and nobody has booked
    overshoot_nano_usd: int  # by which a node's sum has passed its limit


async def read_holds_summary(database: Database) -> HoldsSummary:
    """Read the open holds and the last proof."""
    row = await database.fetch_one(SQL["holds_summary"])
    assert row is not None
    return HoldsSummary(*row)


async def record_proof(database: Statements, *, faults: int, report: str) -> None:
    """Record for every gateway that the ledger was proved now, with the number of faulty rows.

    `report` has the faults, in JSON.
    """
    await database.execute(SQL["record_proof"], (faults, report))


async def last_proof(database: Statements) -> tuple[datetime, int, Any] | None:
    """Return the time of the last proof, its number of faulty rows, and the faults, if known."""
    row = await database.fetch_one(SQL["last_proof"])
    return None if row is None else (row[0], row[1], row[2])
