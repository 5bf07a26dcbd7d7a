"""`gw account`: create, list, credit, limit, enable and disable accounts.

The functions are in `gw/admin/accounts.py` (running.md: Commands).
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from channels.registry import Registry
from gw import accounts
from gw.accounts import ACCOUNT, Account
from gw.admin import accounts as admin
from gw.admin import prices
from gw.admin.prices import AgreedPriceView
from gw.api.logs.grouping import GROUPINGS
from gw.api.logs.usage import UsageQuery, read_account_usage, read_usage_query
from gw.cli import arguments
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.failures import UsageFault
from gw.cli.output import Result, sheet, table
from gw.cli.settings import setting, switching

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers

COLUMNS = (
    "id",
    "name",
    "enabled",
    "balance_usd",
    "available_usd",
    "rpm_limit",
    "concurrency_limit",
)
USAGE_COLUMNS = ("group", "key_name", "requests", "cost_usd", "input_tokens", "output_tokens")
PRICE_COLUMNS = ("id", "models", "price", "valid_from", "valid_until", "removed_at")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    arguments.add_verbs(nouns, "account", "make, credit, limit and look at accounts", _verbs())


def _verbs() -> Iterator[Verb]:
    with_id = arguments.id_of("account, acct_…")
    yield Verb("create", "make an account", create, [ACCOUNT.add_options])
    yield Verb("list", "list all accounts", list_)
    yield Verb("show", "show an account", show, [with_id])
    yield Verb(
        "topup",
        "add credit to an account",
        topup,
        [with_id, admin.TOP_UP.add_options],
        lambda options: admin.check_top_up(options.amount),
    )
    yield Verb(
        "correct",
        "book a correction, negative too, as an entry of its own",
        correct,
        [with_id, admin.CORRECTION.add_options],
        lambda options: admin.check_correction(options.amount),
    )
    yield Verb(
        "usage",
        "what its calls have cost, by what they have",
        usage,
        [
            with_id,
            option("--by", metavar="WHAT", required=True, help=", ".join(GROUPINGS)),
            option("--from", dest="since", metavar="TIME", help="a date or an RFC 3339 time"),
            option("--to", dest="until", metavar="TIME", help="likewise; both or none"),
        ],
        check=lambda options: read_usage_query(_usage_query(options), datetime.now(UTC)),
    )
    text = "set or lift limits"
    yield setting(ACCOUNT, admin.change, _result, with_id, text, verb="limits")
    text = "say below which balances there are events"
    yield setting(ACCOUNT, admin.change, _result, with_id, text, verb="alerts")
    text = "say which models its agents call, and what it demands for data; the rest stays"
    yield setting(ACCOUNT, admin.change, _result, with_id, text)
    yield Verb(
        "price",
        "agree on a price with an account, take one back, or list them",
        price,
        [with_id, _add_price_options],
        check_price,
    )
    yield from switching(
        admin.change,
        _result,
        with_id,
        enable="let its keys work again",
        disable="refuse all its keys",
    )


def _add_price_options(parser: Parser) -> None:
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--factor", metavar="F", type=prices.read_factor, help="on all prices")
    ways.add_argument(
        "--prices", metavar="JSON", type=prices.read_prices, help="in place of the models' own"
    )
    ways.add_argument(
        "--remove", metavar="PRICE", type=arguments.identifier, help="take this one back"
    )
    parser.add_argument(
        "--models", metavar="GLOB", nargs="+", default=(), help="ids or patterns (default: all)"
    )
    parser.add_argument(
        "--from", dest="valid_from", metavar="INSTANT", type=arguments.instant, help="default: now"
    )
    parser.add_argument(
        "--until",
        dest="valid_until",
        metavar="INSTANT",
        type=arguments.instant,
        help="default: no end",
    )


async def create(context: Context, options: Namespace) -> Result:
    new = ACCOUNT.of_options(options, context.config.registry)
    async with context.change() as (session, actor):
        return _result(context, await admin.create(session, actor, new))


async def list_(context: Context, options: Namespace) -> Result:
    records = [ACCOUNT.record(account) for account in await accounts.list_all(context.database)]
    return Result({"accounts": records}, table(records, COLUMNS))


async def show(context: Context, options: Namespace) -> Result:
    return _result(context, await accounts.show(context.database, options.id))


async def topup(context: Context, options: Namespace) -> Result:
    new = admin.TOP_UP.of_options(options, context.config.registry)
    async with context.change() as (session, actor):
        made = await admin.top_up(session, actor, options.id, new)
    return _result(context, made)


async def correct(context: Context, options: Namespace) -> Result:
    new = admin.CORRECTION.of_options(options, context.config.registry)
    async with context.change() as (session, actor):
        made = await admin.correct(session, actor, options.id, new)
    return _result(context, made)


async def usage(context: Context, options: Namespace) -> Result:
    await accounts.show(context.database, options.id)
    found = await read_account_usage(
        context.database,
        options.id,
        _usage_query(options),
        now=datetime.now(UTC),
        credits_per_usd=context.config.credits_per_usd,
    )
    record = msgspec.to_builtins(found)
    total = {name: record[name] for name in ("period_from", "period_to")} | record["total"]
    groups = [{**one, "group": _group_shown(one)} for one in record["by_group"]]
    columns = [name for name in USAGE_COLUMNS if name != "key_name" or options.by == "key"]
    return Result(record, f"{sheet(total)}\n\n{table(groups, columns)}")


def _usage_query(options: Namespace) -> UsageQuery:
    return UsageQuery(by=options.by, since=options.since, until=options.until)


def _group_shown(group: Mapping[str, Any]) -> str:
    if "rest" in group:
        return f"({group['groups']} others)"
    return group["group"] or "(none)"


def check_price(options: Namespace) -> None:
    is_new = options.factor is not None or options.prices is not None
    if not is_new and (options.models or options.valid_from or options.valid_until):
        raise UsageFault("nothing to agree on: give --factor or --prices")
    prices.read_patterns(options.models)


async def price(context: Context, options: Namespace) -> Result:
    if options.remove is not None:
        async with context.change() as (session, actor):
            await prices.remove(session, actor, options.id, options.remove)
        await context.in_force()
    elif options.factor is not None or options.prices is not None:
        async with context.change() as (session, actor):
            await prices.add(
                session,
                actor,
                options.id,
                models=prices.read_patterns(options.models),
                factor=options.factor,
                prices=options.prices,
                valid_from=options.valid_from,
                valid_until=options.valid_until,
            )
        await context.in_force()
    found = await prices.list_of(context.database, options.id)
    registry = context.config.registry
    records: list[dict[str, Any]] = [
        {**msgspec.to_builtins(one), "unmatched": prices.unmatched_of(one.models, registry)}
        for one in found
    ]
    shown = [
        {
            **one,
            "models": ", ".join(one["models"]),
            "price": one["factor"] or json.dumps(one["prices"]),
        }
        for one in records
    ]
    lines = [table(shown, PRICE_COLUMNS), *_warnings(found, registry)]
    return Result({"account": options.id, "prices": records}, "\n".join(lines))


def _warnings(found: Iterable[AgreedPriceView], registry: Registry) -> Iterator[str]:
    """Yield a line for each pattern, of a price that has not ended, that matches no model."""
    now = datetime.now(UTC)
    for one in found:
        if one.removed_at is not None or (one.valid_until is not None and one.valid_until <= now):
            continue
        for pattern in prices.unmatched_of(one.models, registry):
            named = registry.resolve(pattern)
            hint = "" if named is None else f", it is an alias of {named.id}"
            yield f"warning: {one.id}: no configured model has the id {pattern}{hint}"


def _result(context: Context, account: Account) -> Result:
    return Result(ACCOUNT.record(account), sheet(ACCOUNT.readable(account)))
