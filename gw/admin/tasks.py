"""An operator's functions of asynchronous tasks: list, show, cancel.

A cancellation is one transaction in the database, whichever process polls the task meanwhile; then
the upstream's task is cancelled, if possible. The tasks are in `actors/jobs`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Struct

from actors.jobs import store
from actors.jobs.ending import Endings, Settles
from actors.jobs.job import Job, State
from actors.jobs.state_machine import ended_as
from actors.store.database import Database
from actors.store.session import Statements
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import CallFacts, JobEnd, Outcome
from actors.wallet.money import format_usd
from actors.wallet.rows import encode_settlement
from channels.media.model import TaskKind
from gw.admin import audit
from gw.admin.audit import Actor
from gw.admin.pagination import Page, PageQuery, page_of
from gw.nouns import kinds
from gw.nouns.member import Member
from gw.nouns.noun import NothingGiven, Noun
from gw.nouns.refused import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """A task with its channel, and its id at the upstream."""

    id: Annotated[str, Member(kinds.ID)]
    kind: Annotated[TaskKind, Member(replace(kinds.TEXT, shown=TaskKind))]
    status: Annotated[str, Member(kinds.TEXT)]
    account: Annotated[str, Member(kinds.ID)]
    key: Annotated[str, Member(kinds.ID)]
    model: Annotated[str, Member(kinds.TEXT)]
    channel: Annotated[str | None, Member(kinds.TEXT)]
    upstream_id: Annotated[str | None, Member(kinds.TEXT)]
    progress: Annotated[int | None, Member(kinds.COUNT)]
    error_code: Annotated[str | None, Member(kinds.TEXT)]
    error_message: Annotated[str | None, Member(kinds.TEXT)]
    request_id: Annotated[str, Member(kinds.ID)]
    created_at: Annotated[datetime, Member(kinds.INSTANT)]
    deadline_at: Annotated[datetime, Member(kinds.INSTANT)]
    ended_at: Annotated[datetime | None, Member(kinds.INSTANT)]


TASK: Noun[NothingGiven, TaskRecord] = Noun("Task", NothingGiven, TaskRecord, alias="j")


class Cancelled(Struct, frozen=True):
    """A cancelled task, and the refund of its hold."""

    id: str
    status: str
    refunded_usd: str


class TaskQuery(PageQuery, frozen=True):
    """The query of a list of tasks."""

    account_id: str | None = None
    status: State | None = None
    kind: TaskKind | None = None


# Makes the endings of jobs, given the function that applies their settlements.
MakeEndings = Callable[[Settles], Endings]


def record_of(job: Job) -> TaskRecord:
    """Return a task as shown."""
    return TaskRecord(
        id=job.id,
        kind=job.kind,
        status=job.state,
        account=job.account_id,
        key=job.key_id,
        model=job.model,
        channel=job.channel_id,
        upstream_id=job.upstream_id,
        progress=job.progress,
        error_code=job.error_code,
        error_message=job.error_message,
        request_id=job.call_id.hex,
        created_at=_instant(job.submitted_at),
        deadline_at=_instant(job.deadline_at),
        ended_at=None if job.ended_at is None else _instant(job.ended_at),
    )


async def page(database: Statements, query: TaskQuery) -> Page[TaskRecord]:
    """Return a page of tasks, newest first. Raises Invalid."""
    jobs = await store.read_newest(
        database,
        account_id=query.account_id,
        kind=query.kind,
        state=query.status,
        before=query.position(str),
        limit=query.limit + 1,
    )
    return page_of([record_of(job) for job in jobs], query.limit, lambda one: one.id)


async def show(database: Statements, job_id: str) -> TaskRecord:
    """Return one task. Raises Refused."""
    return record_of(await _find(database, job_id))


async def cancel(
    database: Database, actor: Actor, job_id: str, make_endings: MakeEndings
) -> Cancelled:
    """Cancel an unfinished task: full refund. Raises Refused, StoreUnavailable."""
    job = await _find(database, job_id)
    if job.has_ended:
        raise _finished(job)
    if job.upstream_id is None:
        raise Refused(
            f"the task {job.id} is still being submitted; try again when it is", "task_submitting"
        )

    async def settle(facts: CallFacts, outcome: Outcome, job_end: JobEnd) -> None:
        """Settle in a separate transaction, because there is no ledger writer here."""
        settlement = encode_settlement(facts, outcome, job_end=job_end)
        async with database.transaction() as session:
            batch = Batch(settlements=[settlement])
            applied = await apply(session, f"gw tasks {uuid.uuid4().hex}", batch)
            if not applied.unsettled:
                await audit.note(session, actor, "task.cancel", job_id, account_id=facts.account_id)

    asked = ended_as(job.kind, "cancelled", asks_to_cancel=True)
    ended = await make_endings(settle).end(job.id, asked)
    if ended is None:
        job = await _find(database, job.id)
        if job.has_ended:  # its upstream was faster
            raise _finished(job)
        raise Refused(
            f"the task {job.id} has ended, and the ledger refused its settlement: "
            f"`gw ledger quarantine --book {job.call_id}` books it",
            "task_quarantined",
        )
    return Cancelled(job.id, "cancelled", format_usd(ended.held_nano_usd))


def _finished(job: Job) -> Refused:
    return Refused(f"the task {job.id} has ended: {job.state}", "task_finished")


async def _find(database: Statements, job_id: str) -> Job:
    job = await store.read(database, job_id, account_id=None)
    if job is None:
        raise Refused(f"there is no task {job_id}", "task_not_found", http_status=404)
    return job


def _instant(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)
