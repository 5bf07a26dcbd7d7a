"""A batch of the ledger: the messages that one transaction applies, by one call of `ledger_batch`.

A settlement is encoded once, when its call ends: its objects are then still in the caches of the
CPU, and need not outlive it. What all calls have is sent as rows of a composite type, which
PostgreSQL reads in a quarter of the time of JSON objects; the rest as JSON, one array per batch.
All text must be storable, whatever a client or an upstream has sent: PostgreSQL would refuse the
whole batch for one bad text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Any, Protocol
from uuid import UUID

import msgspec
import ujson
from msgspec import Raw
from msgspec.structs import replace

from actors.store.connection import Params, Row
from actors.store.queries import load
from actors.wallet.messages import (
    Admitted,
    CallFacts,
    ClaimEnd,
    ClaimState,
    Free,
    Hold,
    JobEnd,
    LeaseChange,
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
from metrics.spans import ChildSpan

_BIGINT_MAX = 2**63 - 1
# The last second that what reads rows can represent: of the year 9999.
_INSTANT_MAX = 253_402_300_799.0
# Error code of a job whose hold was granted after its client had left.
NOT_SUBMITTED = "not_submitted"
# Size of the caches of escaped names from the configuration.
NAMES_KEPT = 4096
# Text that needs no quotes in a row or an array.
_is_plain = re.compile(r"[A-Za-z0-9_.:/@+-]+").fullmatch
# Refusal reason of every hold of a process that was declared dead or is missing in `processes`.
BURIED = "buried"
_encode = msgspec.json.Encoder().encode
# Values of a row as they are: no detail, a hold that is written, `has_detail`.
_NULL, _UNHELD, _DETAIL, _NO_DETAIL = Raw(b"null"), b"NULL", Raw(b"t"), Raw(b"f")
_APPLY = load("actors.wallet", "ledger.sql")["apply"]


class Executor(Protocol):
    """Executes one statement: the pool, a transaction, the writer's own connection."""

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The messages that one transaction applies: settlements, holds, records, leases, in order.

    `admitted` are holds granted in memory, which precede the requested ones.
    """

    settlements: Sequence[Settle] = ()
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
            one.admitted is not None for one in self.settlements
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The results of a batch. Holds in neither `refused` nor `taken` (by index) were granted.

    `unsettled`: calls whose settlements were not applied; `corrected`: those of them that recovery
    had settled, whose row and cost now are those of their true settlement. `is_buried`: others have
    declared the process dead, so that its holds were refused unchecked, or, for a batch with a
    number, nothing was applied. `leases` is what the process now leases of the batch's accounts, in
    nano-USD, where that may have changed; `called` are the accounts whose leases are called back.
    """

    unsettled: frozenset[UUID]
    corrected: frozenset[UUID] = frozenset()
    is_buried: bool
    refused: dict[int, RefusalReason] = field(default_factory=dict)
    taken: dict[int, ClaimState] = field(default_factory=dict)  # its idempotency key was in use
    balances: Sequence[list[Any]] = ()  # account id, balance, held, in nano-USD
    leases: dict[str, int] = field(default_factory=dict)
    called: Sequence[str] = ()


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
        every = frozenset(settle.facts.call_id for settle in settlements)
        return Applied(unsettled=every, is_buried=True)
    written = len(batch.admitted)
    refused = {seq - written: reason for seq, reason in found["refused"]}
    is_buried = BURIED in refused.values()  # all holds of the batch, or none
    return Applied(
        unsettled=frozenset(map(UUID, found["unsettled"])),
        corrected=frozenset(map(UUID, found["corrected"])),
        is_buried=is_buried,
        refused={} if is_buried else refused,
        taken={seq - written: state for seq, state in found["taken"]},
        balances=found["accounts"],
        leases=dict(found["leases"]),
        called=found["called"],
    )


def parameters(
    process_id: str, number: int | None, settlements: Sequence[Settle], batch: Batch
) -> tuple[str | int | None, ...]:
    """Return the arguments of `ledger_batch`, in the order of `ledger.sql`."""
    holds = [*(one.hold for one in batch.admitted), *batch.holds] if batch.admitted else batch.holds
    ended = [one.admitted for one in settlements if one.admitted is not None]
    return (
        process_id,
        _rows(_accounts(settlements, holds, batch)),
        _rows(_capped_keys(settlements, holds)),
        _joined('{"(', b')","(', map(attrgetter("row"), settlements), ')"}'),
        _joined("[", b",", map(attrgetter("detail"), settlements), "]"),
        _rows(map(_hold, range(len(holds)), holds)),
        to_json(list(map(_call, holds))) if holds else None,
        to_json(list(map(_record, batch.records))) if batch.records else None,
        _unusual(settlements, holds, _late(process_id, [*batch.admitted, *ended])),
        number,
        _joined("{", b",", map(attrgetter("held"), settlements), "}") if ended else None,
        len(batch.admitted),
        _rows(map(_change, batch.changes)),
        _joined("[", b",", [one.job for one in settlements if one.job is not None], "]"),
    )


