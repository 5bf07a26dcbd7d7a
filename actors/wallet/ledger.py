"""The ledger as functions: one batch applied, an account credited, a balance read.

All SQL that moves money is `ledger.sql` and the database function `ledger_apply`; who calls it,
when, and what happens when the database is away is the writer's business (`writer.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, Protocol
from uuid import UUID

import msgspec
import ujson

from actors.store.connection import Params, Row, StoreUnavailable
from actors.store.database import Database, Statements
from actors.store.queries import load
from actors.wallet.messages import (
    CallFacts,
    ClaimEnd,
    ClaimState,
    Free,
    Hold,
    NewJob,
    Outcome,
    Record,
    RefusalReason,
    Settle,
    Void,
    claim_to_json,
    end_to_json,
    instant,
)
from channels.families import UNIT_TYPES

# A batch as the parameters of `actors/store/functions/ledger_apply.sql`.
#
# What every call has goes as rows of a composite type, which PostgreSQL reads in a quarter of the
# time of JSON objects; what has a form of its own as JSON, one array for the batch. Everything here
# must be storable, whatever a client or an upstream has put into it: one text that PostgreSQL
# refuses would refuse the batch.

_BIGINT_MAX = 2**63 - 1
# What became of a job whose hold was granted when its client had left.
NOT_SUBMITTED = "not_submitted"
# Of the ids and names that are made ready once; of others the oldest is forgotten.
NAMES_KEPT = 4096
# Text that stands for itself in a row and in an array.
_is_plain = re.compile(r"[A-Za-z0-9_.:/@+-]+").fullmatch


def parameters(
    process_id: str,
    settlements: Sequence[Settle | Void],
    holds: Sequence[Hold],
    records: Sequence[Record],
) -> tuple[str | None, ...]:
    """What `ledger.sql` hands to `ledger_apply`, in its order."""
    unusual = _unusual(settlements, holds)
    return (
        process_id,
        _rows(_accounts(settlements, holds, records)),
        _rows(keys) if (keys := _capped_keys(settlements, holds)) else None,
        _rows(map(_settlement, settlements)) if settlements else None,
        to_json([_detail(settle) for settle in settlements]) if settlements else None,
        _rows(map(_hold, range(len(holds)), holds)) if holds else None,
        to_json([_call(hold) for hold in holds]) if holds else None,
        to_json([_record(record) for record in records]) if records else None,
        to_json(unusual) if unusual is not None else None,
    )


def to_json(items: Any) -> str:
    """JSON that PostgreSQL takes: it refuses NUL and lone surrogates wherever they stand."""
    try:
        text = msgspec.json.encode(items).decode()
    except (
        UnicodeEncodeError,
        OverflowError,
    ):  # half a character; an integer past 64 bits
        return str(ujson.dumps(clean_json(items), escape_forward_slashes=False))
    if "\\u0000" in text:
        return str(ujson.dumps(clean_json(items), escape_forward_slashes=False))
    return text


def clean_json(value: Any) -> Any:
    """The value with every text in it made storable."""
    if isinstance(value, str):
        return clean_text(value, len(value))
    if isinstance(value, Mapping):
        return {clean_json(name): clean_json(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [clean_json(item) for item in value]
    return value


# Rows: an array of them, the values of each in the order of its type; nothing stands for null.


def _rows(rows: Iterable[str]) -> str:
    return "{" + ",".join([f'"({row})"' for row in rows]) + "}"


def _value(text: str | None) -> str:
    if text is None:
        return ""
    if _is_plain(text):
        return text
    # In quotes within the row, which is in quotes itself.
    return _escaped(f'"{_escaped(text)}"')


# An id or a name of the configuration's: the same few come again and again.
_name = lru_cache(NAMES_KEPT)(_value)


@lru_cache(NAMES_KEPT)
def _model(name: str) -> str | None:
    """The name of a configured model, storable."""
    return clean_text(name, 200)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _accounts(
    settlements: Sequence[Settle | Void],
    holds: Sequence[Hold],
    records: Sequence[Record],
) -> list[str]:
    """Every account of the batch, and what the batch may take from it at most."""
    needed = {record.facts.account_id: 0 for record in records}
    for settle in settlements:
        account_id = settle.facts.account_id
        needed[account_id] = needed.get(account_id, 0) + _cost(settle)
    for hold in holds:
        account_id = hold.facts.account_id
        needed[account_id] = needed.get(account_id, 0) + hold.amount_nano_usd
    return [f"{_value(name)},{min(amount, _BIGINT_MAX)}" for name, amount in needed.items()]


def _capped_keys(settlements: Sequence[Settle | Void], holds: Sequence[Hold]) -> list[str]:
    """Every key with a spend cap; of two caps, between which it was changed, the lower."""
    caps: dict[str, int] = {}
    for hold in holds:
        if (cap := hold.cap_nano_usd) is not None:
            caps[hold.facts.key_id] = min(cap, caps.get(hold.facts.key_id, cap))
    if not caps:
        return []
    needed = dict.fromkeys(caps, 0)
    for key_id, amount in (
        *((settle.facts.key_id, _cost(settle)) for settle in settlements),
        *((hold.facts.key_id, hold.amount_nano_usd) for hold in holds),
    ):
        if key_id in needed:
            needed[key_id] += amount
    return [
        f"{_value(name)},{min(amount, _BIGINT_MAX)},{caps[name]}" for name, amount in needed.items()
    ]


def _cost(settle: Settle | Void) -> int:
    return 0 if isinstance(settle, Void) else settle.outcome.cost_nano_usd


def _settlement(settle: Settle | Void) -> str:
    facts = settle.facts
    if isinstance(settle, Void):
        return f"{facts.call_id.hex},0,,,,,,,,,,,"
    outcome = settle.outcome
    assert outcome.cost_nano_usd >= 0
    if (
        outcome.status == "success"
        and not (outcome.attempts or facts.job_id or facts.made_id)
        and facts.protocol not in UNIT_TYPES
    ):
        cost = outcome.upstream_cost_nano_usd
        rare = f'\\"[{"null" if cost is None else cost}{_channel(outcome.channel_id)}'
    else:
        rare = _value(_rare(facts, outcome))
    return (
        f"{facts.call_id.hex},{outcome.cost_nano_usd},{outcome.created_at!r},{facts.submitted_at!r},"
        f"{_name(facts.protocol)},{_name(_model(facts.model))},{outcome.status},"
        f"{outcome.input_tokens},{outcome.output_tokens},{outcome.cached_tokens},{outcome.latency_ms},"
        f"{'f' if outcome.detail is None else 't'},{rare}"
    )


@lru_cache(NAMES_KEPT)
def _channel(name: str | None) -> str:
    """The end of the array of a cost and its channel, as it stands within a row."""
    rest = to_json([name])[1:]
    return _escaped(f',{_escaped(rest)}"')


def _rare(facts: CallFacts, outcome: Outcome) -> str:
    """The columns that a successful call billed by tokens leaves empty, and what the call cost the
    operator, at which channel: an array, which stands alone where there is nothing else (above).
    """
    unit_type = UNIT_TYPES.get(facts.protocol)
    bought = [outcome.upstream_cost_nano_usd, outcome.channel_id]
    rare = {
        "error_code": clean_text(outcome.error_code, 100),
        "error_message": clean_text(outcome.error_message),
        "unit_count": outcome.units if unit_type else None,
        "unit_type": unit_type,
        "task_id": facts.job_id or facts.made_id,
        "result_urls": list(outcome.result_urls) or None,
        "result_expires_at": outcome.result_expires_at,
        "attempts": list(outcome.attempts) or None,
        "bought": bought,
    }
    return to_json({name: value for name, value in rare.items() if value is not None})


def _detail(settle: Settle | Void) -> Mapping[str, Any] | None:
    return None if isinstance(settle, Void) else settle.outcome.detail


def _hold(seq: int, hold: Hold) -> str:
    facts, cap = hold.facts, hold.cap_nano_usd
    return (
        f"{seq},{facts.call_id.hex},{_name(facts.account_id)},{_name(facts.key_id)},"
        f"{hold.amount_nano_usd},{'' if cap is None else cap}"
    )


def _call(hold: Hold) -> dict[str, Any]:
    """What a hold keeps of its call, for the row that recovery may have to write."""
    facts = hold.facts
    kept = {
        "protocol": facts.protocol,
        "model": _model(facts.model),
        "submitted_at": facts.submitted_at,
        "detail": hold.detail,
    }
    return kept if facts.made_id is None else {**kept, "made_id": facts.made_id}


def _unusual(
    settlements: Sequence[Settle | Void], holds: Sequence[Hold]
) -> dict[str, list[Any]] | None:
    """Idempotency keys, which settlements are recovery's, and what calls begin; None: nothing."""
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
    recovered = [
        s.facts.call_id.hex for s in settlements if isinstance(s, Settle) and s.is_recovery
    ]
    jobs = [_begun(seq, hold, hold.job) for seq, hold in enumerate(holds) if hold.job is not None]
    found: dict[str, list[Any]] = {
        "wanted": wanted,
        "ended": ended,
        "recovered": recovered,
        "jobs": jobs,
    }
    return {name: values for name, values in found.items() if values} or None


