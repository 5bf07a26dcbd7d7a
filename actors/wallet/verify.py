"""Proves the ledger from the database: the invariants, each a query that must return no row.

The same statements serve `gw ledger verify`, the property tests and the end of every load test
(running.md: Proving the ledger). All of them read one snapshot, so a gateway may serve calls
meanwhile.

They start from a checkpoint, the last sealed month of entries, and use its sums and the entries
that it carries. A proof without faults seals the months that have ended since, in its own
transaction; a proof of everything starts from the first entries kept, and compares each checkpoint
with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from actors.store.database import Database
from actors.store.queries import load
from actors.store.session import Session

SQL = load("actors.wallet", "verify.sql")
# `--all` reads every row: with ten million of them that takes minutes.
STATEMENT_SECONDS = 3600.0
# Rows shown of those that violate an invariant, or what is wrong everywhere would fill the memory.
ROWS_MAX = 1000

_SUM = ("account", "budget", "subject", "period_from")
# Invariant -> the columns of a row that violates it.
INVARIANTS: Mapping[str, Sequence[str]] = {
    "balance_is_sum_of_entries": (
        "account",
        "balance_nano_usd",
        "held_nano_usd",
        "entries_balance_nano_usd",
        "entries_held_nano_usd",
    ),
    "held_is_sum_of_holds": ("account", "held_nano_usd", "holds_nano_usd"),
    "leased_is_sum_of_leases": ("account", "leased_nano_usd", "leases_nano_usd"),
    "budget_sum_is_sum_of_calls": (
        *_SUM,
        *("spent_nano_usd", "held_nano_usd", "excess_nano_usd"),
        *("calls_spent_nano_usd", "calls_held_nano_usd", "calls_excess_nano_usd"),
    ),
    "budget_is_not_passed": (
        *_SUM,
        *("spent_nano_usd", "held_nano_usd", "leased_nano_usd", "excess_nano_usd"),
        *("bound_nano_usd", "overshoot_nano_usd"),
    ),
    "budget_leased_is_sum_of_leases": (*_SUM, "leased_nano_usd", "leases_nano_usd", "orphans"),
    "runs_are_counted": ("account", "run_ceilings", "runs", "sums"),
    "lease_has_a_live_process": ("process", "account", "amount_nano_usd", "silent_seconds"),
    "key_spend_is_sum_of_entries": (
        "key",
        "spent_nano_usd",
        "held_nano_usd",
        "entries_spent_nano_usd",
        "entries_held_nano_usd",
    ),
    "key_has_its_spending": ("key", "account", "spending_of_account"),
    "entry_is_not_of_the_future": ("entry", "account", "kind", "amount_nano_usd", "created_at"),
    "trial_is_granted_once": ("account", "trials", "last_at"),
    "entry_is_sound": ("entry", "kind", "call", "amount_nano_usd", "held_nano_usd"),
    "row_is_sound": ("call", "status", "cost_nano_usd"),
    "row_is_as_written": ("row", "call", "account", "model", "status"),
    "call_is_settled_once": ("call", "holds", "settlements", "corrections"),
    "call_is_of_one_key": ("call", "what", "account", "key", "other_account", "other_key"),
    "call_releases_its_hold": ("call", "held_nano_usd", "released_nano_usd"),
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
    "attributed_is_sum_of_rows": (
        "account",
        "hours",
        "bucket",
        "what",
        "key",
        "requests",
        "rows",
        "cost_nano_usd",
        "rows_cost_nano_usd",
    ),
    "key_was_claimed_by_a_call": ("account", "idempotency_key", "call"),
    "kept_answer_is_settled": ("account", "idempotency_key", "call", "state"),
    "job_has_its_hold_and_its_poll": ("job", "state", "is_held", "is_the_jobs", "is_polled"),
    "poll_is_due": ("job", "due_at", "deadline_at", "deadline_of_job"),
    "job_agrees_with_its_row": (
        "job",
        "state",
        "error_code",
        "row_status",
        "row_error_code",
        "row_cost_nano_usd",
    ),
    "event_numbers_have_no_gap": ("purged", "last", "counted", "events", "first_kept", "last_kept"),
    "event_is_written_once": ("event", "times"),
    "task_has_its_event": ("job", "ended_at", "events"),
    "quarantine_is_booked": ("call", "account", "cost_nano_usd", "error", "quarantined_at"),
    "hold_has_a_live_call": ("call", "account", "amount_nano_usd", "age_seconds"),
}
# Checks of each sealed month that is kept, and of one that is about to be sealed.
CHECKPOINT: Mapping[str, Sequence[str]] = {
    "checkpoint_is_what_was_kept": (
        "ends_at",
        "account_or_month",
        "key_or_call",
        "checkpoint_entries_or_id",
        "entries_or_id",
        "checkpoint_nano_usd",
        "entries_nano_usd",
        "checkpoint_held_nano_usd",
        "entries_held_nano_usd",
    ),
}
SEALING: Mapping[str, Sequence[str]] = {
    "call_was_held_before": INVARIANTS["call_is_settled_once"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result of a proof: the counts, and every row that violates an invariant.

    `since`: the end of the month whose checkpoint the proof starts from, None without one; `counts`
    of entries and rows begin there. `sealed`: the ends of the months that it sealed.
    """

    counts: Mapping[str, int]
    faults: Sequence[Mapping[str, Any]]
    since: str | None = None
    sealed: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """Whether every invariant holds."""
        return not self.faults


