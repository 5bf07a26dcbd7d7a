"""A batch of the ledger: the messages that one transaction applies, by one call of `ledger_batch`.

What all calls have is sent as rows of a composite type, which PostgreSQL reads in a quarter of the
time of JSON objects; the rest as JSON, one array per batch. All text must be storable, whatever a
client or an upstream has sent: PostgreSQL would refuse the whole batch for one bad text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol
from uuid import UUID

import msgspec
import ujson

from actors.store.connection import Params, Row
from actors.store.queries import load
from actors.wallet.messages import (
    Admitted,
    Barrier,
    CallFacts,
    ClaimEnd,
    ClaimState,
    Free,
    Hold,
    LeaseChange,
    Message,
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

_BIGINT_MAX = 2**63 - 1
# Error code of a job whose hold was granted after its client had left.
NOT_SUBMITTED = "not_submitted"
# Size of the caches of escaped ids and names.
NAMES_KEPT = 4096
# Text that needs no quotes in a row or an array.
_is_plain = re.compile(r"[A-Za-z0-9_.:/@+-]+").fullmatch
# Refusal reason of every hold of a process that was declared dead or is missing in `processes`.
BURIED = "buried"
_APPLY = load("actors.wallet", "ledger.sql")["apply"]


class Executor(Protocol):
    """Executes one statement: the pool, a transaction, the writer's own connection."""

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The messages that one transaction applies: settlements, holds, records, leases, in order.

    `admitted` are holds granted in memory, which precede the requested ones.
    """

    settlements: Sequence[Settle | Void] = ()
    admitted: Sequence[Admitted] = ()
    holds: Sequence[Hold] = ()
    records: Sequence[Record] = ()
    changes: Sequence[LeaseChange] = ()

    def __len__(self) -> int:
        return sum(
            map(len, (self.settlements, self.admitted, self.holds, self.records, self.changes))
        )

    @property
    def has_leased(self) -> bool:
        """Whether it concerns leases, so that it must not be applied twice."""
        return bool(self.admitted or self.changes) or any(
            isinstance(one, Settle) and one.admitted is not None for one in self.settlements
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The results of a batch. Holds in neither `refused` nor `taken` (by index) were granted.

    `corrected`: calls that recovery had settled, whose row and cost now are those of their true
    settlement; they are not among the `settled`. `is_buried`: others have declared the process
    dead, so that its holds were refused unchecked, or, for a batch with a number, nothing was
    applied. `leases` is what the process now leases of the batch's accounts, in nano-USD, where
    that may have changed.
    """

    settled: frozenset[UUID]
    corrected: frozenset[UUID]
    is_buried: bool
    refused: dict[int, RefusalReason]
    taken: dict[int, ClaimState]  # its idempotency key was in use
    balances: dict[str, tuple[int, int]]  # account id -> balance, held, in nano-USD
    leases: dict[str, int] = field(default_factory=dict)


async def apply(
    session: Executor, process_id: str, batch: Batch, number: int | None = None
) -> Applied:
    """Apply a batch in one transaction; applying it again changes nothing (contract §3).

    A batch that concerns leases has a number, other than that of the process's batch before;
    `last_batch` shows whether it was applied, before it is sent again.

    Raises StoreUnavailable when the connection broke: the batch may or may not have committed.
    """
    settlements = _first_of_each_call(batch.settlements)
    arguments = parameters(process_id, number, settlements, batch)
    rows = await session.fetch_all(_APPLY, arguments)
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
    is_buried = BURIED in refused.values()  # all holds of the batch, or none
    return Applied(
        settled=frozenset(s.facts.call_id for s in settlements) - unsettled,
        corrected=frozenset(map(UUID, found["corrected"])),
        is_buried=is_buried,
        refused={} if is_buried else refused,
        taken={seq - written: state for seq, state in found["taken"]},
        balances={account: (balance, held) for account, balance, held in found["accounts"]},
        leases=dict(found["leases"]),
    )


def parameters(
    process_id: str, number: int | None, settlements: Sequence[Settle | Void], batch: Batch
) -> tuple[str | int | None, ...]:
    """Return the arguments of `ledger_batch`, in the order of `ledger.sql`."""
    holds = [*(one.hold for one in batch.admitted), *batch.holds] if batch.admitted else batch.holds
    return (
        process_id,
        _rows(_accounts(settlements, holds, batch)),
        _rows(keys) if (keys := _capped_keys(settlements, holds)) else None,
        *_settled(settlements),
        *_asked(holds),
        to_json([_record(record) for record in batch.records]) if batch.records else None,
        _unusual(settlements, holds, _late(process_id, settlements, batch.admitted)),
        number,
        _admitted_of(settlements),
        len(batch.admitted),
        _rows(map(_change, batch.changes)) if batch.changes else None,
        _ended_jobs(settlements),
    )


def _settled(settlements: Sequence[Settle | Void]) -> tuple[str | None, str | None]:
    """Encode settlements and their details."""
    if not settlements:
        return None, None
    return _rows(map(_settlement, settlements)), to_json(list(map(_detail, settlements)))


def _asked(holds: Sequence[Hold]) -> tuple[str | None, str | None]:
    """Encode holds and their calls."""
    if not holds:
        return None, None
    return _rows(map(_hold, range(len(holds)), holds)), to_json(list(map(_call, holds)))


def to_json(items: Any) -> str:
    """Encode as JSON for PostgreSQL, which refuses NUL and lone surrogates anywhere."""
    try:
        text = msgspec.json.encode(items).decode()
    except (
        UnicodeEncodeError,
        OverflowError,
    ):  # a lone surrogate; an integer beyond 64 bits
        return str(ujson.dumps(clean_json(items), escape_forward_slashes=False))
    if "\\u0000" in text:
        return str(ujson.dumps(clean_json(items), escape_forward_slashes=False))
    return text


