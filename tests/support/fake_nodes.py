"""Budgets of the ledger's in-memory twin: nodes, their periods and sums, and leases of them.

Function for function what `budget_…` of `actors/store/functions/` does, the clock of days apart: a
day is as long as the twin says and has no time zone. Weeks and months are days of another length
for all that is decided here; `tests/integration/budgets/test_periods.py` has their borders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from actors.wallet.messages import RUN

DAY_SECONDS = 86_400.0
WARNED_OF_RUNS = (80,)
RUNS_MAX = 100_000
# Account, budget, subject, the beginning of the period as the database writes it.
Place = tuple[str, str, str, str]


@dataclass
class FakeBudget:
    """A row of `budgets`; `period` is `day` or `total`, `starts_at` in Unix seconds."""

    id: str
    account_id: str
    limit: int
    scope: str = "account"
    subject: str = ""
    period: str = "total"
    action: str = "refuse"
    warn_at: tuple[int, ...] = ()
    starts_at: float = 0.0
    is_deleted: bool = False

    @property
    def is_live(self) -> bool:
        return not self.is_deleted


@dataclass
class FakeSum:
    """A row of `budget_sums`, in nano-USD; `limit` is a run's."""

    id: int
    period_to: float | None
    limit: int | None = None
    alarm: int | None = None
    spent: int = 0
    held: int = 0
    leased: int = 0
    excess: int = 0
    bound: int | None = None
    overshoot: int = 0
    warned: tuple[int, ...] = ()
    is_exhausted: bool = False


class Accounts(Protocol):
    """What nodes need of the accounts that they hang below."""

    def nodes_changed(self, account: str) -> None:
        """Its nodes have another version."""

    def call_back(self, account: str) -> None:
        """Call back all leases of an account."""

    def is_leased(self, account: str) -> bool:
        """Whether any process has a lease of it, be it of nothing."""

    def may_lease(self, process: str, account: str) -> bool:
        """Whether a process may lease more of the account's nodes."""


