"""`gw account`: make accounts, look at them, give them credit, limit, enable and disable them.

What is done is `gw/admin/accounts.py` (contract §1).
"""

from __future__ import annotations

from argparse import SUPPRESS, Namespace
from typing import TYPE_CHECKING, Any

import msgspec

from gw import accounts
from gw.admin import accounts as admin
from gw.admin.accounts import AccountChanges, AccountView
from gw.admin.values import read_chat_model
from gw.cli.arguments import (
    Context,
    Result,
    UsageFault,
    add_command,
    add_model_options,
    add_noun,
    allowed_models,
    count,
    identifier,
    label,
    names_models,
    or_none,
    sheet,
    shown_models,
    table,
    usd,
    usd_or_more,
    with_database,
)

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


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "account", "make, credit, limit and look at accounts")

    create_ = add_command(verbs, "create", "make an account", with_database(create))
    create_.add_argument("name", metavar="NAME", type=label)
    create_.add_argument(
        "--credit-usd", metavar="X", type=usd_or_more, default=0, help="credit to begin with"
    )
    create_.add_argument("--trial", action="store_true", help="grant the trial credit of 0.30 USD")
    create_.add_argument(
        "--rpm", metavar="N", type=count, help="requests per minute (default: any)"
    )
    create_.add_argument(
        "--concurrency", metavar="N", type=count, help="requests at a time (default: any)"
    )

    add_command(verbs, "list", "list all accounts", with_database(list_))
    _with_id(add_command(verbs, "show", "show an account", with_database(show)))

    topup_ = add_command(
        verbs, "topup", "add credit to an account", with_database(topup, check=check_topup)
    )
    _with_id(topup_)
    topup_.add_argument("amount", metavar="USD", type=usd, help="1 or more")

    limits_ = add_command(
        verbs, "limits", "set or lift limits", with_database(limits, check=check_limits)
    )
    _with_id(limits_)
    limits_.add_argument(
        "--rpm", metavar="N|none", type=or_none(count), default=SUPPRESS, help="requests per minute"
    )
    limits_.add_argument(
        "--concurrency", metavar="N|none", type=or_none(count), default=SUPPRESS, help="at a time"
    )

    text = "say which models its agents call; what is not given stays"
    set_parser = add_command(verbs, "set", text, with_database(set_, check=check_set))
    _with_id(set_parser)
    set_parser.add_argument(
        "--default-model",
        metavar="MODEL|none",
        type=or_none(str),
        default=SUPPRESS,
        help="of agents that have none",
    )
    add_model_options(set_parser)

    _with_id(add_command(verbs, "enable", "let its keys work again", with_database(enable)))
    _with_id(add_command(verbs, "disable", "refuse all its keys", with_database(disable)))


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
    if "default_model" not in options and not names_models(options):
        raise UsageFault("nothing to set: name at least one setting")


async def set_(context: Context, options: Namespace) -> Result:
    changes, registry = AccountChanges(), context.config.registry
    if "default_model" in options:
        changes["default_model"] = read_chat_model(options.default_model, registry)
    if names_models(options):
        changes["allowed_models"] = allowed_models(options, registry)
    return await _change(context, options, changes)


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
    return Result(record, sheet({**record, "allowed_models": shown_models(account.allowed_models)}))


def _with_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=identifier, help="of the account, acct_…")
