"""The messages to a wallet and its replies: frozen values, no behaviour.

Commands are imperative (`Hold`, `Settle`), replies are facts (`Granted`, `Refused`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct

from actors.wallet.claims import Claim, ClaimEnd, ClaimState
from actors.wallet.jobs import JobEnd, NewJob
from metrics.spans import ChildSpan

RowStatus = Literal["success", "error", "interrupted", "rejected"]
RefusalReason = Literal["insufficient_funds", "spend_cap", "unknown_account"]


class CallFacts(Struct, frozen=True, kw_only=True):
    """What is known of a call when it is admitted; enough to write its row if its process dies.

    `job_id`: of the job that it begins; None: it ends with its response.
    """

    call_id: UUID
    account_id: str
    key_id: str
    protocol: str
    model: str
    submitted_at: float  # Unix seconds
    job_id: str | None = None


class Hold(Struct, frozen=True, kw_only=True):
    """Reserve `amount_nano_usd` for one call, within the balance and the key's spend cap.

    `detail` is what its row will say of the price, should this process die.
    With a claim, only when the account's idempotency key is free, which it is not from then on.
    `job`: what the call begins, if it has a `job_id`.
    """

    facts: CallFacts
    amount_nano_usd: int
    cap_nano_usd: int | None = None
    detail: Mapping[str, Any] | None = None
    claim: Claim | None = None
    job: NewJob | None = None


class Granted(Struct, frozen=True, kw_only=True):
    """The hold stands until the call is settled."""

    amount_nano_usd: int


class Refused(Struct, frozen=True, kw_only=True):
    """Nothing was held."""

    reason: RefusalReason


class Taken(Struct, frozen=True):
    """Nothing was held: the idempotency key is not free, and this is what stands there."""

    state: ClaimState


class Outcome(Struct, frozen=True, kw_only=True):
    """How a call ended: one call-log row and the money that goes with it.

    `units` are of the kind that the call's protocol is billed by (`channels/families.py`).
    """

    status: RowStatus
    cost_nano_usd: int
    created_at: float  # Unix seconds: the terminal instant
    latency_ms: int
    error_code: str | None = None
    error_message: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    units: int = 0
    task_id: str | None = None
    result_urls: Sequence[str] = ()
    result_expires_at: float | None = None  # Unix seconds
    attempts: Sequence[Mapping[str, Any]] = ()
    detail: Mapping[str, Any] | None = None


class Settle(Struct, frozen=True, kw_only=True):
    """Release the hold of a call, take its cost, write its row: all or nothing, once.

    `claim_end` says what becomes of its idempotency key, if it claimed one. `is_recovery`: it is
    made for a process taken for dead, at what is known; should the true settlement come after all,
    row and cost are corrected to it. `job_end`: how its job ends, if it has one; None: it failed,
    with the error of the row. `span`: its part of the call's trace, ended when it is committed.
    """

    facts: CallFacts
    outcome: Outcome
    claim_end: ClaimEnd = None
    is_recovery: bool = False
    job_end: JobEnd | None = None
    span: ChildSpan | None = None


class Void(Struct, frozen=True, kw_only=True):
    """Release the hold of a call if there is one: its caller never learnt that it was granted.

    No row is written; the caller, who gave up, writes its own (`Record`). Where recovery has
    settled the call meanwhile, that row replaces recovery's. A key that it claimed is
    free, a job that it was to begin has failed.
    """

    facts: CallFacts
    has_claim: bool = False


class Record(Struct, frozen=True, kw_only=True):
    """Write the row of a call that holds nothing: it was refused, or given up before its hold."""

    facts: CallFacts
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Barrier:
    """Answered when everything said of the account before it has been applied."""

    account_id: str


Message = Hold | Settle | Void | Record | Barrier


def account_of(message: Message) -> str:
    """The account whose money a message is about."""
    return message.account_id if isinstance(message, Barrier) else message.facts.account_id


class LedgerUnavailable(Exception):
    """The ledger cannot be reached; nothing was charged. Try again in a moment."""


def instant(unix_seconds: float) -> str:
    """Unix seconds as RFC 3339 UTC with microseconds, the form the ledger's SQL reads."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat()


def clean_text(text: str | None, limit: int = 2000) -> str | None:
    """Make text storable: PostgreSQL takes neither NUL nor lone surrogates."""
    if text is None:
        return None
    cleaned = text[:limit].replace("\x00", "")
    return cleaned if cleaned.isascii() else cleaned.encode("utf-8", "replace").decode()
