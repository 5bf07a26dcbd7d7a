"""`gw account`: create, list, credit, limit, enable and disable accounts.

The functions are in `gw/admin/accounts.py` (contract §1).
"""

from __future__ import annotations

import json
from argparse import SUPPRESS, Namespace
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from channels.registry import Registry
from gw import accounts
from gw.admin import accounts as admin
from gw.admin import prices
from gw.admin.accounts import AccountChanges, AccountView
from gw.admin.prices import AgreedPriceView
from gw.admin.values import read_chat_model
from gw.cli import arguments, model_options
from gw.cli.context import Context, with_database
from gw.cli.failures import UsageFault
from gw.cli.output import Result, sheet, table

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
PRICE_COLUMNS = ("id", "models", "price", "valid_from", "valid_until", "removed_at")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = arguments.add_noun(nouns, "account", "make, credit, limit and look at accounts")

    create_ = arguments.add_command(verbs, "create", "make an account", with_database(create))
    create_.add_argument("name", metavar="NAME", type=arguments.label, help="as lists show it")
    create_.add_argument(
        "--credit-usd",
        metavar="X",
        type=arguments.usd_or_more,
        default=0,
        help="credit to begin with",
    )
    create_.add_argument("--trial", action="store_true", help="grant the trial credit of 0.30 USD")
    create_.add_argument(
        "--rpm", metavar="N", type=arguments.count, help="requests per minute (default: any)"
    )
    create_.add_argument(
        "--concurrency", metavar="N", type=arguments.count, help="requests at a time (default: any)"
    )

    arguments.add_command(verbs, "list", "list all accounts", with_database(list_))
    _with_id(arguments.add_command(verbs, "show", "show an account", with_database(show)))

    topup_ = arguments.add_command(
        verbs, "topup", "add credit to an account", with_database(topup, check=check_topup)
    )
    _with_id(topup_)
    topup_.add_argument("amount", metavar="USD", type=arguments.usd, help="1 or more")

    text = "book a correction, negative too, as an entry of its own"
    correct_ = arguments.add_command(
        verbs, "correct", text, with_database(correct, check=check_correct)
    )
    _with_id(correct_)
    correct_.add_argument("amount", metavar="USD", type=arguments.usd, help="such as 2.50 or -2.50")
    correct_.add_argument(
        "--reason", metavar="TEXT", type=arguments.reason, required=True, help="for the audit trail"
    )

    limits_ = arguments.add_command(
        verbs, "limits", "set or lift limits", with_database(limits, check=check_limits)
    )
    _with_id(limits_)
    limits_.add_argument(
        "--rpm",
        metavar="N|none",
        type=arguments.or_none(arguments.count),
        default=SUPPRESS,
        help="requests per minute",
    )
    limits_.add_argument(
        "--concurrency",
        metavar="N|none",
        type=arguments.or_none(arguments.count),
        default=SUPPRESS,
        help="at a time",
    )

    text = "say which models its agents call; what is not given stays"
    set_parser = arguments.add_command(verbs, "set", text, with_database(set_, check=check_set))
    _with_id(set_parser)
    set_parser.add_argument(
        "--default-model",
        metavar="MODEL|none",
        type=arguments.or_none(str),
        default=SUPPRESS,
        help="of agents that have none",
    )
    model_options.add_model_options(set_parser)

    text = "agree on a price with an account, take one back, or list them"
    price_ = arguments.add_command(verbs, "price", text, with_database(price, check=check_price))
    _with_id(price_)
    ways = price_.add_mutually_exclusive_group()
    ways.add_argument("--factor", metavar="F", type=prices.read_factor, help="on all prices")
    ways.add_argument(
        "--prices", metavar="JSON", type=prices.read_prices, help="in place of the models' own"
    )
    ways.add_argument(
        "--remove", metavar="PRICE", type=arguments.identifier, help="take this one back"
    )
    price_.add_argument(
        "--models", metavar="GLOB", nargs="+", default=(), help="ids or patterns (default: all)"
    )
    price_.add_argument(
        "--from", dest="valid_from", metavar="INSTANT", type=arguments.instant, help="default: now"
    )
    price_.add_argument(
        "--until",
        dest="valid_until",
        metavar="INSTANT",
        type=arguments.instant,
        help="default: no end",
    )

    _with_id(
        arguments.add_command(verbs, "enable", "let its keys work again", with_database(enable))
    )
    _with_id(arguments.add_command(verbs, "disable", "refuse all its keys", with_database(disable)))


async def create(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        made = await admin.create(
            session,
            actor,
            options.name,
            rpm_limit=options.rpm,
            concurrency_limit=options.concurrency,
            credit_nano_usd=options.credit_usd,
            with_trial=options.trial,
        )
    return _result(made)


async def list_(context: Context, options: Namespace) -> Result:
    found = await accounts.list_all(context.database)
    records = [_record(admin.view(account)) for account in found]
    return Result({"accounts": records}, table(records, COLUMNS))


async def show(context: Context, options: Namespace) -> Result:
    return _result(await admin.show(context.database, options.id))


def check_topup(options: Namespace) -> None:
    admin.check_top_up(options.amount)


async def topup(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        return _result(await admin.top_up(session, actor, options.id, options.amount))


def check_correct(options: Namespace) -> None:
    admin.check_correction(options.amount)


async def correct(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        return _result(
            await admin.correct(session, actor, options.id, options.amount, reason=options.reason)
        )


def check_limits(options: Namespace) -> None:
    if "rpm" not in options and "concurrency" not in options:
        raise UsageFault("nothing to set: give --rpm, --concurrency or both")


async def limits(context: Context, options: Namespace) -> Result:
    changes = AccountChanges()
    if "rpm" in options:
        changes["rpm_limit"] = options.rpm
    if "concurrency" in options:
        changes["concurrency_limit"] = options.concurrency
    return await _change(context, options, changes)


def check_set(options: Namespace) -> None:
    if "default_model" not in options and not model_options.names_models(options):
        raise UsageFault("nothing to set: name at least one setting")


async def set_(context: Context, options: Namespace) -> Result:
    changes, registry = AccountChanges(), context.config.registry
    if "default_model" in options:
        changes["default_model"] = read_chat_model(options.default_model, registry)
    if model_options.names_models(options):
        changes["allowed_models"] = model_options.allowed_models(options, registry)
    return await _change(context, options, changes)


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


async def enable(context: Context, options: Namespace) -> Result:
    return await _change(context, options, {"enabled": True})


async def disable(context: Context, options: Namespace) -> Result:
    return await _change(context, options, {"enabled": False})


async def _change(context: Context, options: Namespace, changes: AccountChanges) -> Result:
    async with context.change() as (session, actor):
        changed = await admin.change(session, actor, options.id, changes)
    await context.in_force()
    return _result(changed)


def _record(account: AccountView) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.to_builtins(account)
    return record


def _result(account: AccountView) -> Result:
    record = _record(account)
    return Result(
        record,
        sheet({**record, "allowed_models": model_options.shown_models(account.allowed_models)}),
    )


def _with_id(parser: Parser) -> None:
    parser.add_argument(
        "id", metavar="ID", type=arguments.identifier, help="of the account, acct_…"
    )
