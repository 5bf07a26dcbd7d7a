"""What operators, and owners in the console, do with budgets; each change is audited.

The tables are `gw/budgets/table.py`. A change is in force everywhere when it is committed, pushed
and `leases_returned`: no process admits a call by what was before.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, structs

from actors.store.session import Session, Statements
from gw import accounts
from gw.admin import audit, pagination
from gw.admin.audit import Actor
from gw.admin.pagination import AccountQuery, Page, PageQuery, page_of
from gw.agents import table as agents
from gw.agents.table import UnknownAgent
from gw.budgets import table
from gw.budgets.breadth import MATCHED_MAX, breadth
from gw.budgets.budget import BUDGET, OPERATOR, OWNER, BudgetRecord, Current, NewBudget
from gw.budgets.canonical import Canonical
from gw.budgets.subject import check_subject, check_value, value_of
from gw.budgets.table import BudgetExists, Live, Shown, UnknownBudget
from gw.cursors import Position
from gw.nouns import values
from gw.nouns.noun import Changes
from gw.nouns.refused import Invalid

# Live ones of an account, and how many of them its owner may have made.
BUDGETS_MAX = 1000
OWNERS_MAX = 100
# A time zone east of UTC, as far as PostgreSQL takes it in an instant; any other is a name.
_OFFSET = re.compile(r"[+-](0\d|1[0-5]):[0-5]\d")


class TooManyBudgets(Exception):
    """The account has as many budgets as it may have, or a call could match too many."""


class BudgetIsOperators(Exception):
    """An operator has made the budget, whom the account's owner does not overrule."""


class BudgetQuery(AccountQuery, frozen=True):
    """The query of a page of budgets. `deleted`: the deleted ones, too."""

    deleted: bool = False


class OneBudget(Struct, frozen=True, forbid_unknown_fields=True):
    """Selects the period of an instant, and the subject of a budget with a sum of each."""

    subject: values.Subject | None = None
    at: values.Instant | None = None


class SumsQuery(PageQuery, frozen=True):
    """The query of a page of sums: of the period of an instant, now by default."""

    at: values.Instant | None = None


class BudgetSum(Current, frozen=True):
    """What a budget has counted for a subject; amounts are decimal strings in USD."""

    subject: str | None


class Counted(Struct, frozen=True, array_like=True):
    """A position in a list by what is spent."""

    spent_nano_usd: int
    subject: Annotated[str, Meta(max_length=256)]


async def page(database: Statements, query: BudgetQuery) -> Page[BudgetRecord]:
    """Return a page of one or all accounts' budgets, newest first.

    Raises UnknownAccount, Invalid.
    """
    if query.account_id is not None:
        await accounts.show(database, query.account_id)
    found = await table.newest(
        database,
        query.account_id,
        limit=query.limit + 1,
        with_deleted=query.deleted,
        after=query.position(Position),
    )
    return page_of(found, query.limit, lambda one: Position(one.created_at, one.id))


async def show(
    database: Statements, budget_id: str, which: OneBudget, canonical: Canonical
) -> BudgetRecord:
    """Return a budget with its figures. Raises UnknownBudget, Invalid, WrongSecret."""
    budget = await table.show(database, budget_id, Shown(at=which.at))
    asked = which.subject
    if asked is not None:
        check_value(budget.scope, asked)
        asked = await canonical.subject(database, budget.account_id, budget.scope, asked)
    value = value_of(budget.scope, budget.subject, asked)
    if not value:
        return budget
    shown = Shown(user=value, end_user=value, run=value, at=which.at)
    return await table.show(database, budget_id, shown)


async def sums(database: Statements, budget_id: str, query: SumsQuery) -> Page[BudgetSum]:
    """Return a page of what a budget has counted, by the most spent.

    Raises UnknownBudget, Invalid.
    """
    budget = await table.show(database, budget_id, Shown(at=query.at))
    last = query.position(Counted)
    found = await table.sums(
        database,
        budget,
        limit=query.limit + 1,
        after=None if last is None else (last.spent_nano_usd, last.subject),
    )
    counted = page_of(
        found, query.limit, lambda one: Counted(one.spent_nano_usd, one.subject or "")
    )
    return pagination.shown(counted, lambda one: _sum(budget, one))


def _sum(budget: BudgetRecord, one: table.Sum) -> BudgetSum:
    assert budget.period_from is not None  # or it would have no sums
    figures = Current.of(
        budget.limit_nano_usd,
        period_from=budget.period_from,
        resets_at=budget.resets_at,
        spent_nano_usd=one.spent_nano_usd,
        held_nano_usd=one.held_nano_usd,
        excess_nano_usd=one.excess_nano_usd,
    )
    return BudgetSum(**structs.asdict(figures), subject=one.subject or budget.subject)