def _joined(start: str, between: bytes, parts: Iterable[bytes], end: str) -> str | None:
    """Join what is encoded already; None: there is nothing."""
    joined = between.join(parts).decode()
    return start + joined + end if joined else None


def to_json(items: Any) -> str:
    """Encode as JSON for PostgreSQL, which refuses NUL and lone surrogates anywhere."""
    return encode_json(items).decode()


def encode_json(items: Any) -> bytes:
    """Encode as JSON for PostgreSQL, in UTF-8."""
    try:
        encoded = _encode(items)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate; an integer beyond 64 bits
        pass
    else:
        if b"\\" not in encoded or b"\\u0000" not in encoded:
            return encoded
    return bytes(ujson.dumps(clean_json(items), escape_forward_slashes=False).encode())


def encode_detail(detail: Mapping[str, Any] | None) -> Raw:
    """Encode the detail of a row once for all that takes it."""
    return Raw(encode_json(detail))


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


def _rows(rows: Iterable[str]) -> str | None:
    return _joined('{"(', b')","(', map(str.encode, rows), ')"}')


def _value(text: str | None) -> str:
    if text is None:
        return ""
    # Ids first: for them this takes half the time of the pattern, which has them too.
    if (text.isascii() and text.isidentifier()) or _is_plain(text):
        return text
    # Quoted within the row, which is quoted itself.
    return _escaped(f'"{_escaped(text)}"')


@lru_cache(NAMES_KEPT)
def _model(name: str) -> str | None:
    """Return the name of a configured model, storable."""
    return clean_text(name, 200)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _accounts(settlements: Sequence[Settle], holds: Sequence[Hold], batch: Batch) -> list[str]:
    """Return every account of the batch with the most that the batch may take from it."""
    needed = {record.facts.account_id: 0 for record in batch.records}
    for change in batch.changes:
        needed[change.account_id] = 0
    for settle in settlements:
        account_id = settle.facts.account_id
        needed[account_id] = needed.get(account_id, 0) + settle.cost_nano_usd
    for hold in holds:
        account_id = hold.facts.account_id
        needed[account_id] = needed.get(account_id, 0) + hold.amount_nano_usd
    return [f"{_value(name)},{min(amount, _BIGINT_MAX)}" for name, amount in needed.items()]


def _capped_keys(settlements: Sequence[Settle], holds: Sequence[Hold]) -> list[str]:
    """Return every key with a spend cap; the lower one if the cap was changed in between."""
    caps: dict[str, int] = {}
    for hold in holds:
        if (cap := hold.cap_nano_usd) is not None:
            caps[hold.facts.key_id] = min(cap, caps.get(hold.facts.key_id, cap))
    if not caps:
        return []
    needed = dict.fromkeys(caps, 0)
    for key_id, amount in (
        *((settle.facts.key_id, settle.cost_nano_usd) for settle in settlements),
        *((hold.facts.key_id, hold.amount_nano_usd) for hold in holds),
    ):
        if key_id in needed:
            needed[key_id] += amount
    return [
        f"{_value(name)},{min(amount, _BIGINT_MAX)},{caps[name]}" for name, amount in needed.items()
    ]


def encode_settlement(
    facts: CallFacts,
    outcome: Outcome,
    admitted: Admitted | None = None,
    *,
    claim_end: ClaimEnd = None,
    is_recovery: bool = False,
    job_end: JobEnd | None = None,
    span: ChildSpan | None = None,
    exceeding: int = 0,
) -> Settle:
    """Encode the settlement of a call; None as `job_end`: its job, if any, failed like its row."""
    return Settle(
        facts=facts,
        account_id=facts.account_id,
        cost_nano_usd=outcome.cost_nano_usd,
        row=_settlement(facts, outcome),
        detail=_detail(outcome),
        held=_UNHELD if admitted is None else _held(admitted.hold),
        job=None if facts.job_id is None else encode_json(_ended(facts, outcome, job_end)),
        claim_end=claim_end,
        is_recovery=is_recovery,
        span=span,
        admitted=admitted,
        exceeding=exceeding,
        outcome=outcome,
    )


def with_hold(settle: Settle, admitted: Admitted) -> Settle:
    """Return a settlement with the hold that was not written."""
    return replace(settle, admitted=admitted, held=_held(admitted.hold))


def _detail(outcome: Outcome) -> Raw:
    detail = outcome.detail
    return detail if isinstance(detail, Raw) else encode_detail(detail)


def encode_void(facts: CallFacts, *, has_claim: bool = False) -> Void:
    """Encode the release of a hold, with or without an idempotency key."""
    return Void(
        facts=facts,
        account_id=facts.account_id,
        cost_nano_usd=0,
        row=b"%032x,0,,,,,,,,,,," % facts.call_id.int,
        detail=_NULL,
        held=_UNHELD,
        job=None if facts.job_id is None else encode_json(_ended(facts, None, None)),
        claim_end=Free() if has_claim else None,
    )


