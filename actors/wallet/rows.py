"""Messages as rows of composite types, and as JSON: the arguments of `ledger_batch`.

What all calls have is a row of an array literal, which PostgreSQL reads in a quarter of the time
of JSON objects: the values in the order of the type, an empty one for null. The rest is JSON.

A settlement is encoded once, when its call ends: its objects are then still in the caches of the
CPU, and need not outlive it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from actors.wallet import claims, messages, storable
from channels.families import UNIT_TYPES
from metrics.spans import ChildSpan

_BIGINT_MAX = 2**63 - 1
# The last second that what reads rows can represent: of the year 9999.
_INSTANT_MAX = 253_402_300_799.0
# Error code of a job whose hold was granted after its client had left.
NOT_SUBMITTED = "not_submitted"
# Size of the caches of escaped names from the configuration.
NAMES_KEPT = 4096
# Of that of whom calls were for, of 1 KB each.
SAID_KEPT = 1024
# Text that needs no quotes in a row or an array.
_is_plain = re.compile(r"[A-Za-z0-9_.:/@+-]+").fullmatch
_encode = msgspec.json.Encoder().encode
# Values as they are: no detail, a hold that is written, an empty column of a row.
_NULL, _UNHELD, _EMPTY = Raw(b"null"), b"NULL", Raw(b"")


def joined(start: str, between: bytes, parts: Iterable[bytes], end: str) -> str | None:
    """Join what is encoded already; None: there is nothing."""
    joined = between.join(parts).decode()
    return start + joined + end if joined else None


def array_of(rows: Iterable[str]) -> str | None:
    return joined('{"(', b')","(', map(str.encode, rows), ')"}')


def row_value(text: str | None) -> str:
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
    return storable.clean_text(name, 200)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def account_rows(
    settlements: Sequence[messages.Settle],
    holds: Sequence[messages.Hold],
    records: Sequence[messages.Record],
    changes: Sequence[messages.LeaseChange | messages.NodeChange],
) -> list[str]:
    """Return every account of a batch with the most that the batch may take from it."""
    needed = {record.facts.account_id: 0 for record in records}
    for change in changes:
        needed[change.account_id] = 0
    for settle in settlements:
        account_id = settle.facts.account_id
        needed[account_id] = needed.get(account_id, 0) + settle.cost_nano_usd
    for hold in holds:
        account_id = hold.facts.account_id
        needed[account_id] = needed.get(account_id, 0) + hold.amount_nano_usd
    return [f"{row_value(name)},{min(amount, _BIGINT_MAX)}" for name, amount in needed.items()]


def capped_key_rows(
    settlements: Sequence[messages.Settle], holds: Sequence[messages.Hold]
) -> list[str]:
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
        f"{row_value(name)},{min(amount, _BIGINT_MAX)},{caps[name]}"
        for name, amount in needed.items()
    ]


def encode_settlement(
    facts: messages.CallFacts,
    outcome: messages.Outcome,
    admitted: messages.Admitted | None = None,
    *,
    claim_end: claims.ClaimEnd = None,
    is_recovery: bool = False,
    job_end: messages.JobEnd | None = None,
    span: ChildSpan | None = None,
    exceeding: int = 0,
) -> messages.Settle:
    """Encode the settlement of a call; None as `job_end`: its job, if any, failed like its row."""
    return messages.Settle(
        facts=facts,
        account_id=facts.account_id,
        cost_nano_usd=outcome.cost_nano_usd,
        row=_settlement(facts, outcome),
        detail=_detail(outcome),
        held=_UNHELD if admitted is None else _held(admitted.hold),
        job=None if facts.job_id is None else storable.encode_json(_ended(facts, outcome, job_end)),
        claim_end=claim_end,
        is_recovery=is_recovery,
        span=span,
        admitted=admitted,
        exceeding=exceeding,
        outcome=outcome,
    )


def with_hold(settle: messages.Settle, admitted: messages.Admitted) -> messages.Settle:
    """Return a settlement with the hold that was not written."""
    return replace(settle, admitted=admitted, held=_held(admitted.hold))


def _detail(outcome: messages.Outcome) -> Raw:
    detail = outcome.detail
    return detail if isinstance(detail, Raw) else storable.encode_detail(detail)


def encode_void(facts: messages.CallFacts, *, has_claim: bool = False) -> messages.Void:
    """Encode the release of a hold, with or without an idempotency key."""
    return messages.Void(
        facts=facts,
        account_id=facts.account_id,
        cost_nano_usd=0,
        row=b"%032x,0,,,,,,,,,,,,," % facts.call_id.int,
        detail=_NULL,
        held=_UNHELD,
        job=None if facts.job_id is None else storable.encode_json(_ended(facts, None, None)),
        claim_end=claims.Free() if has_claim else None,
    )


def _settlement(facts: messages.CallFacts, outcome: messages.Outcome) -> bytes:
    """Encode a row; its numbers as JSON, which is the fastest way."""
    assert outcome.cost_nano_usd >= 0
    if (
        outcome.status == "success"
        and not (outcome.attempts or facts.job_id or facts.made_id or outcome.served)
        and facts.protocol not in UNIT_TYPES
    ):
        rare = b""
    else:
        rare = row_value(_rare(facts, outcome)).encode()
    said, upstream_cost = facts.attribution, outcome.upstream_cost_nano_usd
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
            _EMPTY if upstream_cost is None else upstream_cost,
            _raw_name(outcome.channel_id),
            _EMPTY if said is None else _said(said.stored),
        )
    )
    return b"%032x,%b,%b" % (facts.call_id.int, values[1:-1], rare)


@lru_cache(NAMES_KEPT)
def _raw_name(name: str | None) -> Raw:
    """Return the name of something configured as a value of a row."""
    return Raw(row_value(storable.clean_text(name, 200)).encode())


@lru_cache(SAID_KEPT)
def _said(stored: str) -> Raw:
    """Return for whom a call was as a value of a row."""
    return Raw(row_value(stored).encode())


def _rare(facts: messages.CallFacts, outcome: messages.Outcome) -> str:
    """Encode the columns that a successful call billed by tokens leaves empty."""
    unit_type = UNIT_TYPES.get(facts.protocol)
    until = outcome.result_expires_at
    rare = {
        "error_code": storable.clean_text(outcome.error_code, 100),
        "error_message": storable.clean_text(outcome.error_message),
        "unit_count": outcome.units if unit_type else None,
        "unit_type": unit_type,
        "task_id": facts.job_id or facts.made_id,
        "result_urls": list(outcome.result_urls) or None,
        "result_expires_at": None if until is None else min(until, _INSTANT_MAX),
        "attempts": list(outcome.attempts) or None,
        "served": storable.clean_text(outcome.served, 200) or None,
    }
    return storable.to_json({name: value for name, value in rare.items() if value is not None})


def _held(hold: messages.Hold) -> bytes:
    """Encode the hold of a call that ended before it was written."""
    facts = hold.facts
    who = f"{row_value(facts.account_id)},{row_value(facts.key_id)}"
    return f'"({who},{hold.amount_nano_usd})"'.encode()


def hold_row(seq: int, hold: messages.Hold) -> str:
    facts, cap = hold.facts, hold.cap_nano_usd
    return (
        f"{seq},{facts.call_id.hex},{row_value(facts.account_id)},{row_value(facts.key_id)},"
        f"{hold.amount_nano_usd},{'' if cap is None else cap}"
    )


def change_row(change: messages.LeaseChange) -> str:
    return f"{row_value(change.account_id)},{change.change},{change.least}"


def node_parts(holds: Sequence[messages.Hold], changes: Sequence[messages.NodeChange]) -> str:
    """Encode the nodes that calls ask the ledger for, and changes of leases of nodes."""
    found: dict[str, Any] = {}
    if any(one.nodes or one.budgets_version for one in holds):
        found["asked"] = [_asked(one) for one in holds]
    if changes:
        found["leases"] = [(*one.node, one.sum_id, one.change, one.least) for one in changes]
    return _encode(found).decode() if found else "{}"


def moves(
    settlements: Sequence[messages.Settle], admitted: Sequence[messages.Admitted]
) -> str | None:
    """Encode by what calls admitted in memory move the sums of their nodes (`budget_move`)."""
    of_sum: dict[int, list[int]] = {}
    for one in admitted:
        for node in one.budgets:
            move = of_sum.get(node.sum_id) or _move(of_sum, node.sum_id)
            move[1] += node.held
            move[3] += node.held
    for settle in settlements:
        if settle.admitted is not None and settle.admitted.budgets:
            cost = settle.cost_nano_usd
            for node in settle.admitted.budgets:
                held = node.held
                move = of_sum.get(node.sum_id) or _move(of_sum, node.sum_id)
                move[2] += cost
                if held < cost:
                    move[1] += held
                    move[4] += cost - held
                else:
                    move[1] += cost
    return array_of(",".join(map(str, move)) for move in of_sum.values()) if of_sum else None


def _move(of_sum: dict[int, list[int]], sum_id: int) -> list[int]:
    """Begin to move a sum."""
    move = of_sum[sum_id] = [sum_id, 0, 0, 0, 0]
    return move


def nodes_of_calls(admitted: Iterable[messages.Admitted | None]) -> str | None:
    """Encode the nodes of calls admitted in memory, an array's text for each; None: no nodes."""
    found = [one.budgets if one is not None else () for one in admitted]
    if not any(found):
        return None
    return "{" + ",".join(map(_nodes_of_call, found)) + "}"