def _begun(seq: int, hold: Hold, job: NewJob) -> dict[str, Any]:
    facts = hold.facts
    return {
        "seq": seq,
        "id": facts.job_id,
        "call_id": facts.call_id.hex,
        "account_id": facts.account_id,
        "key_id": facts.key_id,
        "kind": job.kind,
        "protocol": facts.protocol,
        "model": clean_text(facts.model, 200),
        "request": job.request,
        "billing": {"price": job.price, "quantity": job.quantity, "held": job.held},
        "submitted_at": facts.submitted_at,
        "deadline": job.deadline_seconds,
    }


def ended_jobs(settlements: Sequence[Settle | Void]) -> str | None:
    """How the jobs of these calls end, for `ledger_apply_jobs`; None: none of them has one."""
    ended = [_ended(settlement) for settlement in settlements if settlement.facts.job_id]
    return to_json(ended) if ended else None


def _ended(settlement: Settle | Void) -> dict[str, Any]:
    facts = settlement.facts
    values: dict[str, Any] = {"id": facts.job_id, "call_id": facts.call_id.hex, "state": "failed"}
    if isinstance(settlement, Void):
        return {**values, "error_code": NOT_SUBMITTED}
    outcome, end = settlement.outcome, settlement.job_end
    values |= {
        "ended_at": outcome.created_at,
        "error_code": clean_text(outcome.error_code, 100),
        "error_message": clean_text(outcome.error_message),
    }
    if end is not None:
        values |= {
            "state": end.state,
            "progress": end.progress,
            "result": end.result,
            "ended_by": end.by,
        }
    return values


def _claim_end(settlement: Settle | Void) -> ClaimEnd:
    if isinstance(settlement, Void):
        return Free() if settlement.has_claim else None
    return settlement.claim_end


def _record(record: Record) -> dict[str, Any]:
    facts, outcome = record.facts, record.outcome
    unit_type = UNIT_TYPES.get(facts.protocol)
    return {
        "account_id": facts.account_id,
        "key_id": facts.key_id,
        "request_id": facts.call_id.hex,
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
        made_id=call.get("made_id"),
    )


@dataclass(frozen=True, slots=True)
class HoldsSummary:
    """Open holds of processes, the age in seconds of the oldest; the last proof of the ledger."""

    open_count: int
    oldest_seconds: float
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


def clean_text(text: str | None, limit: int = 2000) -> str | None:
    """Make text storable: PostgreSQL takes neither NUL nor lone surrogates."""
    if text is None:
        return None
    cleaned = text[:limit].replace("\x00", "")
    return cleaned if cleaned.isascii() else cleaned.encode("utf-8", "replace").decode()
