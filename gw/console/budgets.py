"""Budgets of an account: how full each is, by whom, since when; one with its sums and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.lease_returns import leases_returned
from actors.store.queries import load
from gw.accounts import Account
from gw.admin import budgets as handled
from gw.budgets import table
from gw.budgets.budget import BUDGET, OWNER, BudgetRecord, NewBudget
from gw.budgets.canonical import Canonical
from gw.budgets.subject import EVERY
from gw.budgets.table import UnknownBudget
from gw.console.changes import change, in_force
from gw.console.pages import ConsoleHandler
from gw.console.texts import TEXTS
from gw.errors import QUOTA_EXCEEDED
from gw.nouns.refused import Invalid

SQL = load("gw.console", "budgets.sql")
# Of an account's budgets, which are all read to find the fullest ones.
PAGE = 200
TOP_SHOWN = 3
SUMS_SHOWN = 100
REFUSALS_SHOWN = 10
# Of refusals for money so many are looked at: the others name no budget.
REFUSED_CALLS = 500
# From this share of the limit on a bar is red.
NEARLY_FULL = 0.9
_NO_FORM = ("account_id",)


@dataclass(frozen=True, slots=True)
class Bar:
    """How full a budget is, in nano-USD; of one with a sum of each subject, the fullest."""

    spent_nano_usd: int
    held_nano_usd: int
    limit_nano_usd: int
    subject: str | None = None

    @property
    def used_nano_usd(self) -> int:
        return self.spent_nano_usd + self.held_nano_usd

    @property
    def share(self) -> float:
        """The part of the limit that is used; of nothing all is."""
        return self.used_nano_usd / self.limit_nano_usd if self.limit_nano_usd else 1.0

    @property
    def is_nearly_full(self) -> bool:
        return self.share >= NEARLY_FULL


class BudgetsPage(ConsoleHandler):
    """The common parts of the pages of budgets."""

    async def budget(self, account_id: str, budget_id: str) -> tuple[Account, BudgetRecord]:
        """Return a budget of an account that the session may see; refuse any other with 404."""
        account = await self.account(account_id)
        try:
            budget = await table.show(self.services.database, budget_id)
        except UnknownBudget:
            self.refuse(404, "error.not_found")
        if budget.account_id != account_id:
            self.refuse(404, "error.not_found")
        return account, budget

    async def done(self, account_id: str, path: str) -> None:
        """Show the page at the path when a committed change is in force everywhere."""
        await in_force(self)
        await leases_returned(self.services.database, account_id, self.services.clock)
        self.redirect(path, status=303)


class BudgetsHandler(BudgetsPage):
    """The budgets of an account, the fullest first, and the form that makes one."""

    async def on_get(self, account_id: str) -> None:
        account = await self.account(account_id)
        database = self.services.database
        found = [one async for page in table.pages(database, account_id) for one in page]
        tops = await self._tops(account_id, found)
        rows = sorted(
            ((one, _bars(one, tops)) for one in found),
            key=lambda row: max((bar.share for bar in row[1]), default=-1.0),
            reverse=True,
        )
        refusals = await database.fetch_all(
            SQL["refusals"],
            {
                "account": account_id,
                "code": QUOTA_EXCEEDED.code,
                "calls": REFUSED_CALLS,
                "limit": REFUSALS_SHOWN,
            },
        )
        number = self.parameters.whole("page", least=1, most=len(rows) // PAGE + 1) or 1
        self.page(
            "budgets.html",
            account=account,
            rows=rows[(number - 1) * PAGE : number * PAGE],
            next_page=number + 1 if number * PAGE < len(rows) else None,
            names={one.id: one.name for one in found},
            refusals=refusals,
            form=[one for one in BUDGET.new_form if one.field not in _NO_FORM],
        )

    async def on_post(self, account_id: str) -> None:
        await self.account(account_id)
        services = self.services
        config = services.current.config
        canonical = Canonical(
            services.current.registry, config.attribution.end_user, lambda: services.secret
        )
        members = [one for one in BUDGET.new_form if one.field not in _NO_FORM]
        async with change(self) as (transaction, actor):
            wish = NewBudget(
                account_id=account_id, **BUDGET.of_form(self, members, canonical.registry)
            )
            await handled.create(transaction, actor, wish, canonical)
        await self.done(account_id, f"/accounts/{account_id}/budgets")

    async def _tops(
        self, account_id: str, budgets: Sequence[BudgetRecord]
    ) -> Mapping[str, list[Bar]]:
        """Return of budgets with a sum of each subject the fullest ones, by id."""
        every = {one.id: one for one in budgets if one.scope in EVERY and one.period_from}
        tops: dict[str, list[Bar]] = {budget_id: [] for budget_id in every}
        if every:
            params = {
                "account": account_id,
                "ids": list(every),
                "periods": [one.period_from for one in every.values()],
                "limit": TOP_SHOWN,
            }
            for budget_id, subject, spent, held in await self.services.database.fetch_all(
                SQL["top"], params
            ):
                limit = every[budget_id].limit_nano_usd
                tops[budget_id].append(Bar(spent, held, limit, subject))
        return tops


class BudgetHandler(BudgetsPage):
    """One budget."""

    async def on_get(self, account_id: str, budget_id: str) -> None:
        account, budget = await self.budget(account_id, budget_id)
        sums = []
        if budget.scope in EVERY:
            sums = await table.sums(self.services.database, budget, limit=SUMS_SHOWN)
        self.page(
            "budget.html",
            account=account,
            budget=budget,
            bars=_bars(budget, {}),
            sums=[
                (one, Bar(one.spent_nano_usd, one.held_nano_usd, budget.limit_nano_usd))
                for one in sums
            ],
            form=BUDGET.form,
            is_mine=self.who.is_operator or budget.made_by == OWNER,
        )

    async def on_post(self, account_id: str, budget_id: str) -> None:
        """Set or delete it."""
        _, budget = await self.budget(account_id, budget_id)
        act, path = self.field("act"), f"/accounts/{account_id}/budgets"
        async with change(self) as (transaction, actor):
            if act == "delete":
                # Its name must be typed, so that no slip of the hand deletes a budget.
                if self.field("word") != budget.name:
                    raise Invalid(TEXTS("budgets.wrong_word", name=budget.name))
                await handled.delete(transaction, actor, budget_id)
            elif act == "set":
                changes = BUDGET.of_form(self, BUDGET.form, self.services.current.registry)
                await handled.change(transaction, actor, budget_id, changes)
                path = f"{path}/{budget_id}"
            else:
                self.refuse(400, "error.request")
        await self.done(account_id, path)


def _bars(budget: BudgetRecord, tops: Mapping[str, list[Bar]]) -> Sequence[Bar]:
    """Return how full a budget is: nothing before its start."""
    spent, held = budget.spent_nano_usd, budget.held_nano_usd
    if budget.period_from is None or spent is None or held is None:
        return tops.get(budget.id, ())
    return [Bar(spent, held, budget.limit_nano_usd)]