def _nodes_of_call(budgets: Sequence[messages.HeldNode]) -> str:
    if not budgets:
        return "NULL"
    return '"{' + ",".join([f"{one.sum_id},{one.held}" for one in budgets]) + '}"'


def _asked(hold: messages.Hold) -> Sequence[Any] | None:
    if not (hold.nodes or hold.budgets_version):
        return None
    nodes = [
        (one.budget_id, one.subject, one.amount_nano_usd, one.ceiling_nano_usd)
        for one in hold.nodes
    ]
    return hold.budgets_version, nodes


def late_calls(process_id: str, admitted: Iterable[messages.Admitted]) -> dict[str, str]:
    """Map calls admitted from a lease that has ended to the identity that had the lease."""
    late = [one for one in admitted if one.identity != process_id]
    return {str(one.facts.call_id): one.identity for one in late}


def call_of_hold(hold: messages.Hold) -> dict[str, Any]:
    """Return what a hold keeps of its call, for the row that recovery may have to write."""
    facts = hold.facts
    kept: dict[str, Any] = {
        "protocol": facts.protocol,
        "model": _model(facts.model),
        "submitted_at": facts.submitted_at,
        "detail": hold.detail,
    }
    if facts.made_id is not None:
        kept["made_id"] = facts.made_id
    if facts.attribution is not None:
        kept["attribution"] = msgspec.to_builtins(facts.attribution)
    return kept


