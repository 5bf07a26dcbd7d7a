"""Jobs in PostgreSQL, as functions: accept, read, list, claim for polling, book.

The ledger (`actors/wallet`) begins and ends jobs, in the transactions that move their money.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

import msgspec
import ujson
from msgspec import Struct

from actors.jobs.job import VISIBLE, Acceptance, Job, State
from actors.jobs.state_machine import Watch
from actors.store.connection import Executor
from actors.store.queries import load
from actors.wallet.attribution import attribution_of
from actors.wallet.claims import ClaimEnd, end_to_json
from actors.wallet.messages import CallFacts
from actors.wallet.storable import to_json
from channels.media.model import TaskKind
from channels.media.results import TaskResult

# Rows of one list; a client requests more by page.
LIST_MAX = 1000
_INSTANTS = frozenset(("submitted_at", "deadline_at", "ended_at"))
_EXPRESSIONS: Mapping[str, str] = {
    "state": "state::text",
    "call_id": "j.call_id::text",
    "account_id": "j.account_id",
    "key_id": "j.key_id",
    "price": "(billing -> 'price')::text",
    "quantity": "(billing ->> 'quantity')::bigint",
    "held": "coalesce(billing ->> 'held', billing ->> 'quantity')::bigint",
    "request": "request::text",
    "stored_result": "result::text",
    "upstream_protocol": "wire",
    **{name: f"extract(epoch FROM {name})::float8" for name in _INSTANTS},
}
_NAMES = tuple(field.name for field in fields(Job))
COLUMNS = ", ".join(_EXPRESSIONS.get(name, name) for name in _NAMES)
SQL: Mapping[str, str] = {
    name: sql.replace("{columns}", COLUMNS) for name, sql in load("actors.jobs", "jobs.sql").items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A job that may be ended, its hold and the row's data of its submission."""

    job: Job
    facts: CallFacts
    amount_nano_usd: int
    attempts: Sequence[Mapping[str, Any]]
    detail: Mapping[str, Any]


class Claimed(Struct, frozen=True, kw_only=True):
    """A job claimed for polling. `lag_seconds` is the time since it was due.

    `taken_from` is the expired claim of another process; None: it was free.
    """

    job_id: str
    claim_id: str
    kind: TaskKind
    account_id: str
    model: str
    channel_id: str
    upstream_protocol: str
    upstream_id: str
    polls: int
    watch: Watch
    taken_from: str | None
    lag_seconds: float
    is_overdue: bool


class Booked(Struct, frozen=True, kw_only=True):
    """The result of a poll that did not end its job, and the pause until the next."""

    claimed: Claimed
    watch: Watch
    pause_seconds: float


async def accept(
    database: Executor,
    facts: CallFacts,
    acceptance: Acceptance,
    *,
    pause_seconds: float,
    claim_end: ClaimEnd = None,
) -> bool:
    """Record that an upstream has accepted the job of a call: it gets the hold, and is polled.

    `claim_end`: the new state of its idempotency key; None: it stays claimed as long as the job is
    open. False if the call was settled before, because its process was declared dead. Repeat it
    after StoreUnavailable, which it raises: it is idempotent.
    """
    ended = None
    if claim_end is not None:
        ended = to_json([{"call_id": facts.call_id.hex, **end_to_json(claim_end)}])
    submission = {"attempts": acceptance.attempts, "detail": acceptance.detail or {}}
    ((is_accepted,),) = await database.fetch_all(
        SQL["accept"],
        (
            facts.job_id,
            facts.call_id.hex,
            acceptance.channel_id,
            acceptance.upstream_protocol,
            acceptance.upstream_model,
            acceptance.upstream_id,
            to_json(submission),
            pause_seconds,
            ended,
        ),
    )
    return bool(is_accepted)


async def read(database: Executor, job_id: str, *, account_id: str | None) -> Job | None:
    """Return a job that its account may see; with `account_id` None, any job."""
    rows = await database.fetch_all(SQL["one"], {"id": job_id, "account": account_id})
    return _job(rows[0]) if rows else None


async def read_of_account(
    database: Executor,
    account_id: str,
    kind: TaskKind,
    *,
    states: Sequence[State] = VISIBLE,
    limit: int,
    before: str | None = None,
) -> list[Job]:
    """Return an account's jobs of a kind, newest first, older than `before`, a job of its own."""
    rows = await database.fetch_all(
        SQL["of_account"],
        {
            "account": account_id,
            "kind": kind,
            "states": list(states),
            "limit": min(limit, LIST_MAX),
            "before": before,
        },
    )
    return list(map(_job, rows))


async def read_newest(
    database: Executor,
    *,
    account_id: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    before: str | None = None,
    limit: int = LIST_MAX,
) -> list[Job]:
    """Return jobs of all accounts, even unaccepted ones, newest first, older than `before`."""
    what = {
        "account": account_id,
        "kind": kind,
        "state": state,
        "before": before,
        "limit": min(limit, LIST_MAX),
    }
    rows = await database.fetch_all(SQL["newest"], what)
    return list(map(_job, rows))


async def delete(database: Executor, job_id: str, account_id: str, kind: TaskKind) -> bool:
    """Hide a job's result from its account; False if the job is open or unknown."""
    return bool(await database.fetch_all(SQL["delete"], (job_id, account_id, kind)))


