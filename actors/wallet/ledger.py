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

from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.claims import ClaimEnd, Free, Standing, claim_to_json, end_to_json
from actors.wallet.messages import (
    CallFacts,
    Hold,
    Outcome,
    Record,
    RefusalReason,
    Settle,
    Void,
    clean_text,
    instant,
)
from channels.registry import UNIT_TYPES

SQL = load("actors.wallet", "ledger.sql")


class Executor(Protocol):
    """Anything that runs one statement: the pool, a transaction, the writer's own connection."""

    async def fetch_all(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...


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
    """What a batch did. A hold in neither `refused` nor `taken` (by its place) was granted."""

    settled: frozenset[UUID]
    refused: dict[int, RefusalReason]
    taken: dict[int, Standing]  # its idempotency key was not free
    balances: dict[str, tuple[int, int]]  # account id -> balance, held, in nano-USD


async def apply(session: Executor, process_id: str, batch: Batch) -> Applied:
    """Apply a batch in one transaction; applying it again changes nothing (contract §3).

    Raises StoreUnavailable when the connection broke: the batch may or may not have committed.
    """
    settlements = _first_of_each_call(batch.settlements)
    claims = _claims(settlements, batch.holds)
    rows = await session.fetch_all(
        SQL["apply"],
        (
            process_id,
            _json([_settlement(s) for s in settlements]),
            _json([_hold(seq, hold) for seq, hold in enumerate(batch.holds)]),
            _json([_record(r) for r in batch.records]),
            _json(claims) if claims is not None else None,
        ),
    )
    answer = rows[0][0]
    found = ujson.loads(answer) if isinstance(answer, str) else answer
    return Applied(
        settled=frozenset(UUID(call_id) for call_id in found["settled"]),
        refused=dict(found["refused"]),
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
        {"account": account_id, "amount": amount_nano_usd, "kind": kind},  # type: ignore[arg-type]
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


async def read_holds_summary(database: Database) -> tuple[int, float]:
    """How many holds are open, and the age of the oldest in seconds."""
    row = await database.fetch_one(SQL["holds_summary"])
    assert row is not None
    return int(row[0]), float(row[1])


def _call(hold: Hold) -> dict[str, Any]:
    """What a hold keeps of its call, for the row that recovery may have to write."""
    facts = hold.facts
    return {
        "protocol": facts.protocol,
        "model": clean_text(facts.model, 200),
        "submitted_at": facts.submitted_at,
        "detail": hold.detail,
    }


def _first_of_each_call(settlements: Sequence[Settle | Void]) -> list[Settle | Void]:
    """A call that is settled twice within a batch would break the whole of it."""
    first: dict[UUID, Settle | Void] = {}
    for settlement in settlements:
        first.setdefault(settlement.facts.call_id, settlement)
    return list(first.values())


def _json(items: Any) -> str:
    text = str(ujson.dumps(items, escape_forward_slashes=False))
    if "\\u0000" in text or "\\ud" in text:
        # An emoji, or something that PostgreSQL refuses wherever it stands, and the batch with it.
        text = str(ujson.dumps(_cleaned(items), escape_forward_slashes=False))
    return text


def _cleaned(value: Any) -> Any:
    """The value with every text in it made storable."""
    if isinstance(value, str):
        return clean_text(value, len(value))
    if isinstance(value, Mapping):
        return {_cleaned(name): _cleaned(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_cleaned(item) for item in value]
    return value


def _hold(seq: int, hold: Hold) -> dict[str, Any]:
    return {
        "seq": seq,
        "call_id": hold.facts.call_id.hex,
        "account_id": hold.facts.account_id,
        "key_id": hold.facts.key_id,
        "amount": hold.amount_nano_usd,
        "cap": hold.cap_nano_usd,
        "call": _call(hold),
    }


def _claims(
    settlements: Sequence[Settle | Void], holds: Sequence[Hold]
) -> dict[str, list[dict[str, Any]]] | None:
    """What the batch says of idempotency keys; None, as nearly always, when it says nothing."""
    wanted = [
        {
            "seq": seq,
            "account_id": hold.facts.account_id,
            "call_id": hold.facts.call_id.hex,
            **claim_to_json(hold.claim),
        }
        for seq, hold in enumerate(holds)
        if hold.claim is not None
    ]
    ended = [
        {"call_id": settlement.facts.call_id.hex, **end_to_json(end)}
        for settlement in settlements
        if (end := _claim_end(settlement)) is not None
    ]
    return {"wanted": wanted, "ended": ended} if wanted or ended else None


def _claim_end(settlement: Settle | Void) -> ClaimEnd:
    if isinstance(settlement, Void):
        return Free() if settlement.has_claim else None
    return settlement.claim_end


def _row(facts: CallFacts, outcome: Outcome) -> dict[str, Any]:
    unit_type = UNIT_TYPES.get(facts.protocol)
    return {
        "account_id": facts.account_id,
        "protocol": facts.protocol,
        "model": clean_text(facts.model, 200),
        "submitted_at": instant(facts.submitted_at),
        "created_at": instant(outcome.created_at),
        "status": outcome.status,
        "error_code": clean_text(outcome.error_code, 100),
        "error_message": clean_text(outcome.error_message),
        "latency_ms": outcome.latency_ms,
        "unit_count": outcome.units if unit_type else None,
        "unit_type": unit_type,
        "detail": outcome.detail,
    }


def _settlement(settle: Settle | Void) -> dict[str, Any]:
    if isinstance(settle, Void):
        facts = settle.facts
        return {
            "account_id": facts.account_id,
            "call_id": facts.call_id.hex,
            "kind": "refund",
            "cost": 0,
        }
    outcome = settle.outcome
    assert outcome.cost_nano_usd >= 0
    row = _row(settle.facts, outcome)
    row.update(
        call_id=settle.facts.call_id.hex,
        # What was delivered free of charge is still a settlement; nothing delivered is a refund.
        kind="settle" if outcome.cost_nano_usd or outcome.status == "success" else "refund",
        cost=outcome.cost_nano_usd,
        input_tokens=outcome.input_tokens,
        output_tokens=outcome.output_tokens,
        cached_tokens=outcome.cached_tokens,
        task_id=outcome.task_id,
        result_urls=list(outcome.result_urls) or None,
        result_expires_at=(
            None if outcome.result_expires_at is None else instant(outcome.result_expires_at)
        ),
        attempts=list(outcome.attempts) or None,
    )
    return row


def _record(record: Record) -> dict[str, Any]:
    row = _row(record.facts, record.outcome)
    row.update(key_id=record.facts.key_id, request_id=record.facts.call_id.hex)
    return row
