"""The tables of budgets and of their sums as functions. The SQL is `budgets.sql`.

What is counted is the ledger's (`actors/wallet/`); here it is only read. A running gateway is
notified of each change by the database.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from actors.store.errors import ConstraintViolated
from actors.store.queries import load
from actors.store.session import Statements
from actors.wallet.ledger import UnknownAccount
from gw.budgets.budget import BUDGET, BudgetRecord, NewBudget
from gw.cursors import Position
from gw.nouns.noun import Changes

SQL = load("gw.budgets", "budgets.sql", BUDGET.sql)
# A budget's name, and scope, subject and period, are unique among an account's live ones.
TAKEN = frozenset({"budgets_one_name", "budgets_one_node"})

# So many are read at a time of an account's.
PAGE = 250


class UnknownBudget(Exception):
    """No budget has this id."""


class BudgetExists(Exception):
    """A live budget of the account has this name, or this scope, subject and period."""


@dataclass(frozen=True, slots=True)
class Live:
    """A live budget of an account, as far as another one must fit in."""

    name: str
    scope: str
    subject: str | None
    period: str
    made_by: str

    @property
    def place(self) -> tuple[str, str | None, str]:
        """What no two of an account share."""
        return self.scope, self.subject, self.period


@dataclass(frozen=True, slots=True)
class Sum:
    """What a budget has counted for a subject in a period; amounts in nano-USD.

    `subject` is None for a budget that has one sum alone.
    """

    subject: str | None
    spent_nano_usd: int
    held_nano_usd: int
    excess_nano_usd: int


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The ceiling of a run, with its sum, in nano-USD."""

    limit_nano_usd: int
    period_from: datetime
    spent_nano_usd: int
    held_nano_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Whose sums are shown of budgets that have one of each value, and of which instant: now."""

    user: str | None = None
    end_user: str | None = None
    run: str | None = None
    at: datetime | None = None


NOBODYS = Shown()


async def lock(session: Statements, account_id: str) -> datetime:
    """Lock an account until the transaction ends; return the database's time.

    Raises UnknownAccount.
    """
    row = await session.fetch_one(SQL["lock"], (account_id,))
    if row is None:
        raise UnknownAccount(account_id)
    found: datetime = row[0]
    return found


async def is_zone(store: Statements, name: str) -> bool:
    """Whether the database has a time zone of this name."""
    row = await store.fetch_one(SQL["is_zone"], {"name": name})
    return row is not None and bool(row[0])


async def live(store: Statements, account_id: str) -> list[Live]:
    """Return the live budgets of an account."""
    return [Live(*row) for row in await store.fetch_all(SQL["live"], (account_id,))]


async def create(session: Statements, budget: NewBudget, *, created_at: datetime) -> str:
    """Store a new budget, from now on if it names no start; return its id.

    Raises BudgetExists.
    """
    starts_at = budget.starts_at or created_at
    row = {
        "id": f"bud_{secrets.token_hex(10)}",
        "created_at": created_at,
        **BUDGET.row_of(replace(budget, starts_at=starts_at)),
    }
    try:
        await session.execute(SQL["insert"], row)
    except ConstraintViolated as error:
        if error.constraint_name in TAKEN:
            raise BudgetExists(budget.name) from error
        raise
    return str(row["id"])


async def show(store: Statements, budget_id: str, shown: Shown = NOBODYS) -> BudgetRecord:
    """Return a budget, a deleted one too, with the figures of a period. Raises UnknownBudget."""
    rows = await _find(store, shown, id=budget_id, deleted=True, limit=1)
    if not rows:
        raise UnknownBudget(budget_id)
    return rows[0]


async def newest(
    store: Statements,
    account_id: str | None,
    *,
    limit: int,
    shown: Shown = NOBODYS,
    with_deleted: bool = False,
    after: Position | None = None,
) -> list[BudgetRecord]:
    """Return budgets of an account (None: of all), the newest first."""
    last: dict[str, Any] = {} if after is None else {"before_at": after.at, "before_id": after.id}
    return await _find(store, shown, account=account_id, deleted=with_deleted, limit=limit, **last)


async def pages(
    store: Statements, account_id: str, shown: Shown = NOBODYS
) -> AsyncIterator[list[BudgetRecord]]:
    """Yield all live budgets of an account, the newest first, some at a time.

    Other work of the event loop has its turn in between: a thousand take it 15 ms.
    """
    after: Position | None = None
    while True:
        found = await newest(store, account_id, limit=PAGE, shown=shown, after=after)
        yield found
        if len(found) < PAGE:
            return
        after = Position(found[-1].created_at, found[-1].id)


async def change(session: Statements, budget_id: str, name: str, changes: Changes) -> None:
    """Set the fields named by `changes` of a live budget, whose name is `name` then.

    Raises UnknownBudget, BudgetExists.
    """
    params = {"id": budget_id, **BUDGET.settings_of(changes)}
    try:
        if not await session.execute(SQL["change"], params):
            raise UnknownBudget(budget_id)
    except ConstraintViolated as error:
        if error.constraint_name in TAKEN:
            raise BudgetExists(name) from error
        raise


async def delete(session: Statements, budget_id: str) -> None:
    """Delete a live budget; its sums stay. Raises UnknownBudget."""
    if not await session.execute(SQL["delete"], (budget_id,)):
        raise UnknownBudget(budget_id)


async def sums(
    store: Statements,
    budget: BudgetRecord,
    *,
    limit: int,
    after: tuple[int, str] | None = None,
) -> list[Sum]:
    """Return what a budget has counted in the period of its record, by the most spent."""
    spent, subject = (None, None) if after is None else after
    params = {
        "account": budget.account_id,
        "id": budget.id,
        "period_from": budget.period_from,
        "spent": spent,
        "subject": subject,
        "limit": limit,
    }
    rows = await store.fetch_all(SQL["sums"], params)
    return [Sum(row[0] or None, *row[1:]) for row in rows]


async def ceiling(store: Statements, account_id: str, run: str) -> Ceiling | None:
    """Return the ceiling of a run, if calls have named one."""
    row = await store.fetch_one(SQL["ceiling"], {"account": account_id, "run": run})
    return None if row is None else Ceiling(*row)


async def _find(store: Statements, shown: Shown, **which: Any) -> list[BudgetRecord]:
    params = {
        "instant": shown.at,
        "user": shown.user,
        "end_user": shown.end_user,
        "run": shown.run,
        "id": None,
        "account": None,
        "before_at": None,
        "before_id": None,
        **which,
    }
    return [BUDGET.of_row(row) for row in await store.fetch_all(SQL["find"], params)]