@dataclass
class FakeNodes:
    """`now` is the database's clock, in Unix seconds."""

    accounts: Accounts
    now: Callable[[], float]
    day_seconds: float = DAY_SECONDS
    budgets: dict[str, FakeBudget] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)  # with a ceiling, by account
    periods: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    sums: dict[Place, FakeSum] = field(default_factory=dict)
    places: dict[int, Place] = field(default_factory=dict)  # of sums, by their numbers
    leases: dict[tuple[str, Place], int] = field(default_factory=dict)
    # What was written to the outbox: type, budget, subject, percent.
    events: list[tuple[str, str, str, int]] = field(default_factory=list)
    # Accounts of calls that held less than they were admitted by, and the process that did so.
    short: set[tuple[str, str]] = field(default_factory=set)

    def version(self, account: str) -> int:
        return self.versions.get(account, 0)

    def make(self, budget: FakeBudget) -> None:
        """A new node."""
        self.budgets[budget.id] = budget
        self._changed(budget.account_id)

    def change(self, budget_id: str, **columns: Any) -> None:
        """Change a node; what its spending is below, by a raised limit, is armed again."""
        budget = self.budgets[budget_id]
        before = (budget.limit, budget.action, budget.warn_at)
        for name, value in columns.items():
            assert hasattr(budget, name)
            setattr(budget, name, value)
        self._changed(budget.account_id)
        if budget.is_deleted or before == (budget.limit, budget.action, budget.warn_at):
            return
        if budget_id not in self.periods:
            return
        present = _text(self.periods[budget_id][0])
        for place, found in list(self.sums.items()):
            if place[1] == budget_id and place[3] == present:
                found.warned = tuple(
                    percent
                    for percent in found.warned
                    if found.spent * 100 >= budget.limit * percent
                )
                is_more = budget.limit > max(before[0], found.spent)
                found.is_exhausted = found.is_exhausted and not is_more
                self._arm(budget_id, found)
                if found.alarm is not None and found.spent >= found.alarm:
                    self._warn(place, found)

    def _changed(self, account: str) -> None:
        self.versions[account] = self.version(account) + 1
        self.accounts.call_back(account)
        self.accounts.nodes_changed(account)

    def live(self, account: str) -> list[tuple[Any, ...]]:
        """The live nodes of an account, as calls are matched with them."""
        now = self.now()
        return [
            (one.id, one.scope, one.subject, one.period, one.id, one.action == "refuse", wait)
            for one in self.budgets.values()
            if one.account_id == account and one.is_live
            for wait in [max(one.starts_at - now, 0.0)]
        ]

    def present(self, budget: FakeBudget) -> tuple[float, float | None] | None:
        """The present period of a node; None before its start."""
        known = self.periods.get(budget.id)
        now = self.now()
        if known is not None and (known[1] is None or now < known[1]):
            return known
        if now < budget.starts_at:
            return known
        found: tuple[float, float | None] = budget.starts_at, None
        if budget.period == "day":
            day = now // self.day_seconds
            found = day * self.day_seconds, (day + 1) * self.day_seconds
        self.periods[budget.id] = found
        return found

    def draw(
        self, process: str, cost: int | None, budgets: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        """Hold a call that was admitted in memory; return its nodes with what could be held."""
        taken: list[list[int]] = []
        for sum_id, most_held in budgets:
            place = self.places[sum_id]
            found, most = self.sums[place], self._most(place)
            amount = most_held if cost is None else min(most_held, cost)
            free, drawn = max(0, most - found.spent - found.held - found.leased), 0
            if amount > free:
                drawn = min(amount - free, self.leases.get((process, place), 0))
                if drawn:
                    self.leases[process, place] -= drawn
                if amount > free + drawn:
                    self.short.add((process, place[0]))
                amount = free + drawn
            found.held += amount
            found.leased -= drawn
            if amount > drawn:
                found.bound = most
            taken.append([sum_id, amount])
        return taken

    def served(
        self, budgets: Iterable[Sequence[int]], model: str, served: str | None, *, pays: bool
    ) -> list[Sequence[int]]:
        """Those of a call's nodes that pay for it once this model of its chain has served it, or
        the others.
        """
        return [
            (sum_id, held)
            for sum_id, held in budgets
            for budget in [self.budgets.get(self.places[sum_id][1])]
            if pays
            != (
                served is not None
                and budget is not None
                and budget.scope == "model"
                and budget.subject not in (model, served)
            )
        ]

    def book(self, moves: Iterable[Sequence[int]]) -> tuple[bool, int]:
        """Move sums, each once, or nothing: where a limit does not cover what is needed of it
        beside the leases. Return whether they all do, and how much of costs no hold covered.

        `moves`: [sum, needed, spent, held, excess] of each.
        """
        moves = list(moves)
        for sum_id, needed, *_ in moves:
            place = self.places[sum_id]
            found = self.sums[place]
            room = self._most(place) - found.spent - found.held - found.leased
            if needed > 0 and needed > room:
                return False, 0
        exceeding, due = 0, []
        for sum_id, needed, spent, held, excess in moves:
            place = self.places[sum_id]
            found = self.sums[place]
            found.spent += spent
            found.held += held
            found.excess += excess
            if needed > 0:
                found.bound = self._most(place)
            if found.bound is not None:
                used = found.spent + found.held - found.excess
                found.overshoot = max(found.overshoot, used - found.bound)
            exceeding += excess
            is_alarm = found.alarm is not None and found.spent >= found.alarm
            if is_alarm or (excess > 0 and found.leased > 0):
                due.append((place, found, is_alarm))
        for place, found, is_alarm in due:
            if is_alarm:
                self._warn(place, found)
            self._look_uncovered(place, found)
        return True, exceeding

    def settle(self, charges: Iterable[tuple[int, Sequence[Sequence[int]]]]) -> int:
        """Book the costs of calls whose nodes have their holds; return what these did not cover."""
        moves: dict[int, list[int]] = {}
        for cost, budgets in charges:
            for sum_id, held in budgets:
                move = moves.setdefault(sum_id, [sum_id, 0, 0, 0, 0])
                move[2] += cost
                move[3] -= held
                move[4] += max(0, cost - held)
        return self.book(moves.values())[1]

    def correct(self, before: int, cost: int, budgets: Sequence[Sequence[int]]) -> None:
        """Book the correction of a cost: what it rises by is excess."""
        for sum_id, held in budgets:
            place = self.places[sum_id]
            found = self.sums[place]
            found.spent += cost - before
            found.excess += (cost - min(cost, before, held)) - (before - min(before, held))
            if found.alarm is not None and found.spent >= found.alarm:
                self._warn(place, found)
            self._look_uncovered(place, found)

    def hold(self, account: str, wanted: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Hold a call on all these nodes or on none, as `budget_hold` returns it."""
        is_leased, warned = False, []
        refusing: list[tuple[Place, FakeSum, dict[str, Any]]] = []
        taken: list[tuple[Place, FakeSum, int, int]] = []
        for budget_id, subject, amount, ceiling in wanted:
            if budget_id == RUN:
                reason = None if ceiling is None else self._name_ceiling(account, subject, ceiling)
                if reason is not None:
                    return {"reason": reason}
                known = self._run(account, subject)
                if known is None:
                    continue
                place, found = known
                assert found.limit is not None
                most = found.limit
            else:
                budget = self._live_of(account, budget_id)
                if budget is None:
                    return {"reason": "stale_budgets"}
                period = self.present(budget)
                if period is None:
                    continue
                most = budget.limit
                place, found = self._open(budget, subject, period)
                if budget.action == "warn":
                    amount = 0
                    if found.spent >= most:
                        warned.append(budget_id)
            remaining = max(0, most - found.spent - found.held)
            if amount > remaining:
                figures = {
                    "budget_id": budget_id,
                    "subject": subject,
                    "needed_nano_usd": amount,
                    "remaining_nano_usd": remaining,
                    "limit_nano_usd": most,
                    "spent_nano_usd": found.spent,
                    "held_nano_usd": found.held,
                    "resets_at": found.period_to,
                }
                refusing.append((place, found, figures))
            elif amount > 0 and amount > remaining - found.leased:
                is_leased = True
            taken.append((place, found, amount, most))
        if refusing:
            for place, found, _ in refusing:
                if not found.is_exhausted:
                    found.is_exhausted = True
                    self._say("budget.exhausted", place, 100)
            worst = min(refusing, key=lambda one: (one[2]["remaining_nano_usd"], one[0][1]))
            return {"reason": "budget", "budget": worst[2]}
        if is_leased:
            return {"reason": "leased"}
        for _, found, amount, most in taken:
            found.held += amount
            if amount > 0:
                found.bound = most
        held = [[found.id, amount] for _, found, amount, _ in taken]
        return {"held": held, "warned": warned}

    def lease(self, process: str, changes: Iterable[Sequence[Any]]) -> list[list[Any]]:
        """Change what a process leases of nodes, as `budget_lease` returns it."""
        rows = []
        for account, budget_id, subject, sum_id, change, least in changes:
            if change < 0:
                place = self.places[sum_id]
                leased = self.leases.get((process, place), 0)
                back = min(leased, -change)
                if (process, place) in self.leases:
                    self.sums[place].leased -= back
                    self.leases[process, place] -= back
                    if not self.leases[process, place]:
                        del self.leases[process, place]
                rows.append([*place[:3], sum_id, None, leased - back, False, None])
                continue
            if budget_id == RUN:
                known = self._run(account, subject)
                if known is None:
                    continue
                place, found = known
            else:
                budget = self._live_of(account, budget_id)
                period = None if budget is None else self.present(budget)
                if budget is None or period is None:
                    continue
                place, found = self._open(budget, subject, period)
            most = self._most(place)
            free = most - found.spent - found.held - found.leased
            change = min(change, free // 4)
            if change > 0 and change >= least and self.accounts.may_lease(process, account):
                self.leases[process, place] = self.leases.get((process, place), 0) + change
                found.leased += change
                found.bound = most
            rows.append(self._row(process, place))
        return rows

    def leases_of(self, process: str, accounts: Iterable[str]) -> list[list[Any]]:
        """All that a process leases of the nodes of these accounts."""
        wanted = set(accounts)
        return [
            self._row(process, place)
            for name, place in self.leases
            if name == process and place[0] in wanted
        ]

    def end_leases(self, process: str, account: str) -> None:
        """The lease of the account has ended."""
        for name, place in [*self.leases]:
            if name == process and place[0] == account:
                self.sums[place].leased -= self.leases.pop((name, place))

    def faults(self, calls: Iterable[tuple[int, int, Sequence[Sequence[int]]]]) -> list[str]:
        """The invariants of `gw ledger verify`, by the same names.

        `calls`: of each row its cost, the least that it ever was, and its nodes; of an open hold
        the cost is -1.
        """
        found = []
        expected: dict[int, list[int]] = {}
        for cost, least, budgets in calls:
            for sum_id, held in budgets:
                sums = expected.setdefault(sum_id, [0, 0, 0])
                if cost < 0:
                    sums[1] += held
                    continue
                sums[0] += cost
                sums[2] += cost - min(cost, held, least)
        for place, one in self.sums.items():
            if [one.spent, one.held, one.excess] != expected.get(one.id, [0, 0, 0]):
                found.append("budget_sum_is_sum_of_calls")
            used = one.spent + one.held + one.leased - one.excess
            if one.overshoot > 0 or used > (one.bound or 0):
                found.append("budget_is_not_passed")
            if one.leased != sum(n for (_, at), n in self.leases.items() if at == place):
                found.append("budget_leased_is_sum_of_leases")
        for account, runs in self.runs.items():
            if runs != sum(place[:2] == (account, RUN) for place in self.sums):
                found.append("runs_are_counted")
        return found

    def _most(self, place: Place) -> int:
        """The limit of a sum."""
        budget = self.budgets.get(place[1])
        limit = self.sums[place].limit if budget is None else budget.limit
        assert limit is not None
        return limit

    def _add(self, place: Place, period_to: float | None, limit: int | None = None) -> FakeSum:
        made = self.sums[place] = FakeSum(len(self.sums) + 1, period_to, limit)
        self.places[made.id] = place
        self._arm(place[1], made)
        return made

    def _live_of(self, account: str, budget_id: str) -> FakeBudget | None:
        budget = self.budgets.get(budget_id)
        if budget is None or budget.account_id != account or budget.is_deleted:
            return None
        return budget

    def _open(
        self, budget: FakeBudget, subject: str, period: tuple[float, float | None]
    ) -> tuple[Place, FakeSum]:
        place = budget.account_id, budget.id, subject, _text(period[0])
        found = self.sums.get(place)
        if found is None:
            found = self._add(place, period[1])
        return place, found

    def _run(self, account: str, run: str) -> tuple[Place, FakeSum] | None:
        for place, found in self.sums.items():
            if place[:3] == (account, RUN, run):
                return place, found
        return None

    def _name_ceiling(self, account: str, run: str, ceiling: int) -> str | None:
        known = self._run(account, run)
        if known is not None:
            found = known[1]
            assert found.limit is not None
            if ceiling < found.limit:
                found.limit = ceiling
                self._arm(RUN, found)
                if found.alarm is not None and found.spent >= found.alarm:
                    self._warn(known[0], found)
            left = max(0, found.limit - found.spent - found.held)
            return "leased" if found.leased > left else None
        if self.runs.get(account, 0) >= RUNS_MAX:
            return "too_many_runs"
        if not self.runs.get(account) and self.accounts.is_leased(account):
            return "leased"
        self._add((account, RUN, run, _text(self.now())), None, ceiling)
        self.runs[account] = self.runs.get(account, 0) + 1
        return None

    def _row(self, process: str, place: Place) -> list[Any]:
        found, most = self.sums[place], self._most(place)
        left = None if found.period_to is None else found.period_to - self.now()
        amount = self.leases.get((process, place), 0)
        ceiling = most if place[1] == RUN else None
        return [*place[:3], found.id, left, amount, found.spent >= most, ceiling]

    def _terms(self, budget_id: str, found: FakeSum) -> tuple[int, str, tuple[int, ...]]:
        """Limit, action and percents of a node."""
        budget = self.budgets.get(budget_id)
        if budget is not None:
            return budget.limit, budget.action, budget.warn_at
        assert found.limit is not None
        return found.limit, "refuse", WARNED_OF_RUNS

    def _arm(self, budget_id: str, found: FakeSum) -> None:
        """The spending at which the next warning is due."""
        limit, action, warn_at = self._terms(budget_id, found)
        due = [-(-limit * percent // 100) for percent in warn_at if percent not in found.warned]
        if action == "warn" and not found.is_exhausted:
            due.append(limit)
        found.alarm = max(1, min(due)) if due else None

    def _say(self, kind: str, place: Place, percent: int) -> None:
        """Write an event of a sum, whose subject is its node's, if that has one."""
        _, budget_id, subject, _ = place
        budget = self.budgets.get(budget_id)
        about = subject if budget is None else budget.subject or subject
        self.events.append((kind, budget_id, about, percent))

    def _warn(self, place: Place, found: FakeSum) -> None:
        """The warnings that are due, each once."""
        budget_id = place[1]
        limit, action, warn_at = self._terms(budget_id, found)
        for percent in sorted(set(warn_at) - set(found.warned)):
            if found.spent > 0 and found.spent * 100 >= limit * percent:
                found.warned = (*found.warned, percent)
                self._say("budget.warning", place, percent)
        is_spent = found.spent > 0 and found.spent >= limit
        if action == "warn" and not found.is_exhausted and is_spent:
            found.is_exhausted = True
            self._say("budget.exhausted", place, 100)
        self._arm(budget_id, found)

    def _look_uncovered(self, place: Place, found: FakeSum) -> None:
        if found.leased > max(0, self._most(place) - found.spent - found.held):
            self.accounts.call_back(place[0])


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
