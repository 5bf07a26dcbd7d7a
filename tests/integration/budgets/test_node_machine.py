"""Nodes under whatever comes in whatever order, on PostgreSQL and on its twin: holds, leases, calls
written with their settlement, late or by recovery, limits changed, nodes deleted, periods that end,
processes declared dead, leases called back and taken.

Each step is taken on both, which must reply alike and end alike: sums, leases, versions, warnings.
The machine says which calls there are, what each has cost, and the limit in force when it was held;
`gw ledger verify` recomputes the sums.
"""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from actors.process import SQL, ProcessIdentity, register
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.messages import (
    Admitted,
    CallFacts,
    HeldNode,
    Hold,
    LeaseChange,
    NodeChange,
    NodeHold,
    NodeLease,
    pays,
)
from actors.wallet.rows import encode_settlement, encode_void
from actors.wallet.verify import verify
from tests.integration.driver import Driver
from tests.integration.money import ACCOUNT, KEY, entry_guards, open_account
from tests.support.fake_ledger import FakeLedger
from tests.support.fake_nodes import DAY_SECONDS, FakeBudget
from tests.support.ledger_values import outcome

pytestmark = pytest.mark.long

LIMIT = 1000
USERS = ("", "a", "b")
# Of the account, of each end user by the day, one that warns, the ceiling of a run, and of two
# models, one of which serves each call of their chain.
ALL, USER, WARN, RUN = "bud_all", "bud_user", "bud_warn", "run"
STEPS = {"bud_gpt": "gpt", "bud_claude": "claude"}

amounts = st.integers(min_value=0, max_value=400)
costs = st.integers(min_value=0, max_value=600)
limits = st.integers(min_value=0, max_value=2 * LIMIT)
processes = st.integers(min_value=0, max_value=1)
users = st.sampled_from(USERS[1:])
models = st.sampled_from(("", *STEPS.values()))
places = st.integers(min_value=0, max_value=50)
Node = tuple[str, str]


@dataclass
class Actor:
    """A process: what it was leased of which node, on which sum, and what it has not written."""

    identity: ProcessIdentity
    leases: dict[Node, tuple[int, int]] = field(default_factory=dict)
    unwritten: dict[UUID, Admitted] = field(default_factory=dict)
    is_buried: bool = False
    version: int | None = None  # of the nodes that its lease is for
    number: int = 0

    def room(self, node: Node) -> int:
        sum_id, leased = self.leases[node]
        return leased - sum(
            part.held
            for one in self.unwritten.values()
            for part in one.budgets
            if one.identity == self.identity.id and part.sum_id == sum_id
        )


