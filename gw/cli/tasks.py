"""`gw tasks`: look at asynchronous tasks and cancel them (contract-media §2).

A cancellation is one transaction in the database, whichever process polls the task meanwhile; then
its upstream is asked to give up, if it can be. What tasks are is `actors/jobs`.
"""

from __future__ import annotations

import uuid
from argparse import Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.ending import Settles
from actors.jobs.job import STATES, Job, ended_as
from actors.store.database import Database
from actors.wallet.ledger import Batch, apply
from actors.wallet.messages import CallFacts, JobEnd, Outcome, Settle
from actors.wallet.pricing import format_usd
from channels.http.client import HttpWire
from channels.media.model import TASK_KINDS
from gw.cli.arguments import (
    CommandRefused,
    Context,
    Result,
    add_command,
    add_noun,
    count,
    identifier,
    rfc3339,
    sheet,
    table,
    with_database,
)
from gw.config.config import LiveConfig
from gw.media_services import make_endings, make_upstreams
from metrics.prometheus import Metrics

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

COLUMNS = ("id", "kind", "status", "account", "model", "channel", "created_at")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "tasks", "look at asynchronous tasks and cancel them")
    list_ = add_command(verbs, "list", "list tasks, the newest first", with_database(list_tasks))
    list_.add_argument("--account", metavar="ID", type=identifier, help="of this account")
    list_.add_argument("--status", choices=STATES, help="in this state")
    list_.add_argument("--kind", choices=TASK_KINDS, help="of this kind")
    list_.add_argument(
        "--limit",
        metavar="N",
        type=count,
        default=store.LIST_MAX,
        help=f"at most so many ({store.LIST_MAX}, which is the most)",
    )
    text = "show a task, its channel and what the upstream calls it"
    show_ = add_command(verbs, "show", text, with_database(show))
    show_.add_argument("id", metavar="ID", type=identifier)
    text = "cancel an unfinished task: it is refunded in full, and its upstream asked to stop"
    cancel_ = add_command(verbs, "cancel", text, with_database(cancel))
    cancel_.add_argument("id", metavar="ID", type=identifier)


async def list_tasks(context: Context, options: Namespace) -> Result:
    jobs = await store.read_newest(
        context.database,
        account_id=options.account,
        kind=options.kind,
        state=options.status,
        limit=options.limit,
    )
    records = [_record(job) for job in jobs]
    return Result({"tasks": records}, table(records, COLUMNS) if records else "no tasks")


async def show(context: Context, options: Namespace) -> Result:
    record = _record(await _find(context.database, options.id))
    return Result(record, sheet(record))


async def cancel(context: Context, options: Namespace) -> Result:
    job = await _find(context.database, options.id)
    if job.has_ended:
        raise CommandRefused(f"the task {job.id} has ended: {job.state}", "task_finished")
    if job.upstream_id is None:
        raise CommandRefused(
            f"the task {job.id} is still being submitted; try again when it is", "task_submitting"
        )
    config, clock = context.config, SystemClock()
    current, wire = LiveConfig(config), HttpWire(connect_seconds=config.timeouts.connect)
    try:
        endings = make_endings(
            current,
            database=context.database,
            settle=_settled_in(context.database),
            upstreams=make_upstreams(current, wire=wire, clock=clock),
            secret=context.secret(),
            clock=clock,
            metrics=Metrics(),
        )
        ended = await endings.end(job.id, ended_as(job.kind, "cancelled", asks_to_cancel=True))
    finally:
        await wire.close()
    if ended is None:  # its upstream was quicker
        job = await _find(context.database, job.id)
        raise CommandRefused(f"the task {job.id} has ended: {job.state}", "task_finished")
    refunded = format_usd(ended.held_nano_usd)
    record = {"id": job.id, "status": "cancelled", "refunded_usd": refunded}
    return Result(record, sheet(record))


def _settled_in(database: Database) -> Settles:
    """Settlements of a command, which has no ledger writer: each a transaction of its own."""

    async def settle(facts: CallFacts, outcome: Outcome, job_end: JobEnd) -> None:
        settlement = Settle(facts=facts, outcome=outcome, job_end=job_end)
        await apply(database, f"gw tasks {uuid.uuid4().hex}", Batch(settlements=[settlement]))

    return settle


async def _find(database: Database, job_id: str) -> Job:
    job = await store.read(database, job_id, account_id=None)
    if job is None:
        raise CommandRefused(f"there is no task {job_id}", "task_not_found")
    return job


def _record(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "status": job.state,
        "account": job.account_id,
        "key": job.key_id,
        "model": job.model,
        "channel": job.channel_id,
        "upstream_id": job.upstream_id,
        "progress": job.progress,
        "error_code": job.error_code,
        "error_message": job.error_message,
        "request_id": job.call_id.hex,
        "created_at": _instant(job.submitted_at),
        "deadline_at": _instant(job.deadline_at),
        "ended_at": _instant(job.ended_at),
    }


def _instant(unix_seconds: float | None) -> str | None:
    if unix_seconds is None:
        return None
    return rfc3339(datetime.fromtimestamp(unix_seconds, UTC))
