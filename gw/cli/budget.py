"""`gw budget`: limits on what a part of an account's calls may cost in a period.

The tables are `gw/budgets/table.py`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from actors.clock import SystemClock
from actors.lease_returns import leases_returned
from gw import accounts
from gw.admin import budgets as admin
from gw.admin.budgets import OneBudget
from gw.budgets import table as budgets
from gw.budgets.budget import BUDGET, BudgetRecord
from gw.budgets.canonical import Canonical
from gw.cli import arguments
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.output import Result, sheet, table
from gw.cli.settings import setting

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

COLUMNS = (
    *("id", "name", "scope", "subject", "period", "action"),
    *("limit_usd", "spent_usd", "held_usd", "remaining_usd", "resets_at"),
)
# More than an account has that are live; of deleted ones the latest.
LISTED_MAX = 10_000


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    text = "limit what a part of an account's calls may cost in a period"
    arguments.add_verbs(nouns, "budget", text, _verbs())


def _verbs() -> Iterator[Verb]:
    with_id = arguments.id_of("budget, bud_…")
    yield Verb("create", "make a budget", create, [BUDGET.add_options], check_budget)
    yield Verb(
        "list",
        "list the budgets of an account, the newest first",
        list_,
        [
            arguments.account_of("of the account, acct_…"),
            option("--deleted", action="store_true", help="the deleted ones, too"),
        ],
    )
    yield Verb(
        "show",
        "show a budget, with its figures in a period",
        show,
        [
            with_id,
            option("--subject", metavar="X", help="of a budget that has a sum of each: whose"),
            option(
                "--at",
                metavar="RFC3339",
                type=arguments.instant,
                help="in the period of this instant (default: now)",
            ),
        ],
    )
    text = "change name, limit, action or warnings; what is not given stays"
    yield setting(BUDGET, admin.change, _result, with_id, text, until=_returned)
    yield Verb("delete", "delete a budget; calls under way still count", delete, [with_id])


def check_budget(options: Namespace) -> None:
    """Raise Invalid for conflicting options."""
    admin.check_wish(BUDGET.of_options(options, None))


async def create(context: Context, options: Namespace) -> Result:
    wish = BUDGET.of_options(options, context.config.registry)
    async with context.change() as (session, actor):
        made = await admin.create(session, actor, wish, _canonical(context))
    return await _changed(context, made)


async def list_(context: Context, options: Namespace) -> Result:
    await accounts.show(context.database, options.account)
    found = await budgets.newest(
        context.database, options.account, limit=LISTED_MAX, with_deleted=options.deleted
    )
    records = [BUDGET.record(one) for one in found]
    shown = [{**dict.fromkeys(COLUMNS), **one, **(one["current"] or {})} for one in records]
    return Result({"budgets": records}, table(shown, COLUMNS))


async def show(context: Context, options: Namespace) -> Result:
    which = OneBudget(subject=options.subject, at=options.at)
    return _result(
        context, await admin.show(context.database, options.id, which, _canonical(context))
    )


async def delete(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        gone = await admin.delete(session, actor, options.id)
    return await _changed(context, gone)


def _canonical(context: Context) -> Canonical:
    config = context.config
    return Canonical(config.registry, config.attribution.end_user, context.secret)


async def _changed(context: Context, budget: BudgetRecord) -> Result:
    await context.in_force()
    await _returned(context, budget)
    return _result(context, budget)


async def _returned(context: Context, budget: BudgetRecord) -> None:
    """Return when no process admits a call by the budgets of before."""
    await leases_returned(context.database, budget.account_id, SystemClock())


def _result(context: Context, budget: BudgetRecord) -> Result:
    record = BUDGET.record(budget)
    current = record.pop("current")
    return Result({**record, "current": current}, sheet({**record, **(current or {})}))