class NodeMachine(RuleBasedStateMachine):
    driver: Driver

    def __init__(self) -> None:
        super().__init__()
        self.names = itertools.count()
        self.calls = itertools.count(1)
        self.open: dict[UUID, CallFacts] = {}
        self.ended: list[tuple[CallFacts, int]] = []
        self.recovered: dict[UUID, CallFacts] = {}
        self.days_over = 0
        self.twin = FakeLedger()
        self.twin.nodes.now = lambda: time.time() + self.days_over * DAY_SECONDS
        self.sums: dict[int, int] = {}  # the twin's number of each sum of PostgreSQL
        self.run(self._empty())
        self.actors = [self.begin(), self.begin()]

    def run(self, coroutine: Any) -> Any:
        return self.driver.run(coroutine)

    def sql(self, text: str, params: Any = ()) -> list[tuple[Any, ...]]:
        return self.run(self.driver.database.fetch_all(text, params))  # type: ignore[no-any-return]

    async def _empty(self) -> None:
        database = self.driver.database
        await database.execute(
            f"{entry_guards('DISABLE')}; ALTER TABLE call_log_corrections DISABLE TRIGGER USER;"
            "ALTER TABLE key_views DISABLE TRIGGER USER;"
            "TRUNCATE entries, holds, call_logs, call_log_rollups, processes, leases,"
            " recovered_calls, call_log_corrections, budget_sums, budget_leases, budget_periods,"
            " events_written; TRUNCATE key_spend, keys, budgets, accounts CASCADE;"
            "ALTER TABLE call_log_corrections ENABLE TRIGGER USER;"
            "ALTER TABLE key_views ENABLE TRIGGER USER;"
            f"{entry_guards('ENABLE')}"
        )
        await open_account(database, 10**9)
        self.twin.open_account(ACCOUNT, KEY, 10**9)
        await database.execute("DELETE FROM processes")
        began = time.time() - 3600
        for budget_id, scope, period, action, warn_at in (
            (ALL, "account", "total", "refuse", (50, 90)),
            (USER, "every_end_user", "day", "refuse", (80,)),
            (WARN, "every_run", "total", "warn", (60,)),
            *((one, "model", "total", "refuse", (70,)) for one in STEPS),
        ):
            subject, terms = STEPS.get(budget_id), (LIMIT, period, action, [*warn_at], began)
            await database.execute(
                "INSERT INTO budgets (id, account_id, name, scope, subject, limit_nano_usd, period,"
                " action, warn_at, made_by, starts_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s,"
                " 'owner', to_timestamp(%s))",
                (budget_id, ACCOUNT, budget_id, scope, subject, *terms),
            )
            self.twin.nodes.make(
                FakeBudget(
                    budget_id,
                    ACCOUNT,
                    LIMIT,
                    scope=scope,
                    subject=subject or "",
                    period=period,
                    action=action,
                    warn_at=warn_at,
                    starts_at=began,
                )
            )

    def begin(self) -> Actor:
        identity = ProcessIdentity(f"proc_{next(self.names)}", "here", "boot", 1)
        self.run(register(self.driver.database, identity))
        return Actor(identity)

    def version(self) -> int:
        return int(self.sql("SELECT budgets_version FROM accounts")[0][0])

    def figures(self) -> Mapping[tuple[str, str], tuple[int, ...]]:
        """Limit, spent, held, leased of the present sums."""
        rows = self.sql(
            "SELECT s.budget_id, s.subject, coalesce(b.limit_nano_usd, s.limit_nano_usd),"
            " s.spent_nano_usd, s.held_nano_usd, s.leased_nano_usd FROM budget_sums s"
            " LEFT JOIN budgets b ON b.id = s.budget_id"
            " LEFT JOIN budget_periods p ON p.budget_id = s.budget_id"
            " WHERE p.period_from = s.period_from OR s.budget_id = 'run'"
        )
        return {(row[0], row[1]): tuple(row[2:]) for row in rows}

    def apply(self, who: Actor, batch: Batch) -> Applied:
        who.number += 1
        number = who.number if batch.has_leased else None
        applied: Applied = self.run(apply(self.driver.database, who.identity.id, batch, number))
        self.sql("UPDATE accounts SET unleased_until = NULL RETURNING id")
        replied: Applied = self.run(
            apply(self.twin, who.identity.id, self.translated(batch), number)
        )
        self.twin.unleased.clear()
        self.learn([*applied.nodes, *applied.drawn], [*replied.nodes, *replied.drawn])
        assert self.of_twin(applied) == comparable(replied)
        if applied.is_buried:
            who.leases.clear()
            who.version = None
            self.run(self._reregister(who))
            return self.apply(who, batch)
        for _, budget_id, subject, sum_id, _, amount, *_ in (*applied.drawn, *applied.nodes):
            known = who.leases.get((budget_id, subject))
            if known is None or known[0] == sum_id or batch.nodes:
                who.leases[budget_id, subject] = sum_id, amount
        if ACCOUNT in applied.leases:
            who.version = applied.versions.get(ACCOUNT, (0, False))[0]
            if not applied.leases[ACCOUNT]:
                who.leases.clear()
                who.version = None
            if ACCOUNT in applied.called:
                who.version = None
        return applied

    def translated(self, batch: Batch) -> Batch:
        """The batch as the twin's process would send it: by the twin's numbers of sums."""
        settlements = [
            one
            if one.admitted is None
            else msgspec.structs.replace(one, admitted=self.translated_call(one.admitted))
            for one in batch.settlements
        ]
        changes = [
            one if one.sum_id is None else replace(one, sum_id=self.sums[one.sum_id])
            for one in batch.nodes
        ]
        admitted = list(map(self.translated_call, batch.admitted))
        return replace(batch, settlements=settlements, admitted=admitted, nodes=changes)

    def translated_call(self, admitted: Admitted) -> Admitted:
        parts = tuple(
            HeldNode(self.sums[one.sum_id], one.held, one.model) for one in admitted.budgets
        )
        return msgspec.structs.replace(admitted, budgets=parts)

    def learn(self, rows: Sequence[Sequence[Any]], of_twin: Sequence[Sequence[Any]]) -> None:
        """Pair the numbers of new sums in rows that begin with account, budget, subject, sum."""
        for row in rows:
            if row[3] not in self.sums:
                known = self.sums.values()
                (number,) = {
                    one[3] for one in of_twin if [*one[:3]] == [*row[:3]] and one[3] not in known
                }
                self.sums[row[3]] = number

    def of_twin(self, applied: Applied) -> dict[str, Any]:
        """A reply of PostgreSQL, in the twin's numbers of sums."""
        nodes, drawn = (
            [[*row[:3], self.sums[row[3]], *row[4:]] for row in rows]
            for rows in (applied.nodes, applied.drawn)
        )
        return comparable(replace(applied, nodes=nodes, drawn=drawn))

    async def _reregister(self, who: Actor) -> None:
        identity = who.identity
        identity.renew(identity.id)
        await register(self.driver.database, identity)
        who.is_buried = False

    def nodes(self, user: str, amount: int, ceiling: int | None) -> tuple[NodeHold, ...]:
        live = {row[0] for row in self.sql("SELECT id FROM budgets WHERE deleted_at IS NULL")}
        found = [
            NodeHold(ALL, "", amount),
            NodeHold(USER, user, amount),
            NodeHold(WARN, user, 0),
            *(NodeHold(budget_id, "", amount, model=step) for budget_id, step in STEPS.items()),
        ]
        return (
            *(one for one in found if one.budget_id in live),
            NodeHold(RUN, user, amount, ceiling),
        )

    def facts(self) -> CallFacts:
        return CallFacts(
            call_id=UUID(int=next(self.calls)),
            account_id=ACCOUNT,
            key_id=KEY,
            protocol="chat",
            model="m",
            submitted_at=1_790_000_000.0,
        )

    @rule(who=processes, user=users, amount=amounts, ceiling=st.none() | limits, place=places)
    def ask(self, who: int, user: str, amount: int, ceiling: int | None, place: int) -> None:
        """A refusal says the truth, and so does a grant."""
        actor = self.actors[who]
        nodes = self.nodes(user, amount, ceiling or None)
        facts = self.facts()
        hold = Hold(facts=facts, amount_nano_usd=1, nodes=nodes, budgets_version=self.version())
        admitted = list(actor.unwritten.values())[: place % 3]
        applied = self.apply(actor, Batch(admitted=admitted, holds=[hold]))
        self.wrote(actor, admitted)
        figures = self.figures()
        reason = applied.refused.get(0)
        assert reason in (None, "budget", "leased")
        taken = 0 if reason else amount
        fits, fits_with_leases = True, True
        for node in nodes:
            if node.budget_id == WARN or (node.budget_id, node.subject) not in figures:
                continue
            limit, spent, held, leased = figures[node.budget_id, node.subject]
            fits &= spent + held - taken + amount <= limit
            fits_with_leases &= spent + held + leased - taken + amount <= limit
        if reason == "budget":
            assert not fits
            assert amount
            refused = applied.budgets[0]
            assert refused.needed_nano_usd > refused.remaining_nano_usd
        elif reason is None:
            assert amount == 0 or fits_with_leases
            self.open[facts.call_id] = facts
        else:
            self.call_back()

    @rule(who=processes, user=users, amount=amounts)
    def lease(self, who: int, user: str, amount: int) -> None:
        actor = self.actors[who]
        changes = [
            NodeChange(NodeLease(ACCOUNT, one.budget_id, one.subject, 0.0), amount)
            for one in self.nodes(user, amount, None)
        ]
        batch = Batch(changes=[LeaseChange(ACCOUNT, 10_000)], nodes=changes)
        self.apply(actor, batch)

    @rule(who=processes, user=users, part=st.floats(min_value=0, max_value=1))
    def admit(self, who: int, user: str, part: float) -> None:
        """In memory: by the nodes and the period that its leases are for."""
        actor = self.actors[who]
        if actor.is_buried or actor.version != self.version():
            return
        matched = self.nodes(user, 0, None)
        nodes = [(one.budget_id, one.subject) for one in matched]
        rooms = [actor.room(node) for node in nodes if node[0] != WARN and node in actor.leases]
        names = {
            row[1]
            for row in self.sql(
                "SELECT account_id, subject FROM budget_sums WHERE budget_id = 'run'"
            )
        }
        needed = [node for node in nodes if node[0] != RUN or node[1] in names]
        if any(node not in actor.leases for node in needed):
            return
        amount = int(min(rooms, default=0) * part)
        facts = self.facts()
        parts = tuple(
            HeldNode(
                actor.leases[node][0],
                0 if node[0] == WARN else amount,
                STEPS.get(node[0], ""),
            )
            for node in needed
        )
        hold = Hold(facts=facts, amount_nano_usd=1)
        actor.unwritten[facts.call_id] = Admitted(hold, actor.identity.id, 0.0, 1, parts)

    @rule(who=processes, place=places, cost=costs, served=models, is_with_hold=st.booleans())
    def end(self, who: int, place: int, cost: int, served: str, is_with_hold: bool) -> None:
        """A call ends: one that is written, or one whose hold comes with its settlement."""
        actor = self.actors[who]
        how = outcome(cost, served=served)
        if is_with_hold and actor.unwritten:
            admitted = list(actor.unwritten.values())[place % len(actor.unwritten)]
            admitted.cost = cost
            admitted.budgets = tuple(one for one in admitted.budgets if pays(one, served))
            facts = admitted.facts
            self.apply(actor, Batch(settlements=[encode_settlement(facts, how, admitted)]))
            del actor.unwritten[facts.call_id]
            self.ended.append((facts, cost))
        elif self.open:
            facts = self.open.pop(list(self.open)[place % len(self.open)])
            self.apply(actor, Batch(settlements=[encode_settlement(facts, how)]))
            self.ended.append((facts, cost))

    @rule(who=processes, place=places)
    def void(self, who: int, place: int) -> None:
        if self.open:
            facts = self.open.pop(list(self.open)[place % len(self.open)])
            self.apply(self.actors[who], Batch(settlements=[encode_void(facts)]))

    @rule(who=processes)
    def write(self, who: int) -> None:
        actor = self.actors[who]
        admitted = list(actor.unwritten.values())
        if admitted:
            self.apply(actor, Batch(admitted=admitted))
            self.wrote(actor, admitted)

    def wrote(self, actor: Actor, admitted: list[Admitted]) -> None:
        for one in admitted:
            del actor.unwritten[one.facts.call_id]
            self.open[one.facts.call_id] = one.facts

    @rule(who=processes, place=places, cost=costs | st.just(0), served=models)
    def recover(self, who: int, place: int, cost: int, served: str) -> None:
        """Others settle an open call at less than it has cost, perhaps at nothing."""
        if self.open:
            facts = self.open.pop(list(self.open)[place % len(self.open)])
            how = outcome(cost, "interrupted", served=served if cost else "")
            ended = encode_settlement(facts, how, is_recovery=True)
            self.apply(self.actors[who], Batch(settlements=[ended]))
            self.recovered[facts.call_id] = facts

    @rule(who=processes, place=places, cost=costs, served=models)
    def correct(self, who: int, place: int, cost: int, served: str) -> None:
        """Its true settlement comes late."""
        if self.recovered:
            facts = self.recovered.pop(list(self.recovered)[place % len(self.recovered)])
            ended = encode_settlement(facts, outcome(cost, served=served))
            self.apply(self.actors[who], Batch(settlements=[ended]))

    @rule(place=places)
    def twice(self, place: int) -> None:
        """A settlement that was applied comes again."""
        if self.ended:
            facts, cost = self.ended[place % len(self.ended)]
            self.apply(self.actors[0], Batch(settlements=[encode_settlement(facts, outcome(cost))]))

    @rule()
    def call_back(self) -> None:
        """Each process writes what it has admitted, and returns its lease."""
        self.call_all_back()
        for who, actor in enumerate(self.actors):
            self.write(who)
            self.apply(actor, Batch(changes=[LeaseChange(ACCOUNT, -(10**12))]))
            actor.leases.clear()
            actor.version = None

    @rule(who=processes)
    def take(self, who: int) -> None:
        """A process stands still: its lease is taken, and it admits nothing more from it."""
        actor = self.actors[who]
        self.call_all_back()
        taken = [
            self.sql(SQL["take_lease"], tuple(row))[0][0]
            for row in self.sql(SQL["called_back"], ("nobody",))
            if row[0] == actor.identity.id
        ]
        assert taken == [
            self.twin.take_lease(*row)
            for row in self.twin.called_of_others("nobody")
            if row[0] == actor.identity.id
        ]
        actor.leases.clear()
        actor.version = None

    def call_all_back(self) -> None:
        self.sql("SELECT leases_call_back(%s)::text", (ACCOUNT,))
        self.twin.call_back(ACCOUNT)
        self.keep_unleased()

    def keep_unleased(self) -> None:
        """However long the machine takes, nothing is leased before the next batch."""
        self.sql(
            "UPDATE accounts SET unleased_until = 'infinity' WHERE unleased_until IS NOT NULL"
            " RETURNING id"
        )

    @rule(who=processes, place=places)
    def give_back(self, who: int, place: int) -> None:
        """A process returns a part of what it has of a node, or all of it."""
        actor = self.actors[who]
        nodes = [node for node in actor.leases if actor.room(node) > 0]
        if nodes and not actor.is_buried:
            node = nodes[place % len(nodes)]
            sum_id, amount = actor.leases[node]
            back = actor.room(node) if place % 2 else max(1, actor.room(node) // 2)
            lease = NodeLease(ACCOUNT, *node, 0.0)
            self.apply(actor, Batch(nodes=[NodeChange(lease, -back, sum_id)]))
            assert actor.leases[node] == (sum_id, amount - back)

    @rule(who=processes, is_seen=st.booleans())
    def bury(self, who: int, is_seen: bool) -> None:
        """It is declared dead by mistake, and its row goes, before or after it learns of it."""
        actor = self.actors[who]
        if not actor.is_buried:
            other = self.actors[1 - who].identity.id
            self.sql(SQL["declare_dead"], (actor.identity.id, other, None))
            self.twin.buried.add(actor.identity.id)
            actor.is_buried = True
            if is_seen:
                self.run(self.driver.database.execute(SQL["leave"], ([actor.identity.id],)))
                holders = [hold["process_id"] for hold in self.twin.holds.values()]
                if actor.identity.id not in holders:
                    self.twin.end_leases(actor.identity.id)

    @rule(budget_id=st.sampled_from((ALL, USER, WARN)), limit=limits)
    def change_limit(self, budget_id: str, limit: int) -> None:
        self.sql(
            "UPDATE budgets SET limit_nano_usd = %s WHERE id = %s RETURNING id", (limit, budget_id)
        )
        self.twin.nodes.change(budget_id, limit=limit)
        self.keep_unleased()

    @rule(budget_id=st.sampled_from((ALL, USER)), is_deleted=st.booleans())
    def delete(self, budget_id: str, is_deleted: bool) -> None:
        self.sql(
            "UPDATE budgets SET deleted_at = CASE WHEN %s THEN now() END WHERE id = %s"
            " RETURNING id",
            (is_deleted, budget_id),
        )
        self.twin.nodes.change(budget_id, is_deleted=is_deleted)
        self.keep_unleased()

    @rule()
    def a_day_ends(self) -> None:
        """What was the present period of the users' node is over: the database's clock is past it.

        By the machine: its sums are of the day before.
        """
        back = "- interval '1 day'"
        for row in self.sql(
            f"SELECT period_from::text, (period_from {back})::text FROM budget_periods"
            " WHERE budget_id = %s",
            (USER,),
        ):
            now, before = row
            if self.sql(
                "SELECT 1 FROM budget_sums WHERE budget_id = %s AND period_from = %s",
                (USER, before),
            ):
                return
            for table in ("budget_sums", "budget_leases", "budget_periods"):
                to = ", period_to = %s" if table != "budget_leases" else ""
                values = (before, now, USER, now) if to else (before, USER, now)
                self.sql(
                    f"UPDATE {table} SET period_from = %s{to} WHERE budget_id = %s AND"
                    " period_from = %s RETURNING budget_id",
                    values,
                )
            for actor in self.actors:
                for node in [node for node in actor.leases if node[0] == USER]:
                    del actor.leases[node]
            self.days_over += 1

    @invariant()
    def the_twin_is_the_same(self) -> None:
        """Its `faults` are those of `gw ledger verify`, so that no limit is passed and all sums add
        up on both.
        """
        twin = self.twin.nodes
        sums = self.sql(
            "SELECT account_id, budget_id, subject, id, spent_nano_usd,"
            " held_nano_usd, leased_nano_usd, excess_nano_usd, limit_nano_usd, bound_nano_usd,"
            " alarm_nano_usd, overshoot_nano_usd, warned, exhausted_at IS NOT NULL"
            " FROM budget_sums"
        )
        self.learn(sums, [(*place[:3], one.id) for place, one in twin.sums.items()])
        assert {(*row[:3], self.sums[row[3]]): row[4:] for row in sums} == {
            (*place[:3], one.id): (
                *(one.spent, one.held, one.leased, one.excess, one.limit, one.bound, one.alarm),
                *(one.overshoot, list(one.warned), one.is_exhausted),
            )
            for place, one in twin.sums.items()
        }
        of_nodes = self.sql(
            "SELECT process_id, s.id, amount_nano_usd FROM budget_leases JOIN budget_sums s"
            " USING (account_id, budget_id, subject, period_from)"
        )
        assert twin.leases == {(row[0], twin.places[self.sums[row[1]]]): row[2] for row in of_nodes}
        leases = self.sql("SELECT process_id, amount_nano_usd, called_at IS NOT NULL FROM leases")
        assert {(row[0], ACCOUNT): row[1] for row in leases} == self.twin.leases
        assert {(row[0], ACCOUNT) for row in leases if row[2]} == set(self.twin.called)
        assert self.sql(
            "SELECT budgets_version, run_ceilings, balance_nano_usd, held_nano_usd FROM accounts"
        ) == [
            (
                *(twin.version(ACCOUNT), twin.runs.get(ACCOUNT, 0)),
                *(self.twin.balances[ACCOUNT], self.twin.held[ACCOUNT]),
            )
        ]
        written = self.sql(
            "SELECT type, data ->> 'budget_id', coalesce(data ->> 'subject', ''),"
            " (data ->> 'percent')::integer FROM events_written WHERE type LIKE 'budget.%%'"
        )
        assert sorted(written) == sorted(twin.events)
        assert self.twin.faults() == []

    def teardown(self) -> None:
        found = self.run(verify(self.driver.database)).faults
        # Who was declared dead here has not been seen to by anyone.
        known = {"lease_has_a_live_process", "hold_has_a_live_call"}
        assert [one for one in found if one["invariant"] not in known] == []


def comparable(applied: Applied) -> dict[str, Any]:
    """A reply without the order of its rows, and with whether a period ends, not when."""
    found = {one.name: getattr(applied, one.name) for one in fields(applied)}
    for name in ("nodes", "drawn"):
        rows = ((*row[:4], row[4] is None, *row[5:]) for row in found[name])
        found[name] = sorted(rows, key=repr)
    found["budgets"] = {
        seq: msgspec.structs.replace(one, resets_at=None if one.resets_at is None else 0.0)
        for seq, one in applied.budgets.items()
    }
    del found["balances"]  # only of accounts that moved
    return {**found, "called": sorted(applied.called)}


def test_postgres_keeps_the_limits_and_its_twin_does_the_same(driver: Driver) -> None:
    machine = type("Machine", (NodeMachine,), {"driver": driver})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
