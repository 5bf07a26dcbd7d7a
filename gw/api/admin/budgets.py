"""Routes of budgets."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from actors.lease_returns import leases_returned
from actors.store.session import Session
from gw.admin import budgets
from gw.admin.budgets import BudgetQuery, BudgetSum, OneBudget, SumsQuery
from gw.admin.pagination import Page
from gw.api.admin.noun_routes import NounRoutes
from gw.api.admin.table import AdminCall, Route, route
from gw.budgets.budget import BUDGET
from gw.budgets.canonical import Canonical


class _OfAccount(Struct, frozen=True):
    """The account of a budget that a response shows."""

    account_id: str


async def create_budget(call: AdminCall, session: Session) -> Struct:
    """Make a budget. The response waits until no call is admitted without it."""
    wish = BUDGET.new_of(call.body, call.registry)
    return BUDGET.view(await budgets.create(session, call.actor, wish, _canonical(call)))


async def show_budget(call: AdminCall) -> Struct:
    """One budget, with its figures in the period of an instant."""
    budget_id = call.path["budget_id"]
    database = call.services.database
    return BUDGET.view(await budgets.show(database, budget_id, call.query, _canonical(call)))


async def set_budget(call: AdminCall, session: Session) -> Struct:
    """Set name, limit, action or warnings. The response waits until they hold everywhere."""
    changes = BUDGET.changes_of(call.body, call.registry)
    budget_id = call.path["budget_id"]
    return BUDGET.view(await budgets.change(session, call.actor, budget_id, changes))


async def delete_budget(call: AdminCall, session: Session) -> Struct:
    """Delete a budget; calls under way still count for it."""
    return BUDGET.view(await budgets.delete(session, call.actor, call.path["budget_id"]))


async def list_budget_sums(call: AdminCall) -> Page[BudgetSum]:
    """What a budget has counted for each subject in a period, by the most spent."""
    return await budgets.sums(call.services.database, call.path["budget_id"], call.query)


def _canonical(call: AdminCall) -> Canonical:
    config = call.services.current.config
    return Canonical(call.registry, config.attribution.end_user, lambda: call.services.secret)


async def _returned(call: AdminCall, body: bytes) -> None:
    account_id = msgspec.json.decode(body, type=_OfAccount).account_id
    await leases_returned(call.services.database, account_id, call.services.clock)


_ONE = "budgets/{budget_id}"
ROUTES: tuple[Route, ...] = (
    NounRoutes(BUDGET, "budgets").list(
        "Budgets of an account, or of all, the newest first.", budgets.page, BudgetQuery
    ),
    route(
        "POST",
        "budgets",
        create_budget,
        body=BUDGET.New,
        response=BUDGET.View,
        status=201,
        in_force=True,
        until=_returned,
    ),
    route("GET", _ONE, show_budget, response=BUDGET.View, query=OneBudget),
    route(
        "PATCH",
        _ONE,
        set_budget,
        body=BUDGET.Settings,
        response=BUDGET.View,
        in_force=True,
        until=_returned,
    ),
    route("DELETE", _ONE, delete_budget, response=BUDGET.View, in_force=True, until=_returned),
    route("GET", f"{_ONE}/sums", list_budget_sums, query=SumsQuery),
)