def _settlement(facts: CallFacts, outcome: Outcome) -> bytes:
    """Encode a row; its numbers as JSON, which is the fastest way."""
    assert outcome.cost_nano_usd >= 0
    if (
        outcome.status == "success"
        and not (outcome.attempts or facts.job_id or facts.made_id)
        and facts.protocol not in UNIT_TYPES
    ):
        cost = outcome.upstream_cost_nano_usd
        rare = b'\\"[null' if cost is None else b'\\"[%d' % cost
        rare += _channel(outcome.channel_id)
    else:
        rare = _value(_rare(facts, outcome)).encode()
    values = _encode(
        (
            outcome.cost_nano_usd,
            outcome.created_at,
            facts.submitted_at,
            _raw_name(facts.protocol),
            _raw_name(facts.model),
            _raw_name(outcome.status),
            outcome.input_tokens,
            outcome.output_tokens,
            outcome.cached_tokens,
            outcome.latency_ms,
            _NO_DETAIL if outcome.detail is None else _DETAIL,
        )
    )
    return b"%032x,%b,%b" % (facts.call_id.int, values[1:-1], rare)


@lru_cache(NAMES_KEPT)
def _raw_name(name: str) -> Raw:
    """Return the name of something configured as a value of a row."""
    return Raw(_value(clean_text(name, 200)).encode())


@lru_cache(NAMES_KEPT)
def _channel(name: str | None) -> bytes:
    """Return the end of the array of cost and channel, escaped for a row."""
    rest = to_json([name])[1:]
    return _escaped(f',{_escaped(rest)}"').encode()


def _rare(facts: CallFacts, outcome: Outcome) -> str:
    """Encode the columns that a successful call billed by tokens leaves empty, and the operator's
    cost with its channel: an array, sent alone if there is nothing else (above).
    """
    unit_type = UNIT_TYPES.get(facts.protocol)
    bought = [outcome.upstream_cost_nano_usd, outcome.channel_id]
    until = outcome.result_expires_at
    rare = {
        "error_code": clean_text(outcome.error_code, 100),
        "error_message": clean_text(outcome.error_message),
        "unit_count": outcome.units if unit_type else None,
        "unit_type": unit_type,
        "task_id": facts.job_id or facts.made_id,
        "result_urls": list(outcome.result_urls) or None,
        "result_expires_at": None if until is None else min(until, _INSTANT_MAX),
        "attempts": list(outcome.attempts) or None,
        "bought": bought,
    }
    return to_json({name: value for name, value in rare.items() if value is not None})


def _held(hold: Hold) -> bytes:
    """Encode the hold of a call that ended before it was written."""
    facts = hold.facts
    who = f"{_value(facts.account_id)},{_value(facts.key_id)}"
    return f'"({who},{hold.amount_nano_usd})"'.encode()


def _hold(seq: int, hold: Hold) -> str:
    facts, cap = hold.facts, hold.cap_nano_usd
    return (
        f"{seq},{facts.call_id.hex},{_value(facts.account_id)},{_value(facts.key_id)},"
        f"{hold.amount_nano_usd},{'' if cap is None else cap}"
    )


def _change(change: LeaseChange) -> str:
    return f"{_value(change.account_id)},{change.change},{change.least}"


def _late(process_id: str, admitted: Iterable[Admitted]) -> dict[str, str]:
    """Map calls admitted from a lease that has ended to the identity that had the lease."""
    late = [one for one in admitted if one.identity != process_id]
    return {str(one.facts.call_id): one.identity for one in late}


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
    settlements: Sequence[Settle], holds: Sequence[Hold], late: Mapping[str, str]
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
        {"call_id": one.facts.call_id.hex, **end_to_json(one.claim_end)}
        for one in settlements
        if one.claim_end is not None
    ]
    found: dict[str, Any] = {
        "wanted": wanted,
        "ended": ended,
        "recovered": [one.facts.call_id.hex for one in settlements if one.is_recovery],
        "jobs": [_begun(seq, hold, hold.job) for seq, hold in enumerate(holds) if hold.job],
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


def _ended(facts: CallFacts, outcome: Outcome | None, end: JobEnd | None) -> dict[str, Any]:
    """Return how the job of a call ends; without an outcome it was never submitted."""
    values: dict[str, Any] = {"id": facts.job_id, "call_id": facts.call_id.hex, "state": "failed"}
    if outcome is None:
        return {**values, "error_code": NOT_SUBMITTED}
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
        "detail": _detail(outcome),
    }


def clean_text(text: str | None, limit: int = 2000) -> str | None:
    """Make text storable: PostgreSQL accepts neither NUL nor lone surrogates."""
    if text is None:
        return None
    cleaned = text[:limit].replace("\x00", "")
    return cleaned if cleaned.isascii() else cleaned.encode("utf-8", "replace").decode()


def _first_of_each_call(settlements: Sequence[Settle]) -> Sequence[Settle]:
    """Keep one settlement per call, because a second one would fail the whole batch.

    A call's own settlement takes precedence over recovery's.
    """
    if len({settle.facts.call_id.int for settle in settlements}) == len(settlements):
        return settlements
    first: dict[UUID, Settle] = {}
    for settle in settlements:
        if first.setdefault(settle.facts.call_id, settle).is_recovery:
            first[settle.facts.call_id] = settle
    return list(first.values())
