"""`gw events`: what has happened, the oldest first, from a cursor on.

The functions are in `gw/admin/events.py`.
"""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import msgspec

from actors.events.kinds import TYPES
from gw.admin import events as admin
from gw.admin.events import EventQuery
from gw.admin.pagination import PAGE_MAX
from gw.api.logs.rows import Rendering
from gw.cli import arguments
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.output import Result, table
from gw.config.live import LiveConfig
from gw.nouns.refused import Invalid

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

COLUMNS = ("sequence", "timestamp", "type", "account_id", "data")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verb = Verb(
        "list",
        "list events, the oldest first; `next_cursor` goes on where a page ends",
        list_events,
        [
            arguments.account_of("of this account", required=False),
            option("--type", choices=TYPES, help="of this type"),
            arguments.limit(PAGE_MAX),
            option("--cursor", metavar="TEXT", help="`next_cursor` of the page before"),
        ],
    )
    arguments.add_verbs(nouns, "events", "look at what has happened", [verb])


async def list_events(context: Context, options: Namespace) -> Result:
    if options.limit > PAGE_MAX:
        raise Invalid(f"limit: at most {PAGE_MAX}")
    query = EventQuery(
        limit=options.limit,
        cursor=options.cursor,
        type=options.type,
        account_id=options.account,
    )
    config = context.config
    rendering = Rendering(credits_per_usd=config.credits_per_usd, redact=LiveConfig(config).redact)
    page = await admin.page(
        context.database,
        query,
        keep_days=config.events.keep_days,
        show_call=rendering.settled,
    )
    records: list[dict[str, Any]] = msgspec.to_builtins(page.data)
    shown = [{**one, "data": json.dumps(one["data"], ensure_ascii=False)} for one in records]
    text = table(shown, COLUMNS) if shown else "no events"
    return Result(
        {"events": records, "next_cursor": page.next_cursor},
        f"{text}\nnext_cursor: {page.next_cursor}",
    )
