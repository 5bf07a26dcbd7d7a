"""`gw webhook`: have events sent to addresses, look at deliveries, deliver again.

The table is `gw/webhooks/table.py`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from actors.clock import SystemClock
from gw.admin import webhooks as admin
from gw.admin.audit import Actor
from gw.admin.pagination import PAGE_MAX, AccountQuery
from gw.admin.webhooks import (
    KEEP_HOURS_DEFAULT,
    KEEP_HOURS_MAX,
    DeliveryQuery,
    Replay,
    WebhookWithSecret,
    with_secret,
)
from gw.cli import arguments
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.failures import UsageFault
from gw.cli.output import Result, sheet, table
from gw.keys.sealing import KeySealer
from gw.nouns.noun import Changes
from gw.webhooks import table as webhooks
from gw.webhooks.settings import settings_of
from gw.webhooks.table import STATUSES, Delivery
from gw.webhooks.webhook import WEBHOOK, WEBHOOKS_MAX, WebhookRecord

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

COLUMNS = ("id", "url", "account_id", "enabled", "pending", "dead")
DELIVERY_COLUMNS = (
    *("event_id", "sequence", "type", "status", "attempts"),
    *("last_attempt_at", "last_outcome", "next_attempt_at"),
)


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    arguments.add_verbs(nouns, "webhook", "have events sent to addresses", _verbs())


def _verbs() -> Iterator[Verb]:
    with_id = arguments.id_of("webhook, whk_…")
    text = "have events sent to an address, and print its secret, once"
    yield Verb("create", text, create, [WEBHOOK.add_options])
    of_account = arguments.account_of("of this one alone", required=False)
    yield Verb("list", "list webhooks", list_, [of_account])
    yield Verb("show", "show a webhook", show, [with_id])
    text = "change a webhook; what is not given stays"
    yield Verb("set", text, set_, [with_id, WEBHOOK.add_settings], check_set)
    yield Verb("enable", "go on sending, what has waited too", enable, [with_id])
    yield Verb("disable", "send nothing for now; events wait", disable, [with_id])
    yield Verb("delete", "send nothing more, for good", delete, [with_id])
    yield Verb(
        "rotate",
        "make another secret and print it, once; the one before signs too for a while",
        rotate,
        [
            with_id,
            option(
                "--keep-hours",
                metavar="N",
                type=keep_hours,
                default=KEEP_HOURS_DEFAULT,
                help=f"0 to {KEEP_HOURS_MAX} (default: {KEEP_HOURS_DEFAULT})",
            ),
        ],
    )
    yield Verb("test", "send a webhook.test now, once", test, [with_id])
    yield Verb(
        "deliveries",
        "list deliveries, the newest events first",
        deliveries,
        [
            with_id,
            option("--status", choices=STATUSES, help="of these alone"),
            arguments.limit(PAGE_MAX),
            option("--cursor", metavar="TEXT", help="`next_cursor` of the page before"),
        ],
        check_deliveries,
    )
    yield Verb(
        "replay",
        "deliver again: an event, those of a span of time, or all dead ones",
        replay,
        [
            with_id,
            option("--event", metavar="ID", type=arguments.identifier, help="this one"),
            option("--from", dest="since", metavar="TIME", type=arguments.instant, help="from"),
            option("--to", dest="until", metavar="TIME", type=arguments.instant, help="until"),
            option("--dead", action="store_true", help="all that are dead"),
        ],
        lambda options: admin.check_replay(_wish(options)),
    )


def keep_hours(text: str) -> int:
    """Read how many hours a secret is kept."""
    return 0 if text == "0" else arguments.count(text)


def check_set(options: Namespace) -> None:
    if not WEBHOOK.changes_of_options(options, None):
        raise UsageFault("nothing to set: name at least one setting")


def check_deliveries(options: Namespace) -> None:
    if options.limit > PAGE_MAX:
        raise UsageFault(f"--limit: at most {PAGE_MAX}")


async def create(context: Context, options: Namespace) -> Result:
    new = WEBHOOK.of_options(options, context.config.registry)
    settings, sealer = settings_of(context.config), KeySealer(context.secret())
    async with context.change() as (session, actor):
        made, secret = await admin.create(session, actor, new, settings=settings, sealer=sealer)
    await context.in_force()
    return _with_secret(with_secret(made, secret))


async def list_(context: Context, options: Namespace) -> Result:
    query = AccountQuery(limit=WEBHOOKS_MAX, account_id=options.account)
    found = (await admin.page(context.database, query)).data
    records = [WEBHOOK.record(one) for one in found]
    return Result({"webhooks": records}, table(records, COLUMNS))


async def show(context: Context, options: Namespace) -> Result:
    return _result(await webhooks.show(context.database, options.id))


async def set_(context: Context, options: Namespace) -> Result:
    changes = WEBHOOK.changes_of_options(options, context.config.registry)
    return await _changed(context, options.id, changes)


async def enable(context: Context, options: Namespace) -> Result:
    return await _changed(context, options.id, {"enabled": True})


async def disable(context: Context, options: Namespace) -> Result:
    return await _changed(context, options.id, {"enabled": False})


async def delete(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        deleted = await admin.delete(session, actor, options.id)
    await context.in_force()
    return _result(deleted)


async def rotate(context: Context, options: Namespace) -> Result:
    sealer = KeySealer(context.secret())
    async with context.change() as (session, actor):
        webhook, secret = await admin.rotate(
            session, actor, options.id, options.keep_hours, sealer=sealer
        )
    await context.in_force()
    return _with_secret(with_secret(webhook, secret))


async def test(context: Context, options: Namespace) -> Result:
    sent = await admin.test(
        context.database,
        Actor.of_this_process(),
        options.id,
        settings=settings_of(context.config),
        sealer=KeySealer(context.secret()),
        clock=SystemClock(),
    )
    record = _record(sent)
    return Result(record, sheet(record), exit_code=0 if sent.status == "delivered" else 1)


async def deliveries(context: Context, options: Namespace) -> Result:
    query = DeliveryQuery(limit=options.limit, status=options.status, cursor=options.cursor)
    page = await admin.deliveries(context.database, options.id, query)
    records = [_record(one) for one in page.data]
    record: dict[str, Any] = {"deliveries": records}
    text = table(records, DELIVERY_COLUMNS)
    if page.next_cursor is None:
        return Result(record, text)
    return Result(
        {**record, "next_cursor": page.next_cursor}, f"{text}\n\nmore: --cursor {page.next_cursor}"
    )


async def replay(context: Context, options: Namespace) -> Result:
    settings = settings_of(context.config)
    async with context.change() as (session, actor):
        done = await admin.replay(session, actor, options.id, _wish(options), settings=settings)
    record = msgspec.to_builtins(done)
    return Result(record, sheet(record))


async def _changed(context: Context, webhook_id: str, changes: Changes) -> Result:
    settings = settings_of(context.config)
    async with context.change() as (session, actor):
        changed = await admin.change(session, actor, webhook_id, changes, settings=settings)
    await context.in_force()
    return _result(changed)


def _wish(options: Namespace) -> Replay:
    return Replay(event=options.event, since=options.since, until=options.until, dead=options.dead)


def _result(webhook: WebhookRecord) -> Result:
    return Result(WEBHOOK.record(webhook), sheet(WEBHOOK.readable(webhook)))


def _with_secret(shown: WebhookWithSecret) -> Result:
    record: Mapping[str, Any] = msgspec.to_builtins(shown)
    return Result(record, f"{sheet(record)}\n\nThe secret is not shown again.")


def _record(delivery: Delivery) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.to_builtins(delivery)
    return record
