"""Holds on the budgets of accounts, and what must never happen to those."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from metrics.families import Families

NANO_PER_USD = 1_000_000_000

# Out of memory; by asking the ledger; not at all.
HoldOutcome = Literal["leased", "asked", "refused"]


class BudgetMetrics:
    """Holds by the scope of the budget and by outcome; the figures that must read 0."""

    def __init__(self, make: Families) -> None:
        self._holds = make.counter("gw_budget_holds_total")
        self._excess = make.counter("gw_budget_excess_usd_total")[()]
        self._overshoot = make.gauge("gw_budget_overshoot_usd")[()]
        self._phantoms = make.gauge("gw_budget_phantom_refusals")[()]

    def held(self, scope: str, outcome: HoldOutcome) -> None:
        """Count a hold on a budget of this scope, or the refusal of one."""
        self._holds[(scope, outcome)].value += 1

    def exceeded(self, nano_usd: int) -> None:
        """Count by how much the cost of a call passed its own hold on a budget."""
        self._excess.value += nano_usd / NANO_PER_USD

    def overshot(self, nano_usd: int) -> None:
        """Set the most by which spent, held and not excess has passed the limit then in force."""
        self._overshoot.value = nano_usd / NANO_PER_USD

    def refused_for_nothing(self) -> None:
        """Count a refusal whose own figures would have admitted the call."""
        self._phantoms.value += 1

    def conditions(self) -> Iterator[str]:
        """Yield conditions as `Metrics.conditions`."""
        if self._overshoot.value:
            yield "budget_overshoot"
        if self._phantoms.value:
            yield "budget_phantom_refusal"
