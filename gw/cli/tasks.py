"""`gw tasks`: list and cancel asynchronous tasks (reference 7.3).

The functions are in `gw/admin/tasks.py`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.job import STATES
from channels.http.client import HttpClient
from channels.media.model import TASK_KINDS
from gw.admin import tasks
from gw.admin.audit import Actor
from gw.admin.tasks import TASK
from gw.cli import arguments
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.output import Result, sheet, table
from gw.config.live import LiveConfig
from gw.media_services import endings_of
from metrics.prometheus import Metrics

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

COLUMNS = ("id", "kind", "status", "account", "model", "channel", "created_at")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    arguments.add_verbs(nouns, "tasks", "look at asynchronous tasks and cancel them", _verbs())


def _verbs() -> Iterator[Verb]:
    with_id = arguments.id_of("task, as its submission returned it")
    yield Verb(
        "list",
        "list tasks, the newest first",
        list_tasks,
        [
            arguments.account_of("of this account", required=False),
            option("--status", choices=STATES, help="in this state"),
            option("--kind", choices=TASK_KINDS, help="of this kind"),
            arguments.limit(store.LIST_MAX),
        ],
    )
    yield Verb("show", "show a task, its channel and what the upstream calls it", show, [with_id])
    text = "cancel an unfinished task: it is refunded in full, and its upstream asked to stop"
    yield Verb("cancel", text, cancel, [with_id])


async def list_tasks(context: Context, options: Namespace) -> Result:
    jobs = await store.read_newest(
        context.database,
        account_id=options.account,
        kind=options.kind,
        state=options.status,
        limit=options.limit,
    )
    records = [TASK.record(tasks.record_of(job)) for job in jobs]
    return Result({"tasks": records}, table(records, COLUMNS) if records else "no tasks")


async def show(context: Context, options: Namespace) -> Result:
    task = await tasks.show(context.database, options.id)
    return Result(TASK.record(task), sheet(TASK.readable(task)))


async def cancel(context: Context, options: Namespace) -> Result:
    config, clock = context.config, SystemClock()
    current, http = LiveConfig(config), HttpClient(connect_seconds=config.timeouts.connect)

    endings = endings_of(
        current,
        database=context.database,
        http=http,
        secret=context.secret(),
        clock=clock,
        metrics=Metrics(),
    )
    try:
        done = await tasks.cancel(context.database, Actor.of_this_process(), options.id, endings)
    finally:
        await http.close()
    record = msgspec.to_builtins(done)
    return Result(record, sheet(record))