def check_wish(wish: NewBudget) -> None:
    """Raise Invalid for conflicting members of a new budget."""
    check_subject(wish.scope, wish.subject)


async def create(
    session: Session, actor: Actor, wish: NewBudget, canonical: Canonical
) -> BudgetRecord:
    """Create a budget.

    Raises UnknownAccount, Invalid, BudgetExists, TooManyBudgets, WrongSecret.
    """
    check_wish(wish)
    new = replace(wish, made_by=OWNER if actor.kind == "owner" else OPERATOR)
    if new.subject is not None:
        account_id, scope = new.account_id, new.scope
        subject = await canonical.subject(session, account_id, scope, new.subject)
        new = replace(new, subject=subject)
    await _check_zone(session, new.time_zone)
    now = await table.lock(session, new.account_id)
    _check_start(new.starts_at, now)
    await _check_agent(session, new)
    _check_room(new, await table.live(session, new.account_id))
    budget_id = await table.create(session, new, created_at=now)
    return await _noted(session, actor, "budget.create", budget_id, BUDGET.noted_new(new))


async def change(session: Session, actor: Actor, budget_id: str, changes: Changes) -> BudgetRecord:
    """Set the members named by `changes`.

    Raises UnknownBudget, Invalid, BudgetExists, BudgetIsOperators.
    """
    if not changes:
        raise Invalid("nothing to set: name at least one setting")
    before = await _locked(session, actor, budget_id)
    await table.change(session, budget_id, changes.get("name", before.name), changes)
    return await _noted(session, actor, "budget.set", budget_id, BUDGET.noted(changes))


async def delete(session: Session, actor: Actor, budget_id: str) -> BudgetRecord:
    """Delete a budget: no call counts for it from now on but those under way.

    Raises UnknownBudget, BudgetIsOperators.
    """
    await _locked(session, actor, budget_id)
    await table.delete(session, budget_id)
    return await _noted(session, actor, "budget.delete", budget_id, {})


async def _locked(session: Session, actor: Actor, budget_id: str) -> BudgetRecord:
    """Return a live budget that the actor may change, its account locked."""
    found = await table.show(session, budget_id)
    if found.deleted_at is not None:
        raise UnknownBudget(budget_id)
    if actor.kind == "owner" and found.made_by != OWNER:
        raise BudgetIsOperators(found.name)
    await table.lock(session, found.account_id)
    return found


async def _check_zone(session: Session, name: str) -> None:
    """Raise Invalid for a time zone that the database does not know."""
    if name == "UTC" or _OFFSET.fullmatch(name):
        return
    if not await table.is_zone(session, name):
        raise Invalid(
            f"{name[:60]!a} is no time zone: use an IANA name such as Europe/Berlin, or an offset"
            " such as +05:30"
        )


def _check_start(starts_at: datetime | None, now: datetime) -> None:
    if starts_at is not None and starts_at < now:
        raise Invalid("starts_at: it lies in the past; without it a budget starts now")


async def _check_agent(session: Session, new: NewBudget) -> None:
    if new.scope != "agent":
        return
    assert new.subject is not None
    try:
        agent = await agents.show(session, new.subject)
    except UnknownAgent:
        agent = None
    if agent is None or agent.account_id != new.account_id:
        raise Invalid(f"the account {new.account_id} has no agent {new.subject}")


def _check_room(new: NewBudget, live: list[Live]) -> None:
    """Raise BudgetExists, TooManyBudgets for a budget that does not fit beside the others."""
    place = new.scope, new.subject, new.period
    for one in live:
        if one.name == new.name or one.place == place:
            raise BudgetExists(one.name)
    if len(live) >= BUDGETS_MAX:
        raise TooManyBudgets(f"an account has at most {BUDGETS_MAX}")
    if new.made_by == OWNER and sum(one.made_by == OWNER for one in live) >= OWNERS_MAX:
        raise TooManyBudgets(f"an account's owner makes at most {OWNERS_MAX}")
    if breadth([place, *(one.place for one in live)]) > MATCHED_MAX:
        raise TooManyBudgets(f"with it a call could match more than {MATCHED_MAX}")


async def _noted(
    session: Session, actor: Actor, action: str, budget_id: str, details: Changes
) -> BudgetRecord:
    found = await table.show(session, budget_id)
    await audit.note(
        session, actor, action, budget_id, account_id=found.account_id, details=details
    )
    return found
