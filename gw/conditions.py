"""What is wrong now: the table of conditions, each with severity, words, threshold and runbook.

They are judged by present values; alerts on rates need Prometheus. Names, severities and
thresholds are those of `ops/prometheus/alerts.yml`, which a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from msgspec import Struct

from actors.store.queries import load
from actors.store.session import Statements
from metrics.groups.config import CERTIFICATE_SECONDS, CERTIFICATE_SECONDS_MIN

SQL = load("gw", "conditions.sql")

# In a checkout; an installation has none.
RUNBOOKS = Path(__file__).resolve().parents[1] / "ops" / "runbooks"

Severity = Literal["critical", "warning"]

HOLD_SECONDS = 600
PROOF_AGE = timedelta(hours=26)
POLL_SECONDS = 30
SLOTS_SHARE = 0.9
ATTEMPTS_MIN, FAILURES_SHARE = 20, 0.1


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table. `thresholds` are shared with the alert of the same name."""

    severity: Severity
    message: str
    thresholds: tuple[float, ...] = ()


# By name, which is the name of a runbook in `ops/runbooks`.
CONDITIONS: Mapping[str, Condition] = {
    "all_channels_open": Condition(
        "critical", "Every channel rests after failures, so calls are refused."
    ),
    "no_channel_available": Condition(
        "critical",
        "Every channel rests after failures or is out of service, so calls are refused.",
    ),
    "channel_open": Condition("warning", "The channel {channel} rests after failures."),
    "channel_key_refused": Condition(
        "warning",
        "Keys of channel {channel} that were refused and are set aside: {aside} of {keys}.",
    ),
    "channel_full": Condition(
        "warning", "Of the {slots} slots of channel {channel}, {used} are taken.", (SLOTS_SHARE,)
    ),
    "attempts_failing": Condition(
        "warning",
        "Of the {attempts} attempts on channel {channel} in the last hour, {failed} failed.",
        (FAILURES_SHARE, ATTEMPTS_MIN),
    ),
    "ledger_off": Condition(
        "critical", "The last proof of the ledger found {faults} rows that break an invariant."
    ),
    "ledger_unproved": Condition(
        "warning",
        "The ledger has not been proved for more than a day.",
        (PROOF_AGE.total_seconds(),),
    ),
    "budget_overshoot": Condition("critical", "A budget has admitted more than its limit."),
    "budget_phantom_refusal": Condition(
        "critical", "A process has refused calls that their budgets had room for."
    ),
    "hold_overdue": Condition(
        "critical", "A hold of a call has been open for {seconds} seconds.", (HOLD_SECONDS,)
    ),
    "settlement_quarantined": Condition(
        "critical", "Settlements or rows that the ledger refused wait to be booked."
    ),
    "tasks_overdue": Condition(
        "critical",
        "A task should have been asked about {seconds} seconds ago.",
        (POLL_SECONDS,),
    ),
    "limits_degraded": Condition(
        "warning",
        "Limits of accounts hold in each process alone: what shares them does not respond.",
    ),
    "call_log_unkept": Condition(
        "warning", "Months of the call log cannot be made ahead or dropped."
    ),
    "calls_shed": Condition("critical", "A process is overloaded and refuses calls."),
    "config_reload_refused": Condition(
        "warning", "The configuration file was refused; the one before is in force."
    ),
    "certificate_expiring": Condition(
        "warning",
        "The certificate that clients are shown expires within two weeks.",
        (CERTIFICATE_SECONDS,),
    ),
    "certificate_expiring_soon": Condition(
        "critical",
        "The certificate that clients are shown expires within three days.",
        (CERTIFICATE_SECONDS_MIN,),
    ),
}


class FoundCondition(Struct, frozen=True):
    """A condition that holds. `name` is that of its alert's runbook, `ops/runbooks/NAME.md`."""

    name: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFacts:
    """A channel over all processes; of the last hour as far as it is known.

    `state` is the worst one: closed, half_open or open, or withdrawn by an operator's order.
    """

    id: str
    state: str
    in_use: int
    slots: int
    keys: int
    aside: int
    hour_attempts: int = 0
    hour_failures: int = 0


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What the database knows: the columns of `conditions` in their order."""

    now: datetime
    proved_at: datetime | None  # None: never
    faults: int | None
    oldest_hold_seconds: float
    late_seconds: float  # of the latest poll of a task
    processes: int  # that are alive


async def read_facts(database: Statements) -> DatabaseFacts:
    """Read what the database knows. Raises StoreUnavailable."""
    return DatabaseFacts(*(await database.fetch_all(SQL["conditions"]))[0])


def conditions_of(
    facts: DatabaseFacts, channels: Sequence[ChannelFacts], reported: Iterable[str]
) -> list[FoundCondition]:
    """Return what is wrong; `reported` are the names that processes report."""
    return [
        *_of_channels(channels),
        *_of_database(facts),
        # A process of another version may report an unknown one.
        *(_found(name) for name in reported if name in CONDITIONS),
    ]


def _of_channels(channels: Sequence[ChannelFacts]) -> Iterator[FoundCondition]:
    """Yield the conditions of channels; a withdrawn one is in order by itself."""
    rest = [one for one in channels if one.state in ("open", "half_open")]
    if channels and len(rest) == len(channels):
        yield _found("all_channels_open")
    elif channels and all(one.state != "closed" for one in channels):
        yield _found("no_channel_available")
    for one in rest:
        yield _found("channel_open", channel=one.id)
    for one in channels:
        if one.aside:
            yield _found("channel_key_refused", channel=one.id, aside=one.aside, keys=one.keys)
        if one.in_use > one.slots * SLOTS_SHARE:
            yield _found("channel_full", channel=one.id, used=one.in_use, slots=one.slots)
        failed, attempts = one.hour_failures, one.hour_attempts
        if attempts > ATTEMPTS_MIN and failed > attempts * FAILURES_SHARE:
            yield _found("attempts_failing", channel=one.id, failed=failed, attempts=attempts)


def _of_database(facts: DatabaseFacts) -> Iterator[FoundCondition]:
    """Yield the conditions of the ledger's proof, of holds and of polls; no proof is none."""
    if facts.faults:
        yield _found("ledger_off", faults=facts.faults)
    if facts.proved_at is not None and facts.now - facts.proved_at > PROOF_AGE:
        yield _found("ledger_unproved")
    if facts.oldest_hold_seconds > HOLD_SECONDS:
        yield _found("hold_overdue", seconds=int(facts.oldest_hold_seconds))
    if facts.late_seconds > POLL_SECONDS:
        yield _found("tasks_overdue", seconds=int(facts.late_seconds))


def _found(name: str, **values: object) -> FoundCondition:
    row = CONDITIONS[name]
    return FoundCondition(name, row.severity, row.message.format(**values))