def unusual_parts(
    settlements: Sequence[messages.Settle],
    holds: Sequence[messages.Hold],
    late: Mapping[str, str],
    attributed: Mapping[str, Any] | None = None,
) -> str | None:
    """Encode idempotency keys, settlements made by recovery, jobs that calls begin, calls admitted
    from another identity's lease, and values of rows (`asked_of`); None: there are none.
    """
    wanted = [
        {
            "seq": seq,
            "account_id": hold.facts.account_id,
            "call_id": hold.facts.call_id.hex,
            **claims.claim_to_json(hold.claim),
        }
        for seq, hold in enumerate(holds)
        if hold.claim is not None
    ]
    ended = [
        {"call_id": one.facts.call_id.hex, **claims.end_to_json(one.claim_end)}
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
    if attributed is not None:
        unusual = {"attributed": attributed, **(unusual or {"is_usual": True})}
    return storable.to_json(unusual) if unusual else None


def _begun(seq: int, hold: messages.Hold, job: messages.NewJob) -> dict[str, Any]:
    facts = hold.facts
    return {
        "seq": seq,
        "id": facts.job_id,
        "call_id": facts.call_id.hex,
        "account_id": facts.account_id,
        "key_id": facts.key_id,
        "kind": job.kind,
        "protocol": facts.protocol,
        "model": storable.clean_text(facts.model, 200),
        "request": job.request,
        "billing": {"price": job.price, "quantity": job.quantity, "held": job.held},
        "submitted_at": facts.submitted_at,
        "deadline": job.deadline_seconds,
    }


def _ended(
    facts: messages.CallFacts, outcome: messages.Outcome | None, end: messages.JobEnd | None
) -> dict[str, Any]:
    """Return how the job of a call ends; without an outcome it was never submitted."""
    values: dict[str, Any] = {"id": facts.job_id, "call_id": facts.call_id.hex, "state": "failed"}
    if outcome is None:
        return {**values, "error_code": NOT_SUBMITTED}
    values |= {
        "ended_at": outcome.created_at,
        "error_code": storable.clean_text(outcome.error_code, 100),
        "error_message": storable.clean_text(outcome.error_message),
    }
    if end is not None:
        values |= {
            "state": end.state,
            "progress": end.progress,
            "result": end.result,
            "ended_by": end.by,
        }
    return values


def record_columns(record: messages.Record) -> dict[str, Any]:
    facts, outcome = record.facts, record.outcome
    unit_type = UNIT_TYPES.get(facts.protocol)
    columns: dict[str, Any] = {
        "account_id": facts.account_id,
        "key_id": facts.key_id,
        "request_id": facts.call_id.hex,
        "protocol": facts.protocol,
        "model": storable.clean_text(facts.model, 200),
        "submitted_at": messages.instant(facts.submitted_at),
        "created_at": messages.instant(outcome.created_at),
        "status": outcome.status,
        "error_code": storable.clean_text(outcome.error_code, 100),
        "error_message": storable.clean_text(outcome.error_message),
        "latency_ms": outcome.latency_ms,
        "unit_count": outcome.units if unit_type else None,
        "unit_type": unit_type,
        "detail": _detail(outcome),
    }
    if facts.attribution is not None:
        columns["attribution"] = msgspec.to_builtins(facts.attribution)
    return columns