async def renew_result(database: Executor, job_id: str, result: TaskResult) -> None:
    """Store a job's result with renewed links."""
    await database.fetch_all(SQL["renew_result"], (to_json(msgspec.to_builtins(result)), job_id))


async def claim_renewals(
    database: Executor, job_ids: Sequence[str], again_seconds: float
) -> list[str]:
    """Claim the jobs whose links were not renewed for so long; return their ids."""
    rows = await database.fetch_all(SQL["claim_renewals"], (list(job_ids), again_seconds))
    return [row[0] for row in rows]


async def read_open(database: Executor, job_id: str) -> OpenJob | None:
    """Return the data needed to end a job; None if it has ended, or was never accepted."""
    rows = await database.fetch_all(SQL["open"], (job_id,))
    if not rows:
        return None
    *columns, amount, submission, attribution = rows[0]
    job = _job(tuple(columns))
    members = submission if isinstance(submission, Mapping) else ujson.loads(submission)
    return OpenJob(
        job=job,
        facts=CallFacts(
            call_id=job.call_id,
            account_id=job.account_id,
            key_id=job.key_id,
            protocol=job.protocol,
            model=job.model,
            submitted_at=job.submitted_at,
            job_id=job.id,
            attribution=None if attribution is None else attribution_of(ujson.loads(attribution)),
        ),
        amount_nano_usd=amount,
        attempts=members["attempts"],
        detail=members["detail"],
    )


async def read_end(database: Executor, job_id: str) -> tuple[str | None, State] | None:
    """Return the end (`JobEnd.by`) and state of a job; None for an unknown one."""
    rows = await database.fetch_all(SQL["ended"], (job_id,))
    return (rows[0][0], rows[0][1]) if rows else None


async def claim(
    database: Executor,
    *,
    shares: Mapping[str, int],
    limit: int,
    claim_id: str,
    claim_seconds: float,
) -> list[Claimed]:
    """Claim due jobs, at most `limit`, and of each channel at most its share."""
    what = {
        "channels": list(shares),
        "counts": list(shares.values()),
        "limit": limit,
        "claim_id": claim_id,
        "seconds": claim_seconds,
    }
    rows = await database.fetch_all(SQL["claim"], what)
    return [_claimed(row, claim_id) for row in rows]


async def claim_overdue_elsewhere(
    database: Executor, *, known: Sequence[str], limit: int, claim_id: str, claim_seconds: float
) -> list[Claimed]:
    """Claim overdue jobs on channels that are not among the known ones."""
    gone = [row[0] for row in await database.fetch_all(SQL["gone_channels"], (list(known),))]
    if not gone:
        return []
    what = {"channels": gone, "limit": limit, "claim_id": claim_id, "seconds": claim_seconds}
    rows = await database.fetch_all(SQL["claim_overdue"], what)
    return [_claimed(row, claim_id) for row in rows]


async def book(database: Executor, seen: Sequence[Booked]) -> None:
    """Book polls that did not end their jobs; those under a lost claim are ignored."""
    watches = [one.watch for one in seen]
    what = {
        "ids": [one.claimed.job_id for one in seen],
        "claim_ids": [one.claimed.claim_id for one in seen],
        "pauses": [one.pause_seconds for one in seen],
        "failures": [watch.failures for watch in watches],
        "not_found": [watch.not_found for watch in watches],
        "unknown": [watch.has_logged_unknown for watch in watches],
        "states": [watch.state for watch in watches],
        "progress": [watch.progress for watch in watches],
    }
    await database.fetch_all(SQL["book"], what)


async def read_quiet_seconds(
    database: Executor, channels: Collection[str], *, tick_seconds: float
) -> float | None:
    """Return for how long no job of these channels is due; None if none is open.

    0 if it is less than a tick, or while any process polls: booked jobs may be due at any time.
    """
    rows = await database.fetch_all(SQL["quiet"], (tick_seconds, list(channels)))
    seconds: float | None = rows[0][0]
    return seconds


async def read_in_flight(database: Executor) -> dict[str, int]:
    """Return the number of open jobs of each kind, over all processes."""
    return dict(await database.fetch_all(SQL["in_flight"]))


def _job(row: Sequence[Any]) -> Job:
    fields = dict(zip(_NAMES, row, strict=True))
    fields["call_id"] = UUID(fields["call_id"])
    for name in ("request", "price", "stored_result"):
        text = fields[name]
        fields[name] = None if text is None else ujson.loads(text)
    return Job(**fields)


def _claimed(row: Sequence[Any], claim_id: str) -> Claimed:
    job_id, kind, state, account_id, model, channel_id = row[:6]
    upstream_protocol, upstream_id, progress = row[6:9]
    polls, failures, not_found, has_logged_unknown, before, lag, is_overdue = row[9:]
    return Claimed(
        job_id=job_id,
        claim_id=claim_id,
        kind=kind,
        account_id=account_id,
        model=model,
        channel_id=channel_id,
        upstream_protocol=upstream_protocol,
        upstream_id=upstream_id,
        polls=polls,
        watch=Watch(
            state=state,
            progress=progress,
            failures=failures,
            not_found=not_found,
            has_logged_unknown=has_logged_unknown,
        ),
        taken_from=before,
        lag_seconds=max(0.0, lag),
        is_overdue=is_overdue,
    )
