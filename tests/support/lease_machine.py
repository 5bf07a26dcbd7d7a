"""The rules of leases on top of those of the ledger: calls are admitted in memory, and written
later, with their settlement, by recovery, or under another identity of their process.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from actors.wallet.batch import Applied, Batch, encode_settlement
from actors.wallet.messages import Admitted, CallFacts, Hold, LeaseChange, Settle
from tests.support.claim_machine import ClaimMachine
from tests.support.ledger_machine import ACCOUNTS, KEYS, LedgerMachine, accounts, amounts
from tests.support.ledger_values import outcome

costs = st.integers(min_value=0, max_value=800)
places = st.integers(min_value=0, max_value=50)


class LeaseMachine(ClaimMachine):
    """What a process may admit is what it was leased, less what it has admitted and not written."""

    def __init__(self) -> None:
        super().__init__()
        self.unwritten: dict[UUID, Admitted] = {}
        self.unleased: set[str] = set()
        self.dead: set[str] = set()  # identities that others have declared dead

    # What a subclass provides

    def leases_in_ledger(self) -> dict[tuple[str, str], int]:
        raise NotImplementedError

    def was_applied(self, number: int) -> bool:
        raise NotImplementedError

    def lease_again(self) -> None:
        """The time is over in which accounts are not leased."""
        raise NotImplementedError

    def end_process(self, identity: str) -> None:
        """Delete the row of a dead process."""
        raise NotImplementedError

    # Rules

    @initialize(amounts=st.lists(amounts, min_size=1, max_size=4))
    def calls_are_under_way(self, amounts: list[int]) -> None:
        for account in ACCOUNTS:
            self.credit(account=account, amount=4000)
            self.lease(account=account, change=1000, least=0)
        for amount in amounts:
            self.admit(account=ACCOUNTS[0], amount=amount)

    @rule(account=accounts, change=st.integers(min_value=1, max_value=2000), least=amounts)
    def lease(self, account: str, change: int, least: int) -> None:
        self.run(Batch(changes=[LeaseChange(account, change, least)]))

    @rule(account=accounts, part=st.floats(min_value=0.1, max_value=1.0))
    def give_back(self, account: str, part: float) -> None:
        amount = int(self.room(account) * part)
        if amount > 0:
            self.run(Batch(changes=[LeaseChange(account, -amount)]))

    @rule(account=accounts, amount=amounts)
    def admit(self, account: str, amount: int) -> None:
        identity = self.identity_id
        if amount <= self.room(account) and not self.is_buried:
            facts = self.new_facts(account, KEYS[account][0])
            hold = Hold(facts=facts, amount_nano_usd=amount)
            self.unwritten[facts.call_id] = Admitted(hold, identity, 0.0, hold.amount_nano_usd)

    @rule(target=LedgerMachine.calls, place=places, amount=amounts)
    def write_and_hold(self, place: int, amount: int) -> Any:
        """What is written comes before what is asked for."""
        admitted = self.any_unwritten(place)
        account = admitted.facts.account_id if admitted else ACCOUNTS[0]
        asked = self.new_facts(account, KEYS[account][0])
        batch = Batch(
            admitted=[admitted] if admitted else [],
            holds=[Hold(facts=asked, amount_nano_usd=amount)],
        )
        applied = self.run(batch)
        if admitted:
            del self.unwritten[admitted.facts.call_id]
            self.open_admitted(admitted)
        expected = self.expect_hold(account, asked.key_id, amount, None)
        assert applied.refused.get(0) == expected
        if expected is None:
            self.open[asked.call_id] = (account, asked.key_id, amount)
        elif expected == "leased":
            self.unleased.add(account)
        return admitted.facts if admitted else asked

    @rule(target=LedgerMachine.calls, place=places, cost=costs)
    def end_unwritten(self, place: int, cost: int) -> Any:
        """A call ends before it is written; under another identity it may be recovery's already."""
        admitted = self.any_unwritten(place)
        if admitted is None:
            return self.new_facts(ACCOUNTS[0], KEYS[ACCOUNTS[0]][0])
        facts = admitted.facts
        self.run(Batch(settlements=[replace_admitted(facts, cost, admitted)]))
        del self.unwritten[facts.call_id]
        self.open_admitted(admitted)
        self.close(facts, cost)
        return facts

    @rule(place=places, cost=st.integers(min_value=0, max_value=300), has_ended=st.booleans())
    def recover_unwritten(self, place: int, cost: int, has_ended: bool) -> None:
        """Others read the flight recorder of a process taken for dead, which may live."""
        admitted = self.any_unwritten(place)
        if admitted is None or admitted.identity == self.identity_id:
            return
        facts = admitted.facts
        status = "success" if has_ended else "interrupted"
        settle = replace_admitted(facts, cost, admitted, status=status, is_recovery=not has_ended)
        self.run(Batch(settlements=[settle]))
        is_new = facts.call_id not in self.rows
        self.open_admitted(admitted)
        if has_ended:
            self.close(facts, cost)
        elif is_new:
            self.close(facts, cost, status="interrupted")
            self.recovered[facts.call_id] = facts.key_id
            self.ever_recovered.add(facts.call_id)

    @rule()
    def dead_processes_end(self) -> None:
        for identity in self.dead:
            self.end_process(identity)
            for account in ACCOUNTS:
                self.leases.pop((identity, account), None)
        self.dead.clear()

    @rule()
    def accounts_may_be_leased_again(self) -> None:
        self.unleased.clear()
        self.lease_again()

    @rule(place=places)
    def give_up_unwritten(self, place: int) -> None:
        """Its client left before anything was written: nothing comes of it."""
        admitted = self.any_unwritten(place)
        if admitted is not None and admitted.identity == self.identity_id:
            del self.unwritten[admitted.facts.call_id]

    @invariant()
    def leases_are_as_the_model_says(self) -> None:
        expected = {place: amount for place, amount in self.leases.items() if amount}
        found = {place: amount for place, amount in self.leases_in_ledger().items() if amount}
        assert found == expected

    @invariant()
    def nothing_is_admitted_twice(self) -> None:
        for account in ACCOUNTS:
            assert self.room(account) >= 0

    # The model

    def room(self, account: str) -> int:
        mine = self.identity_id
        used = sum(
            one.hold.amount_nano_usd
            for one in self.unwritten.values()
            if one.identity == mine and one.facts.account_id == account
        )
        return self.leases.get((mine, account), 0) - used

    def any_unwritten(self, place: int) -> Admitted | None:
        waiting = list(self.unwritten.values())
        return waiting[place % len(waiting)] if waiting else None

    def open_admitted(self, admitted: Admitted) -> None:
        facts = admitted.facts
        if facts.call_id not in self.rows:
            amount = admitted.hold.amount_nano_usd
            self.open[facts.call_id] = (facts.account_id, facts.key_id, amount)

    def be_taken_for_dead(self) -> None:
        self.dead.add(self.identity_id)
        super().be_taken_for_dead()

    def _apply(self, batch: Batch) -> Applied:
        """As the writer does: of a batch with a number nothing was applied by a buried process."""
        if not batch.has_leased:
            return super()._apply(batch)
        if self.is_buried:
            applied = self.apply(batch)
            assert applied.is_buried
            assert not self.was_applied(self.number)
            self.reregister()
            self.is_buried = False
        self.draw(batch)
        applied = self.apply(batch)
        assert not applied.is_buried
        assert self.was_applied(self.number)
        assert not self.was_applied(self.number + 1)
        self.change(batch.changes)
        return applied

    def draw(self, batch: Batch) -> None:
        """Where the balance does not cover a batch beside the leases, one shrinks."""
        mine = self.identity_id
        ended = [s for s in batch.settlements if s.admitted is not None]
        for account in ACCOUNTS:
            asked = [*(one.hold for one in batch.admitted), *batch.holds]
            needed = sum(
                hold.amount_nano_usd for hold in asked if hold.facts.account_id == account
            ) + sum(s.cost_nano_usd for s in ended if s.facts.account_id == account)
            taken = sum(
                one.hold.amount_nano_usd
                for one in batch.admitted
                if one.facts.account_id == account and one.identity == mine
            ) + sum(
                min(s.cost_nano_usd, s.admitted.hold.amount_nano_usd)
                for s in ended
                if s.facts.account_id == account
                and s.admitted is not None
                and s.admitted.identity == mine
            )
            place = mine, account
            if place in self.leases and taken and needed >= self.available(account):
                self.leases[place] -= min(taken, self.leases[place])

    def change(self, changes: Sequence[LeaseChange]) -> None:
        for one in changes:
            place, change = (self.identity_id, one.account_id), one.change
            if change > 0:
                free = 0 if one.account_id in self.unleased else self.available(one.account_id)
                change = min(change, max(0, free) // 4)
                change = change if change >= one.least else 0
            self.leases[place] = max(0, self.leases.get(place, 0) + change)


def replace_admitted(
    facts: CallFacts,
    cost: int,
    admitted: Admitted,
    *,
    status: str = "success",
    is_recovery: bool = False,
) -> Settle:
    """The settlement of a call whose hold comes with it."""
    return encode_settlement(
        facts, outcome(cost, status), is_recovery=is_recovery, admitted=admitted
    )