# Not an invariant of the money but of receipts: it reads the details of each row.
COSTS: Mapping[str, Sequence[str]] = {
    "cost_is_price_times_counts": ("row", "call", "cost_nano_usd", "computed_nano_usd"),
}


# Precedes the first checkpoint.
NEVER = "-infinity"


@dataclass(frozen=True, slots=True)
class Month:
    """A month of entries; `ends_at` as the database formats it. `has_ended`: a day ago or more."""

    ends_at: str
    is_sealed: bool
    is_dropped: bool
    has_ended: bool


async def verify(
    database: Database, *, with_costs: bool = False, is_everything: bool = False
) -> VerifyReport:
    """Check every invariant against one snapshot of the database; each row's cost if requested.

    `is_everything`: from the first entry kept instead of the last checkpoint. Without faults, the
    months that ended a day ago or more are sealed.
    """
    invariants = {**INVARIANTS, **(COSTS if with_costs else {})}
    session = await database.session(statement_seconds=STATEMENT_SECONDS)
    try:
        ended = await session.fetch_all(SQL["ended"])
        async with session.transaction():
            await session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            # Each statement compares whole tables. Without statistics, in a new or restored
            # database, the planner prefers nested loops: minutes for 70,000 calls.
            await session.execute("SET LOCAL enable_nestloop = off")
            # A month dropped between two statements would look like missing rows.
            await session.execute(SQL["lock"])
            for (name,) in ended:
                # No transaction that writes into it is left; the snapshot is taken after them all.
                await session.execute(f"LOCK TABLE {name} IN SHARE MODE")
            months = [Month(*row) for row in await session.fetch_all(SQL["months"])]
            return await _prove(session, invariants, months, is_everything=is_everything)
    finally:
        await session.close()


async def _prove(
    session: Session,
    invariants: Mapping[str, Sequence[str]],
    months: Sequence[Month],
    *,
    is_everything: bool,
) -> VerifyReport:
    sealed = [month.ends_at for month in months if month.is_sealed]
    dropped = [month.ends_at for month in months if month.is_dropped]
    checkpoints = [NEVER, *(dropped if is_everything else sealed)]
    since = checkpoints[-1]
    (counts,) = await session.fetch_all(SQL["counts"], {"since": since})
    faults = await _faults(session, invariants, {"since": since})
    if is_everything:
        for before, ends in pairwise([NEVER, *sealed]):
            if ends not in dropped:
                faults += await _faults(session, CHECKPOINT, {"since": before, "ends": ends})
    written: list[str] = []
    if not faults:
        ended = [month.ends_at for month in months if month.has_ended and not month.is_sealed]
        written, faults = await _seal(session, ended, since=sealed[-1] if sealed else NEVER)
    names = (
        *("accounts", "entries", "open_holds", "leases", "call_log_rows", "idempotency_keys"),
        *("events", "budgets", "budget_sums"),
    )
    return VerifyReport(
        counts=dict(zip(names, counts, strict=True)),
        faults=faults,
        since=None if since == NEVER else since,
        sealed=written,
    )


async def _seal(
    session: Session, ended: Sequence[str], *, since: str
) -> tuple[list[str], list[Mapping[str, Any]]]:
    """Seal months in order until one has faults; return the ends sealed, and the faults."""
    written: list[str] = []
    for ends in ended:
        span = {"since": since, "ends": ends}
        if faults := await _faults(session, SEALING, span):
            return written, faults
        await session.execute(SQL["seal"], span)
        written.append(ends)
        since = ends
    return written, []


async def _faults(
    session: Session, invariants: Mapping[str, Sequence[str]], span: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    faults: list[Mapping[str, Any]] = []
    for invariant, columns in invariants.items():
        # Materialized, because a plan for the first rows alone reads slowly if there are none.
        found = f"WITH found AS MATERIALIZED ({SQL[invariant]})"
        for row in await session.fetch_all(f"{found} SELECT * FROM found LIMIT {ROWS_MAX}", span):
            faults.append({"invariant": invariant, **dict(zip(columns, row, strict=True))})
    return faults
