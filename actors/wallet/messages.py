"""The messages to a wallet and its replies: frozen values without behaviour.

Messages are imperative (`Hold`, `Settle`), replies are facts (`Granted`, `Refused`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any, Literal, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Struct

from actors.wallet.attribution import Attribution
from actors.wallet.claims import Claim, ClaimEnd, ClaimState
from channels.media.model import TaskKind
from metrics.spans import ChildSpan

EndState: TypeAlias = Literal["succeeded", "failed", "expired", "cancelled"]


class NewJob(Struct, frozen=True, kw_only=True):
    """The job that a call begins (`CallFacts.job_id`), made with the hold of its money.

    It ends in the transaction that settles it, whichever process does so and for whatever reason,
    so that state, money and row cannot disagree. While its call is submitted, the hold belongs to
    the process: if that dies, recovery releases it and the job has failed. Once an upstream has
    accepted the job, the hold belongs to the job, and recovery, the search for leaks and the drain
    of a process ignore it (`actors/jobs`).
    `price` is its price (`MediaPrice.stated`), fixed from here on. `quantity` is the requested
    quantity in the unit of its kind: milliseconds of video, characters of speech, 1 of anything
    else; it is billed if the upstream does not report how much was made. `held` is the quantity
    that the hold covers; None: the same. `request` is the part of the request that responses need;
    JSON values.
    """

    kind: TaskKind
    price: Mapping[str, str]
    quantity: int
    held: int | None = None
    deadline_seconds: float
    request: Mapping[str, Any] = msgspec.field(default_factory=dict)


class JobEnd(Struct, frozen=True, kw_only=True):
    """How a job ends; its error and end time are those of its row.

    `result` is a `TaskResult` as JSON values. `by` is a unique name of this end, which is kept with
    the job, so that the process that ended it recognises it.
    """

    state: EndState
    by: str
    result: Any = None
    progress: int | None = None


RowStatus = Literal["success", "error", "interrupted", "rejected"]
# `leased`: balance and nodes cover it, except for the leases of processes. `stale_budgets`: the
# nodes of the account have changed since they were matched: read them, match and hold again.
# `too_many_runs`: so many runs of the account have a ceiling that there is no place for another.
RefusalReason = Literal[
    "insufficient_funds",
    "spend_cap",
    "unknown_account",
    "leased",
    "budget",
    "stale_budgets",
    "too_many_runs",
]
# The node that stands for a run's ceiling.
RUN = "run"


class CallFacts(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The facts of a call at admission; enough to write its row if its process dies.

    `job_id`: of the job that it begins; None: it ends with its response. `made_id` is the id of
    what it makes without a job (a voice, a script), if it has one. `attribution`: None where its
    client said nothing.
    """

    call_id: UUID
    account_id: str
    key_id: str
    protocol: str
    model: str
    submitted_at: float  # Unix seconds
    job_id: str | None = None
    made_id: str | None = None
    attribution: Attribution | None = None


class _OfCall(Struct, frozen=True, kw_only=True, gc=False):
    facts: CallFacts

    @property
    def account_id(self) -> str:
        """The account of the call."""
        return self.facts.account_id


class NodeHold(Struct, frozen=True, gc=False):
    """What a call holds on one node that it matches.

    `budget_id`: `RUN` for the run's ceiling. `subject`: of nodes that have a sum for each value,
    and of ceilings, that value. `amount_nano_usd`: 0 of `warn` nodes, which only count.
    `ceiling_nano_usd`: of `RUN`, what this call names; None: it holds on the ceiling if the run
    has one. `model`: the node is of this model of the call's chain, and pays if that serves it.
    """

    budget_id: str
    subject: str = ""
    amount_nano_usd: int = 0
    ceiling_nano_usd: int | None = None
    model: str = ""


class HeldNode(Struct, frozen=True, array_like=True, gc=False):
    """What a call holds on a node in one period: on the sum of this number (`budget_sums`).

    `model`: as of `NodeHold`.
    """

    sum_id: int
    held: int
    model: str = ""


