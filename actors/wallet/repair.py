"""Repairs a call log in which a call has several rows, which this gateway does not write.

One row stays: the one that the client received. The others are kept unchanged in
`call_log_corrections`, with operator and time, and if the remaining row has another cost than was
paid, the difference is an entry of kind `correction`. All this is one transaction, which locks
the accounts concerned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from actors.store.database import Database
from actors.store.queries import load
from actors.store.session import Session
from actors.wallet.verify import STATEMENT_SECONDS

SQL = load("actors.wallet", "repair.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """The columns of a call's row that decide which one stays."""

    id: int
    created_at: Any  # as the database returns it: it is only sent back
    status: str
    error_code: str | None
    cost_nano_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The repair of one call: this row stays, the others go, the difference is booked."""

    call_id: str
    account_id: str
    key_id: str
    paid_nano_usd: int
    stays: CallRow
    goes: Sequence[CallRow]

    @property
    def booked_nano_usd(self) -> int:
        """The amount credited to the account; negative, the amount it pays."""
        return self.paid_nano_usd - self.stays.cost_nano_usd


async def repair(
    database: Database,
    *,
    by: str,
    is_applied: bool,
    also: Callable[[Session, Sequence[Repair]], Awaitable[None]] | None = None,
) -> list[Repair]:
    """Plan the repairs, and apply them if requested; `by` names the operator.

    `also` runs in the same transaction if anything is repaired.

    Raises StoreError; then nothing was changed.
    """
    session = await database.session(statement_seconds=STATEMENT_SECONDS)
    try:
        async with session.transaction():
            if is_applied:
                # No checkpoint may be written meanwhile.
                await session.execute("LOCK TABLE checkpoint_sums IN SHARE UPDATE EXCLUSIVE MODE")
                await session.execute(SQL["lock"])
            found = await _plan(session)
            if is_applied:
                for one in found:
                    await _apply(session, one, by)
                if found:
                    await session.execute(SQL["carry"], ([one.call_id for one in found],))
                    if also is not None:
                        await also(session, found)
            return found
    finally:
        await session.close()


async def _plan(session: Session) -> list[Repair]:
    plans = []
    rows = await session.fetch_all(SQL["duplicates"])
    for (call_id, account_id, key_id, paid), of_call in groupby(rows, key=lambda row: row[:4]):
        stays, *goes = (
            CallRow(
                id=row_id, created_at=created_at, status=status, error_code=code, cost_nano_usd=cost
            )
            for *_, row_id, created_at, status, code, cost in of_call
        )
        plans.append(
            Repair(
                call_id=call_id,
                account_id=account_id,
                key_id=key_id,
                paid_nano_usd=paid,
                stays=stays,
                goes=goes,
            )
        )
    return plans


async def _apply(session: Session, one: Repair, by: str) -> None:
    call = {"call": one.call_id, "account": one.account_id, "key": one.key_id, "by": by}
    paid, booked = one.paid_nano_usd, one.booked_nano_usd or None
    for row in one.goes:
        # The first row books the money; the others continue from its cost.
        what = {"row": row.id, "created_at": row.created_at, "paid": paid, "booked": booked}
        await session.execute(SQL["take_out"], {**call, **what, "cost": one.stays.cost_nano_usd})
        paid, booked = one.stays.cost_nano_usd, None
    if one.booked_nano_usd:
        await session.execute(SQL["book"], {**call, "booked": one.booked_nano_usd})
