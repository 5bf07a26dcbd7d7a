"""The messages to a wallet and its replies: frozen values, no behaviour.

Commands are imperative (`Hold`, `Settle`), replies are facts (`Granted`, `Refused`).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args
from uuid import UUID

import msgspec
from msgspec import Struct

from channels.media.model import TaskKind
from metrics.spans import ChildSpan

# What a hold and its settlement carry of an idempotency key: frozen values.
#
# A call claims its key in the transaction that holds its money; the settlement decides what becomes
# of the claim. The rows are `idempotency` in the database (its migration has the rules), who reads
# them is `gw/idempotency/`.

# What a claim finds under its key (spec: States, Idempotent submission): a call under way; or one
# that was answered, to another request, or to this one: its response, or the memory of a response
# that was too large to keep.
ClaimState = Literal["in_flight", "reuse", "stored", "too_large"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An idempotency key of the account, and the SHA-256 of the request that comes with it."""

    key: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponse:
    """Remember this response (2xx) for seven days."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResponseTooLarge:
    """Remember for seven days that there was a response, too large to be kept."""


@dataclass(frozen=True, slots=True)
class Free:
    """The key is free at once: the call failed (spec: Errors, rule 3)."""


# None, for a call whose client was cut off: the key stays claimed until ten minutes are over.
ClaimEnd = KeptResponse | ResponseTooLarge | Free | None


def claim_to_json(claim: Claim) -> dict[str, Any]:
    """The claim's part of a hold, as the ledger's SQL reads it."""
    return {"key": claim.key, "fingerprint": claim.fingerprint.hex()}


def end_to_json(end: KeptResponse | ResponseTooLarge | Free) -> dict[str, Any]:
    """The claim's part of a settlement."""
    if isinstance(end, Free):
        return {"state": "free"}
    if isinstance(end, ResponseTooLarge):
        return {"state": "too_large"}
    assert 200 <= end.status <= 299, end.status
    return {
        "state": "stored",
        "status": end.status,
        "headers": [list(header) for header in end.headers],
        "body": base64.b64encode(end.body).decode("ascii"),
    }


# What the hold of a call and its settlement carry of a job: frozen values.
#
# A job is made in the transaction that holds its money and ends in the one that settles it,
# whichever process does so and for whatever reason, so that state, money and row cannot disagree.
# While its call is being submitted the hold is its process's like any other: should that die,
# recovery gives it back and the job has failed. Once an upstream has accepted it, the hold is the
# job's, and neither recovery, nor the search for leaks, nor the drain of a process concerns itself
# with it. What jobs are, and who ends them, is `actors/jobs`.

EndState: TypeAlias = Literal["succeeded", "failed", "expired", "cancelled"]
END_STATES: tuple[EndState, ...] = get_args(EndState)


class NewJob(Struct, frozen=True, kw_only=True):
    """The job that a call begins (`CallFacts.job_id`), in the transaction that holds its money.

    `price` is what it costs (`UnitPrice.stated`), fixed from here on. `quantity` is how much was
    asked for, in the unit of its kind: milliseconds of video, characters of speech, 1 of anything
    else; it counts where the upstream does not report how much was made. `held` is how much the
    hold pays for; None: as much. `request` is what answers need of what was asked; JSON values.
    """

    kind: TaskKind
    price: Mapping[str, str]
    quantity: int
    held: int | None = None
    deadline_seconds: float
    request: Mapping[str, Any] = msgspec.field(default_factory=dict)


class JobEnd(Struct, frozen=True, kw_only=True):
    """How a job ends; error and instant are those of its row.

    `result` is a `TaskResult` as JSON values. `by` is a name of the one that ends it, used once: it
    is kept with the job, so that the process that ended it recognises it.
    """

    state: EndState
    by: str
    result: Any = None
    progress: int | None = None


RowStatus = Literal["success", "error", "interrupted", "rejected"]
# `leased`: the balance covers it, but for what processes have leased of it.
RefusalReason = Literal["insufficient_funds", "spend_cap", "unknown_account", "leased"]


class CallFacts(Struct, frozen=True, kw_only=True):
    """What is known of a call when it is admitted; enough to write its row if its process dies.

    `job_id`: of the job that it begins; None: it ends with its response. `made_id` is the id of
    what it makes without a job (a voice, a script), if that has one.
    """

    call_id: UUID
    account_id: str
    key_id: str
    protocol: str
    model: str
    submitted_at: float  # Unix seconds
    job_id: str | None = None
    made_id: str | None = None


class Hold(Struct, frozen=True, kw_only=True):
    """Reserve `amount_nano_usd` for one call, within the balance and the key's spend cap.

    `detail` is its row's receipt of the price, should this process die.
    With a claim, only when the account's idempotency key is free, which it is not from then on.
    `job`: what the call begins, if it has a `job_id`.
    """

    facts: CallFacts
    amount_nano_usd: int
    cap_nano_usd: int | None = None
    detail: Mapping[str, Any] | None = None
    claim: Claim | None = None
    job: NewJob | None = None


@dataclass(slots=True, eq=False, repr=False)
class Admitted:
    """A hold that was granted in memory, out of a lease of the process of this id; not written yet.

    As a message: write it. `used` is what it takes of the lease until then, in nano-USD.
    """

    hold: Hold
    identity: str
    at: float  # monotonic
    used: int
    is_waiting: bool = True  # to be written: neither taken for that nor ended
    is_written: bool = False

    def __repr__(self) -> str:
        return f"<Admitted {self.hold.facts.call_id} by {self.identity}>"

    @property
    def facts(self) -> CallFacts:
        """Of its call."""
        return self.hold.facts


@dataclass(frozen=True, slots=True)
class LeaseChange:
    """Lease so many nano-USD more of an account, at least `least`; negative: give them back."""

    account_id: str
    change: int
    least: int = 0


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
    `upstream_cost_nano_usd` is what the operator pays for it, which no client is shown; None: not
    known. `channel_id` is the last channel that was tried for it.
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
    result_urls: Sequence[str] = ()
    result_expires_at: float | None = None  # Unix seconds
    attempts: Sequence[Mapping[str, Any]] = ()
    upstream_cost_nano_usd: int | None = None
    channel_id: str | None = None
    detail: Mapping[str, Any] | None = None


class Settle(Struct, frozen=True, kw_only=True):
    """Release the hold of a call, take its cost, write its row: all or nothing, once.

    `claim_end` is how its idempotency key ends, if it claimed one. `is_recovery`: it is
    made for a process declared dead, at what is known; should the true settlement come after all,
    row and cost are corrected to it. `job_end`: how its job ends, if it has one; None: it failed,
    with the error of the row. `span`: its part of the call's trace, ended when it is committed.
    `admitted` is its hold where that was not written: both are, together.
    """

    facts: CallFacts
    outcome: Outcome
    claim_end: ClaimEnd = None
    is_recovery: bool = False
    job_end: JobEnd | None = None
    span: ChildSpan | None = None
    admitted: Admitted | None = None


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
    """Answered when every earlier message of the account has been applied."""

    account_id: str


Message = Hold | Admitted | Settle | Void | Record | Barrier | LeaseChange


class LedgerUnavailable(Exception):
    """The ledger cannot be reached; nothing was charged. Try again in a moment."""


def instant(unix_seconds: float) -> str:
    """Unix seconds as RFC 3339 UTC with microseconds, the form the ledger's SQL reads."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat()