def pays(node: NodeHold | HeldNode, served: str) -> bool:
    """Whether a call that this model of its chain has served costs on a node (`budget_served`).

    Empty: it is not known, or the call is of no chain; then every one pays.
    """
    return not (node.model and served) or node.model == served


class Hold(_OfCall, frozen=True, kw_only=True):
    """Hold `amount_nano_usd` for one call, within the balance and the key's spend cap.

    `detail` is its row's receipt of the price, in case this process dies.
    With a claim, only if the account's idempotency key is free, which is claimed then.
    `job`: the job that the call begins, if it has a `job_id`. `nodes`: what it holds on the budgets
    that it matches, on all of them or on none; `budgets_version`: of the account's nodes by which
    they were matched.
    """

    amount_nano_usd: int
    cap_nano_usd: int | None = None
    detail: Mapping[str, Any] | None = None
    claim: Claim | None = None
    job: NewJob | None = None
    nodes: tuple[NodeHold, ...] = ()
    budgets_version: int = 0


class Admitted(Struct, eq=False, gc=False):
    """A hold granted in memory from the lease of the process of this id; not written yet.

    As a message: write it. `used` is its part of the lease until then, in nano-USD; None: it does
    not count against a lease of ours. `budgets` are the nodes that it is held on, `leases` ours of
    them, one for each; `cost` is what it has cost once it has ended. Then they are those that pay
    for it.
    """

    hold: Hold
    identity: str
    at: float  # monotonic
    used: int | None
    budgets: tuple[HeldNode, ...] = ()
    leases: tuple[NodeLease, ...] = ()
    cost: int = 0

    @property
    def facts(self) -> CallFacts:
        """The facts of its call."""
        return self.hold.facts

    @property
    def account_id(self) -> str:
        """The account of its call."""
        return self.hold.facts.account_id


@dataclass(frozen=True, slots=True)
class LeaseChange:
    """Lease so many more nano-USD of an account, at least `least`; 0 or negative: return them."""

    account_id: str
    change: int
    least: int = 0


class NodeLease(Struct, eq=False):
    """The lease of one node by this process in one period, and what unwritten calls take of it.

    Times are monotonic, amounts in nano-USD.
    """

    account_id: str
    budget_id: str
    subject: str
    last_hold: float
    identity: str = ""  # of the process that leased it
    sum_id: int | None = None  # of node and period; None: the ledger has not said it yet
    until: float = -inf  # the end of the period
    known_at: float = -inf  # when the ledger was asked last
    is_above: bool = False  # it stands at its limit or above
    limit: int | None = None  # of a run
    leased: int = 0  # as the database counts it
    returning: int = 0  # the part being returned
    used: int = 0
    demand: float = 0.0  # nano-USD per second
    ask_after: float = 0.0
    is_asked: bool = False  # a change is requested, up or down
    is_over: bool = False  # returned as soon as nothing uses it

    def __repr__(self) -> str:
        return f"<NodeLease {self.budget_id} {self.leased} used={self.used}>"


@dataclass(frozen=True, slots=True)
class NodeChange:
    """Lease so many more nano-USD of a node in its present period, at least `least`; 0: say only
    what it stands at; negative: return them, of the sum given.
    """

    lease: NodeLease
    change: int
    sum_id: int | None = None
    least: int = 0

    @property
    def account_id(self) -> str:
        """The account of the node."""
        return self.lease.account_id

    @property
    def node(self) -> tuple[str, str, str]:
        """Account, budget and subject."""
        return self.lease.account_id, self.lease.budget_id, self.lease.subject


class Granted(Struct, frozen=True):
    """The hold is granted until the call is settled.

    `warned`: the `warn` nodes that stand above their limit.
    """

    warned: tuple[str, ...] = ()


class BudgetRefusal(Struct, frozen=True, kw_only=True):
    """The node that refused a hold, as the refusing transaction saw it; amounts in nano-USD.

    `resets_at`: Unix seconds; None: never.
    """

    budget_id: str
    subject: str
    needed_nano_usd: int
    remaining_nano_usd: int
    limit_nano_usd: int
    spent_nano_usd: int
    held_nano_usd: int
    resets_at: float | None


