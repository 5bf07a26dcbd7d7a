"""`gw tasks`: list and cancel asynchronous tasks (contract-media §2).

The functions are in `gw/admin/tasks.py`.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

import msgspec

from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.job import STATES
from channels.http.client import HttpClient
from channels.media.model import TASK_KINDS
from gw.admin import tasks
from gw.admin.audit import Actor
from gw.cli import arguments
from gw.cli.context import Context, with_database
from gw.cli.output import Result, sheet, table
from gw.config.live import LiveConfig
from gw.media_services import endings_of
from metrics.prometheus import Metrics

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

ID_HELP = "of the task, as its submission returned it"
COLUMNS = ("id", "kind", "status", "account", "model", "channel", "created_at")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = arguments.add_noun(nouns, "tasks", "look at asynchronous tasks and cancel them")
    list_ = arguments.add_command(
        verbs, "list", "list tasks, the newest first", with_database(list_tasks)
    )
    list_.add_argument("--account", metavar="ID", type=arguments.identifier, help="of this account")
    list_.add_argument("--status", choices=STATES, help="in this state")
    list_.add_argument("--kind", choices=TASK_KINDS, help="of this kind")
    list_.add_argument(
        "--limit",
        metavar="N",
        type=arguments.count,
        default=store.LIST_MAX,
        help=f"at most so many ({store.LIST_MAX}, which is the most)",
    )
    text = "show a task, its channel and what the upstream calls it"
    show_ = arguments.add_command(verbs, "show", text, with_database(show))
    show_.add_argument("id", metavar="ID", type=arguments.identifier, help=ID_HELP)
    text = "cancel an unfinished task: it is refunded in full, and its upstream asked to stop"
    cancel_ = arguments.add_command(verbs, "cancel", text, with_database(cancel))
    cancel_.add_argument("id", metavar="ID", type=arguments.identifier, help=ID_HELP)


async def list_tasks(context: Context, options: Namespace) -> Result:
    jobs = await store.read_newest(
        context.database,
        account_id=options.account,
        kind=options.kind,
        state=options.status,
        limit=options.limit,
    )
    records: list[dict[str, Any]] = msgspec.to_builtins([tasks.view(job) for job in jobs])
    return Result({"tasks": records}, table(records, COLUMNS) if records else "no tasks")


async def show(context: Context, options: Namespace) -> Result:
    record = msgspec.to_builtins(await tasks.show(context.database, options.id))
    return Result(record, sheet(record))


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
