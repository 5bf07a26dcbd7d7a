"""Proves the ledger from the database: the invariants, each a query that must find nothing.

The same statements serve `gw ledger verify`, the property tests and the end of every load test
(contract §1). All of them read one snapshot, so a gateway may be serving meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.store.database import Database, Session
from actors.store.queries import load

SQL = load("actors.wallet", "verify.sql")
# Every row there is gets read: with ten million of them that is a minute, not a fault.
STATEMENT_SECONDS = 3600.0

# Invariant -> what the columns of a row that breaks it are.
INVARIANTS: Mapping[str, Sequence[str]] = {
    "balance_is_sum_of_entries": (
        "account",
        "balance_nano_usd",
        "held_nano_usd",
        "entries_balance_nano_usd",
        "entries_held_nano_usd",
    ),
    "held_is_sum_of_holds": ("account", "held_nano_usd", "holds_nano_usd"),
    "key_spend_is_sum_of_entries": (
        "key",
        "spent_nano_usd",
        "held_nano_usd",
        "entries_spent_nano_usd",
        "entries_held_nano_usd",
    ),
    "entry_is_sound": ("entry", "kind", "call", "amount_nano_usd", "held_nano_usd"),
    "row_is_sound": ("call", "status", "cost_nano_usd"),
    "call_is_settled_once": ("call", "holds", "settlements", "corrections"),
    "correction_has_its_record": ("call", "entries_or_before_nano_usd", "record_or_after_nano_usd"),
    "hold_is_open_or_resolved": ("call", "is_open", "is_resolved"),
    "settlement_has_its_row": ("call", "entry_nano_usd", "row_nano_usd"),
    "dropped_months_add_up": ("entries_nano_usd", "dropped_nano_usd"),
    "rollup_is_sum_of_rows": (
        "account",
        "hours",
        "bucket",
        "model",
        "status",
        "requests",
        "rows",
        "cost_nano_usd",
        "rows_cost_nano_usd",
    ),
    "key_was_claimed_by_a_call": ("account", "idempotency_key", "call"),
    "kept_answer_is_settled": ("account", "idempotency_key", "call", "state"),
    "job_has_its_hold_and_its_poll": ("job", "state", "is_held", "is_the_jobs", "is_polled"),
    "job_agrees_with_its_row": (
        "job",
        "state",
        "error_code",
        "row_status",
        "row_error_code",
        "row_cost_nano_usd",
    ),
    "hold_has_a_live_call": ("call", "account", "amount_nano_usd", "age_seconds"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What was proved: how much there was, and every row where an invariant does not hold."""

    counts: Mapping[str, int]
    faults: Sequence[Mapping[str, Any]]

    @property
    def ok(self) -> bool:
        """Does every invariant hold?"""
        return not self.faults


# Not the money's own invariant but the receipts': it reads what each row keeps of its call.
COSTS: Mapping[str, Sequence[str]] = {
    "cost_is_price_times_counts": ("row", "call", "cost_nano_usd", "computed_nano_usd"),
}


async def verify(database: Database, *, with_costs: bool = False) -> VerifyReport:
    """Check every invariant against one snapshot of the database; each row's cost if asked."""
    invariants = {**INVARIANTS, **(COSTS if with_costs else {})}
    session = await database.session(statement_seconds=STATEMENT_SECONDS)
    try:
        async with session.transaction():
            await session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Each statement compares whole tables. Where they have not been counted yet, in a young
            # or a restored database, a loop in a loop looks cheap: minutes for 70,000 calls.
            await session.execute("SET LOCAL enable_nestloop = off")
            # A month that is dropped between two of the statements would look like missing rows.
            await session.execute(SQL["lock"])
            return await _report(session, invariants)
    finally:
        await session.close()


async def _report(session: Session, invariants: Mapping[str, Sequence[str]]) -> VerifyReport:
    (counts,) = await session.fetch_all(SQL["counts"])
    faults: list[Mapping[str, Any]] = []
    for invariant, columns in invariants.items():
        for row in await session.fetch_all(SQL[invariant]):
            faults.append({"invariant": invariant, **dict(zip(columns, row, strict=True))})
    names = ("accounts", "entries", "open_holds", "call_log_rows", "idempotency_keys")
    return VerifyReport(counts=dict(zip(names, counts, strict=True)), faults=faults)
