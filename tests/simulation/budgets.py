"""Budgets of the simulation: their table, the operator who changes them, and what calls say.

Limits are raised, lowered and set to nothing, nodes are deleted and made anew, and a day is short:
borders are passed with calls under way. What an operator was answered is in force everywhere; that
no limit is passed is the ledger's to prove at each statement (`FakeNodes.faults`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from actors.wallet.attribution import Attribution
from gw.budgets.table import SQL
from tests.support.fake_nodes import FakeBudget, FakeNodes

END_USERS, RUNS = ("ada", "bo"), ("r1", "r2")
# From what covers no call to what covers all: a chat holds some two million nano-USD.
LIMITS = (0, 5_000_000, 30_000_000, 300_000_000, *(10**12,) * 4)
CEILINGS = (4_000_000, 40_000_000)
# Scope, subject, period, action: alike for every account that has budgets.
KINDS = (
    ("account", "", "total", "refuse"),
    ("account", "", "day", "refuse"),
    ("every_end_user", "", "day", "refuse"),
    ("end_user", "ada", "day", "refuse"),
    ("every_run", "", "total", "warn"),
    ("model", "m", "day", "refuse"),
    ("model", "n", "total", "refuse"),
    ("model", "best", "day", "refuse"),
)


class BudgetTable:
    """The rows of budgets, by the statements of `gw/budgets/table.py` that change them."""

    def __init__(self, nodes: FakeNodes) -> None:
        self._nodes = nodes

    def execute(self, sql: str, params: Any) -> int | None:
        """Run a statement, if it is one of these; how many rows it touched."""
        nodes = self._nodes
        if sql == SQL["insert"]:
            if params["id"] not in nodes.budgets:
                nodes.make(_row(params))
            return 1
        if sql not in (SQL["change"], SQL["delete"]):
            return None
        budget_id = params["id"] if sql == SQL["change"] else params[0]
        budget = nodes.budgets.get(budget_id)
        if budget is None or budget.is_deleted:
            return 0
        if sql == SQL["delete"]:
            nodes.change(budget_id, is_deleted=True)
        else:
            assert params["set_limit_nano_usd"]
            nodes.change(budget_id, limit=params["limit_nano_usd"])
        return 1


def _row(params: Mapping[str, Any]) -> FakeBudget:
    return FakeBudget(
        params["id"],
        params["account_id"],
        params["limit_nano_usd"],
        scope=params["scope"],
        subject=params["subject"] or "",
        period=params["period"],
        action=params["action"],
        warn_at=tuple(params["warn_at"]),
        starts_at=params["starts_at"].timestamp(),
    )


@dataclass
class InForce:
    """What an operator was answered of a node holds for calls within these times, in simulated
    seconds: that each of them that matches it is held on it, or that none is.
    """

    budget_id: str
    is_held_on: bool
    since: float
    until: float = math.inf

    def is_of(self, requested_at: float, ended_at: float) -> bool:
        """Whether a call was made and ended while it was so."""
        return self.since <= requested_at and ended_at < self.until


@dataclass
class Attributions:
    """What the calls of accounts with budgets say of themselves."""

    chance: Random
    accounts: frozenset[str]

    def __post_init__(self) -> None:
        self._names = self.chance.random() < 0.5  # while no run has a ceiling, none is looked for

    def of(self, account: str) -> tuple[Attribution | None, int | None]:
        """For whom a call is, and the ceiling that it names for its run."""
        if account not in self.accounts:
            return None, None
        chance = self.chance
        run = chance.choice((None, None, None, *RUNS))
        end_user = chance.choice((None, None, *END_USERS))
        ceiling = chance.choice((None, *CEILINGS)) if run is not None and self._names else None
        return Attribution(end_user=end_user, run=run) or None, ceiling