class Refused(Struct, frozen=True, kw_only=True):
    """Nothing was held. `budget`: with the reason of that name."""

    reason: RefusalReason
    budget: BudgetRefusal | None = None


class Taken(Struct, frozen=True):
    """Nothing was held: the idempotency key is in use, in this state."""

    state: ClaimState


class Outcome(Struct, frozen=True, omit_defaults=True):
    """How a call ended: one call-log row and its money.

    `units` are in the unit that the call's protocol is billed by (`channels/families.py`).
    `upstream_cost_nano_usd` is what the operator pays for it, never shown to clients; None:
    unknown. `channel_id` is the last channel tried for it. `served`: of a chain, the model that has
    served the call, whose budgets pay for it; empty where none of its models has any. `detail` may
    be encoded already (`encode_detail`).
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
    detail: Mapping[str, Any] | msgspec.Raw | None = None
    served: str = ""


class Settle(Struct, frozen=True, kw_only=True, gc=False):
    """Release the hold of a call, take its cost, write its row: atomically and once.

    Encoded when the call ends (`settlement`), as the ledger's SQL takes it: `row` is a
    `ledger_settlement`, `detail` JSON, `held` a `ledger_admitted`, `job` how its job ends, if it
    has one. `claim_end` is how its idempotency key ends, if it claimed one. `is_recovery`: made for
    a process declared dead, by what is known; if the true settlement arrives later, row and cost
    are corrected to it. `span`: its part of the call's trace, ended at the commit. `admitted` is
    its hold if that is not written: both are written together. `outcome` is what it was encoded
    of, for the quarantine. `exceeding` is the part of the cost beyond a written hold, as it counts
    against a lease until the settlement is written.
    """

    facts: CallFacts
    account_id: str
    cost_nano_usd: int
    row: bytes
    detail: msgspec.Raw
    held: bytes
    job: bytes | None = None
    claim_end: ClaimEnd = None
    is_recovery: bool = False
    span: ChildSpan | None = None
    admitted: Admitted | None = None
    outcome: Outcome | None = None
    exceeding: int = 0

    def __repr__(self) -> str:
        # Without what is encoded: it names the end user, and this is logged.
        shown = f"{self.facts!r}, {self.cost_nano_usd}, {self.outcome!r}"
        return f"{type(self).__name__}({shown})"


class Void(Settle, frozen=True, kw_only=True):
    """Release the hold of a call, if any, whose caller was never notified of it.

    No row is written; the caller, which gave up, writes its own (`Record`). If recovery has settled
    the call meanwhile, that row replaces recovery's. Its idempotency key is freed, and the job that
    it was to begin has failed.
    """


class Record(_OfCall, frozen=True, kw_only=True):
    """Write the row of a call without a hold: it was refused, or given up before its hold."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Barrier:
    """Its reply is sent when every earlier message of the account has been applied."""

    account_id: str


Message = Hold | Admitted | Settle | Record | Barrier | LeaseChange | NodeChange

# What has no waiting caller goes with the next batch, or after this time: what frees a hold, a key
# or a lease, which other processes look at in the database.
LINGER_SECONDS = 0.020
# The same for what a lease covers until it is written, and rows of refused calls: who reads them
# has the batch sent at once (`ops/decisions/leases.md`).
COVERED_LINGER_SECONDS = 0.050


def linger(message: Message) -> float:
    """Return how long a message without a waiting caller may wait for others, in seconds."""
    if isinstance(message, Settle):
        is_covered = message.admitted is not None
    else:
        is_covered = isinstance(message, Record)
    return COVERED_LINGER_SECONDS if is_covered else LINGER_SECONDS


class LedgerUnavailable(Exception):
    """The ledger cannot be reached; nothing was charged, and the client may retry."""


def instant(unix_seconds: float) -> str:
    """Return Unix seconds as RFC 3339 UTC with microseconds, as the ledger's SQL reads it."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat()