def clean_json(value: Any) -> Any:
    """Return the value with every text in it made storable."""
    if isinstance(value, str):
        return clean_text(value, len(value))
    if isinstance(value, Mapping):
        return {clean_json(name): clean_json(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [clean_json(item) for item in value]
    return value


# Rows: an array literal, the values of each row in the order of its type; an empty one is null.


def _rows(rows: Iterable[str]) -> str:
    return "{" + ",".join([f'"({row})"' for row in rows]) + "}"


def _value(text: str | None) -> str:
    if text is None:
        return ""
    if _is_plain(text):
        return text
    # Quoted within the row, which is quoted itself.
    return _escaped(f'"{_escaped(text)}"')


# Ids and names from the configuration: few distinct ones, used again and again.
_name = lru_cache(NAMES_KEPT)(_value)


@lru_cache(NAMES_KEPT)
def _model(name: str) -> str | None:
    """Return the name of a configured model, storable."""
    return clean_text(name, 200)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _accounts(
    settlements: Sequence[Settle | Void],
    holds: Sequence[Hold],
    batch: Batch,
) -> list[str]:
    """Return every account of the batch with the most that the batch may take from it."""
    needed = {record.facts.account_id: 0 for record in batch.records}
    for change in batch.changes:
        needed[change.account_id] = 0
    for settle in settlements:
        account_id = settle.facts.account_id
        needed[account_id] = needed.get(account_id, 0) + _cost(settle)
    for hold in holds:
        account_id = hold.facts.account_id
        needed[account_id] = needed.get(account_id, 0) + hold.amount_nano_usd
    return [f"{_value(name)},{min(amount, _BIGINT_MAX)}" for name, amount in needed.items()]


def _capped_keys(settlements: Sequence[Settle | Void], holds: Sequence[Hold]) -> list[str]:
    """Return every key with a spend cap; the lower one if the cap was changed in between."""
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
    """Return the end of the array of cost and channel, escaped for a row."""
    rest = to_json([name])[1:]
    return _escaped(f',{_escaped(rest)}"')


def _rare(facts: CallFacts, outcome: Outcome) -> str:
    """Encode the columns that a successful call billed by tokens leaves empty, and the operator's
    cost with its channel: an array, sent alone if there is nothing else (above).
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


def _admitted_of(settlements: Sequence[Settle | Void]) -> str | None:
    """Encode the holds of calls that ended before these were written; None: there are none."""
    found = [s.admitted if isinstance(s, Settle) else None for s in settlements]
    return "{" + ",".join(map(_admitted, found)) + "}" if any(found) else None


def _admitted(admitted: Admitted | None) -> str:
    if admitted is None:
        return "NULL"
    hold = admitted.hold
    account, key = _name(hold.facts.account_id), _name(hold.facts.key_id)
    return f'"({account},{key},{hold.amount_nano_usd})"'


def _change(change: LeaseChange) -> str:
    return f"{_name(change.account_id)},{change.change},{change.least}"


def _late(
    process_id: str, settlements: Sequence[Settle | Void], admitted: Sequence[Admitted]
) -> dict[str, str] | None:
    """Map calls admitted from a lease that has ended to the identity that had the lease."""
    ended = (s.admitted for s in settlements if isinstance(s, Settle) and s.admitted is not None)
    late = {
        str(one.facts.call_id): one.identity
        for one in (*admitted, *ended)
        if one.identity != process_id
    }
    return late or None


def _call(hold: Hold) -> dict[str, Any]:
    """Return what a hold keeps of its call, for the row that recovery may have to write."""
    facts = hold.facts
    kept = {
        "protocol": facts.protocol,
        "model": _model(facts.model),
        "submitted_at": facts.submitted_at,
        "detail": hold.detail,
    }
    return kept if facts.made_id is None else {**kept, "made_id": facts.made_id}


def _unusual(
    settlements: Sequence[Settle | Void], holds: Sequence[Hold], late: Mapping[str, str] | None
) -> str | None:
    """Encode idempotency keys, settlements made by recovery, jobs that calls begin, and calls
    admitted from another identity's lease; None: there are none.
    """
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
    found: dict[str, Any] = {
        "wanted": wanted,
        "ended": ended,
        "recovered": recovered,
        "jobs": jobs,
        "late": late,
    }
    unusual = {name: values for name, values in found.items() if values}
    return to_json(unusual) if unusual else None


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


def _ended_jobs(settlements: Sequence[Settle | Void]) -> str | None:
    """Encode how the jobs of these calls end; None: none of them has one."""
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


def account_of(message: Message) -> str:
    """Return the account of a message."""
    if isinstance(message, Barrier | LeaseChange):
        return message.account_id
    return message.facts.account_id


def clean_text(text: str | None, limit: int = 2000) -> str | None:
    """Make text storable: PostgreSQL accepts neither NUL nor lone surrogates."""
    if text is None:
        return None
    cleaned = text[:limit].replace("\x00", "")
    return cleaned if cleaned.isascii() else cleaned.encode("utf-8", "replace").decode()


def _first_of_each_call(settlements: Sequence[Settle | Void]) -> list[Settle | Void]:
    """Keep one settlement per call, because a second one would fail the whole batch.

    A call's own settlement takes precedence over recovery's.
    """
    first: dict[UUID, Settle | Void] = {}
    for settlement in settlements:
        found = first.setdefault(settlement.facts.call_id, settlement)
        if isinstance(found, Settle) and found.is_recovery:
            first[settlement.facts.call_id] = settlement
    return list(first.values())
