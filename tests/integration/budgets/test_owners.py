"""Budgets that the owner of an account makes, on a real PostgreSQL."""

from unittest.mock import patch

import pytest

from actors.store.database import Database
from gw.admin import budgets
from gw.admin.audit import Actor
from gw.admin.budgets import BudgetIsOperators, TooManyBudgets
from gw.budgets import table
from gw.budgets.budget import BudgetRecord, NewBudget
from gw.budgets.canonical import Canonical
from gw.keys.secret import Secret
from tests.integration.money import ACCOUNT, open_account
from tests.unit.config.reading import read

OWNER, OPERATOR = (Actor(kind, "who", "where") for kind in ("owner", "operator"))
CANONICAL = Canonical(read("").registry, "plain", lambda: Secret("s" * 32))


async def make(database: Database, actor: Actor, user: str) -> BudgetRecord:
    wish = NewBudget(
        account_id=ACCOUNT, name=user, scope="user", subject=user, limit_nano_usd=1, period="day"
    )
    async with database.transaction() as session:
        return await budgets.create(session, actor, wish, CANONICAL)


async def test_owner_makes_no_more_than_his_share_and_all_are_read(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 0)
        with patch.object(budgets, "OWNERS_MAX", 2):
            await make(database, OPERATOR, "ops")
            for user in ("ann", "bob"):
                assert (await make(database, OWNER, user)).made_by == "owner"
            with pytest.raises(TooManyBudgets, match="at most 2"):
                await make(database, OWNER, "cy")
            assert (await make(database, OPERATOR, "cy")).made_by == "operator"
        for at_a_time in (1, 3, 4, 5):
            with patch.object(table, "PAGE", at_a_time):
                found = [page async for page in table.pages(database, ACCOUNT)]
            assert [one.name for page in found for one in page] == ["cy", "bob", "ann", "ops"]
            assert max(map(len, found)) <= at_a_time


async def test_owner_changes_no_budget_of_an_operator(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 0)
        theirs, his = await make(database, OPERATOR, "ops"), await make(database, OWNER, "ann")
        async with database.transaction() as session:
            with pytest.raises(BudgetIsOperators):
                await budgets.change(session, OWNER, theirs.id, {"limit_nano_usd": 5})
            with pytest.raises(BudgetIsOperators):
                await budgets.delete(session, OWNER, theirs.id)
            changed = await budgets.change(session, OPERATOR, his.id, {"limit_nano_usd": 5})
            assert (changed.limit_nano_usd, changed.made_by) == (5, "owner")
            assert (await budgets.delete(session, OWNER, his.id)).deleted_at is not None
