"""The rules of leases on top of those of the ledger: calls are admitted in memory, and written
later, with their settlement, by recovery, or under another identity of their process. Leases are
called back from both processes, by either of them or by the ledger when the balance does not cover
them any more, and are taken from a process that does not return them; one of the processes may die
while the other lives.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, multiple, rule

from actors.process import ProcessIdentity, first_id_of
from actors.wallet.batch import Applied, Batch
from actors.wallet.messages import Admitted, CallFacts, Hold, LeaseChange, Settle
from actors.wallet.rows import encode_settlement
from tests.support.claim_machine import ClaimMachine
from tests.support.ledger_machine import (
    ACCOUNTS,
    HOSTS,
    KEYS,
    LedgerMachine,
    Process,
    accounts,
    amounts,
    low_costs,
    processes,
)
from tests.support.ledger_values import outcome

costs = st.integers(min_value=0, max_value=800)
changes = st.integers(min_value=1, max_value=2000)
parts = st.floats(min_value=0.0, max_value=1.0)
places = st.integers(min_value=0, max_value=50)


@dataclass(frozen=True)
class Wreck:
    """What the flight recorder of a dead process knows: its calls, with the cost of each that had
    ended."""

    identity: ProcessIdentity
    costs: Mapping[UUID, int | None]


class LeaseMachine(ClaimMachine):
    """What a process may admit is what it was leased, less what it has admitted and not written."""

    def __init__(self) -> None:
        super().__init__()
        self.unwritten: dict[UUID, Admitted] = {}
        self.dead: set[str] = set()  # identities that others have declared dead
        self.wrecks: list[Wreck] = []  # that nobody has read
        self.taken: set[tuple[str, str]] = set()  # leases that were not returned

    def leases_in_ledger(self) -> dict[tuple[str, str], int]:
        raise NotImplementedError

    def was_applied(self, number: int) -> bool:
        raise NotImplementedError

    def lease_again(self) -> None:
        """The time is over in which accounts are not leased."""
        raise NotImplementedError

    def is_unleased(self, account: str) -> bool:
        """Nothing is leased of the account for a while."""
        raise NotImplementedError

    def called_in_ledger(self) -> set[tuple[str, str]]:
        """The leases that are called back."""
        raise NotImplementedError

    def take(self, identity: str, account: str) -> int:
        """A lease that is called back is taken from its process."""
        raise NotImplementedError

    def bury(self, identity: str) -> None:
        """The process that acts declares another dead."""
        raise NotImplementedError

    def holds_of(self, identity: str) -> set[UUID]:
        raise NotImplementedError

    def leave(self, identities: list[str]) -> None:
        """Delete the rows of a dead process but those that still hold something."""
        raise NotImplementedError

    @initialize(amounts=st.lists(amounts, min_size=1, max_size=4))
    def calls_are_under_way(self, amounts: list[int]) -> None:
        for account in ACCOUNTS:
            self.credit(account=account, amount=4000)
            for who in (1, 0):
                self.lease(who=who, account=account, change=1000, least=0)
        for amount in amounts:
            self.admit(who=amount % 2, account=ACCOUNTS[0], amount=amount)

    @rule(who=processes, account=accounts, change=changes, least=amounts)
    def lease(self, who: int, account: str, change: int, least: int) -> None:
        self.act(who=who)
        self.run(Batch(changes=[LeaseChange(account, change, least)]))

    @rule(who=processes, account=accounts, part=parts)
    def give_back(self, who: int, account: str, part: float) -> None:
        self.act(who=who)
        amount = int(self.room(self.me, account) * part)
        if amount > 0:
            self.run(Batch(changes=[LeaseChange(account, -amount)]))

    @rule(who=processes, account=accounts, amount=amounts)
    def admit(self, who: int, account: str, amount: int) -> None:
        self.act(who=who)
        if amount <= self.room(self.me, account) and not self.me.is_buried:
            facts = self.new_facts(account, KEYS[account][0])
            hold = Hold(facts=facts, amount_nano_usd=amount)
            identity = self.me.identity.id
            self.unwritten[facts.call_id] = Admitted(hold, identity, 0.0, hold.amount_nano_usd)

    @rule(target=LedgerMachine.calls, who=processes, place=places, amount=amounts)
    def write_and_hold(self, who: int, place: int, amount: int) -> Any:
        self.act(who=who)
        admitted = self.any_unwritten(place)
        account = admitted.facts.account_id if admitted else ACCOUNTS[0]
        request = self.new_facts(account, KEYS[account][0])
        self.ask(request, amount, [admitted] if admitted else [])
        return admitted.facts if admitted else request

    @rule(target=LedgerMachine.calls, who=processes, account=accounts, part=parts)
    def call_back(self, who: int, account: str, part: float) -> Any:
        """A hold that is refused only for leases is tried again when every process has written
        what it admitted and given its lease back."""
        self.act(who=who)
        facts = self.new_facts(account, KEYS[account][0])
        amount = max(0, self.available(account)) + 1 + int(self.leased(account) * part)
        if self.ask(facts, amount) == "leased":
            self.is_called_back(account)
            for each in (0, 1):
                self.act(who=each)
                self.write(self.mine(account))
                self.give_back(who=each, account=account, part=1.0)
            left = {place for place, amount in self.leases.items() if amount}
            assert {identity for identity, name in left if name == account} <= self.dead
            if part > 0.5:  # and of who is dead it is taken
                for identity, _ in left:
                    self.take_lease(identity, account)
            self.lease(who=who, account=account, change=2000, least=0)  # not for a while
            self.ask(facts, amount)
        return facts

    @rule(target=LedgerMachine.calls, who=processes, place=places, cost=costs)
    def end_unwritten(self, who: int, place: int, cost: int) -> Any:
        """A call ends before it is written; under another identity it may be recovery's already."""
        self.act(who=who)
        admitted = self.any_unwritten(place)
        if admitted is None:
            return self.new_facts(ACCOUNTS[0], KEYS[ACCOUNTS[0]][0])
        facts = admitted.facts
        self.run(Batch(settlements=[settlement_of(facts, cost, admitted)]))
        self.wrote([admitted])
        self.close(facts, cost)
        return facts

    @rule(by=processes, place=places, cost=low_costs, has_ended=st.booleans())
    def recover_unwritten(self, by: int, place: int, cost: int, has_ended: bool) -> None:
        """Others read the flight recorder of a process taken for dead, which may live."""
        self.act(who=by)
        living = {one.identity.id for one in self.processes if not one.is_buried}
        theirs = [one for one in self.unwritten.values() if one.identity not in living]
        theirs = [one for one in theirs if one not in self.mine()]
        if theirs:
            admitted = theirs[place % len(theirs)]
            call_id = admitted.facts.call_id
            self.settle_for([call_id], {call_id: cost} if has_ended else {}, cost)

    @rule(who=processes)
    def be_taken_for_dead(self, who: int) -> None:
        """It lives, and learns of it by its next batch."""
        self.act(who=1 - who)
        if not self.processes[who].is_buried:
            self.processes[who].is_buried = True
            self.bury(self.processes[who].identity.id)
            self.dead.add(self.processes[who].identity.id)

    @rule()
    def dead_processes_end(self) -> None:
        self.end_leases(sorted(self.dead))

    @rule(
        target=LedgerMachine.calls,
        who=processes,
        judges=st.sampled_from(((0,), (1,), (0, 1), (1, 0))),
        host=st.sampled_from(HOSTS),
        is_written=st.booleans(),
        ends=st.lists(st.none() | costs, min_size=1, max_size=3),
        cost=low_costs,
    )
    def die(
        self,
        who: int,
        judges: Sequence[int],
        host: str,
        is_written: bool,
        ends: list[int | None],
        cost: int,
    ) -> Any:
        """Its calls are settled by the other or by its successor: as they ended by who has its
        recorder, which is on its host, and as interrupted by who has not, which is corrected."""
        dead = self.processes[who].identity
        self.act(who=who)
        if is_written:
            self.write(self.mine())
        calls = [*self.held_by(dead.all_ids), *(one.facts.call_id for one in self.mine())]
        self.wrecks.append(Wreck(dead, dict(zip(calls, cycle(ends), strict=False))))
        self.be_taken_for_dead(who=who)
        self.processes[who] = self.begin(host)
        return multiple(*self.recover_process(self.wrecks[-1], judges, cost))

    @rule(target=LedgerMachine.calls, cost=low_costs)
    def recorders_are_found(self, cost: int) -> Any:
        """Long after: what was known without them is corrected, what was not known is written."""
        found = [self.recover_process(one, [0, 1], cost) for one in [*self.wrecks]]
        return multiple(*chain(*found))

    @rule()
    def accounts_may_be_leased_again(self) -> None:
        self.lease_again()

    @rule(who=processes, account=accounts)
    def does_not_return_its_lease(self, who: int, account: str) -> None:
        """It stands still, with or without something unwritten, and goes on some time later."""
        self.take_lease(self.processes[who].identity.id, account)

    def take_lease(self, identity: str, account: str) -> None:
        place = identity, account
        is_called = place in self.called_in_ledger()
        assert self.take(*place) == (self.leases.get(place, 0) if is_called else 0)
        if is_called:
            self.leases[place] = 0
            self.taken.add(place)

    def is_called_back(self, account: str) -> None:
        left = {place for place, amount in self.leases.items() if amount and place[1] == account}
        assert left <= self.called_in_ledger()

    @rule(who=processes, place=places)
    def give_up_unwritten(self, who: int, place: int) -> None:
        """Its client left before anything was written: nothing comes of it."""
        self.act(who=who)
        admitted = self.any_unwritten(place)
        if admitted is not None and admitted.identity == self.me.identity.id:
            del self.unwritten[admitted.facts.call_id]

    @invariant()
    def leases_are_as_the_model_says(self) -> None:
        expected = {place: amount for place, amount in self.leases.items() if amount}
        found = {place: amount for place, amount in self.leases_in_ledger().items() if amount}
        assert found == expected

    @invariant()
    def what_is_not_covered_is_called_back(self) -> None:
        for account in ACCOUNTS:
            if self.available(account) < 0:
                self.is_called_back(account)

    @invariant()
    def nothing_is_admitted_twice(self) -> None:
        for one in self.processes:
            for account in ACCOUNTS:
                is_taken = (one.identity.id, account) in self.taken
                assert one.is_buried or is_taken or self.room(one, account) >= 0

    def room(self, process: Process, account: str) -> int:
        mine = process.identity.id
        used = sum(
            one.hold.amount_nano_usd
            for one in self.unwritten.values()
            if one.identity == mine and one.facts.account_id == account
        )
        return self.leases.get((mine, account), 0) - used

    def mine(self, account: str | None = None) -> list[Admitted]:
        """What the process that acts has admitted and not written, under any of its ids."""
        return [
            one
            for one in self.unwritten.values()
            if first_id_of(one.identity) == self.me.identity.first_id
            and account in (None, one.facts.account_id)
        ]

    def any_unwritten(self, place: int) -> Admitted | None:
        waiting = self.mine()
        return waiting[place % len(waiting)] if waiting else None

    def ask(self, facts: CallFacts, amount: int, admitted: Sequence[Admitted] = ()) -> str | None:
        """Ask for a hold, and return why it is refused; what is written comes before it."""
        hold = Hold(facts=facts, amount_nano_usd=amount)
        applied = self.run(Batch(admitted=admitted, holds=[hold]))
        self.wrote(admitted)
        expected = self.expect_hold(facts.account_id, facts.key_id, amount, None)
        assert applied.refused.get(0) == expected
        self.open_if(expected is None, facts, amount)
        return expected

    def write(self, admitted: Sequence[Admitted]) -> None:
        if admitted:
            self.run(Batch(admitted=admitted))
            self.wrote(admitted)

    def wrote(self, written: Iterable[Admitted]) -> None:
        for one in written:
            del self.unwritten[one.facts.call_id]
            self.open_admitted(one)

    def open_admitted(self, admitted: Admitted) -> None:
        facts = admitted.facts
        self.open_if(facts.call_id not in self.rows, facts, admitted.hold.amount_nano_usd)

    def held_by(self, identities: Sequence[str]) -> list[UUID]:
        return [
            call_id
            for call_id, one in self.open.items()
            if one.holder in identities and call_id not in self.handed_over
        ]

    def recover_process(self, wreck: Wreck, judges: Sequence[int], cost: int) -> list[CallFacts]:
        """As recovery does for a dead process; return the calls that the ledger knows."""
        dead = wreck.identity
        for judge in judges:
            self.act(who=judge)
            has_recorder = self.me.identity.shares_pids(dead.host, dead.boot_id)
            known = wreck.costs if has_recorder else {}
            held = self.held_by(dead.all_ids)
            assert set(held) == set().union(*map(self.holds_of, dead.all_ids))
            self.settle_for(held, known, cost)
            unknown = [one for one in known if one in self.unwritten and one not in self.rows]
            self.settle_for(unknown, known, cost)
            for call_id in known:
                self.unwritten.pop(call_id, None)
            ended = [one for one, true in known.items() if true is not None]
            self.settle_for([one for one in ended if one in self.recovered], known, cost)
            if has_recorder and wreck in self.wrecks:
                self.wrecks.remove(wreck)
            self.end_leases(dead.all_ids)
        return [self.facts[call_id] for call_id in wreck.costs if call_id in self.rows]

    def settle_for(
        self, calls: Iterable[UUID], known: Mapping[UUID, int | None], cost: int
    ) -> None:
        """Settle calls of another process at what is known of them, else as interrupted."""
        ends = []
        for call_id in calls:
            facts, true = self.facts[call_id], known.get(call_id)
            admitted = self.unwritten.get(call_id)
            amount = cost if true is None else true
            ends.append(settlement_of(facts, amount, admitted, is_recovery=true is None))
        if ends:
            self.run(Batch(settlements=ends))
        for end in ends:
            is_new = end.facts.call_id not in self.rows
            if end.admitted is not None:
                self.open_admitted(end.admitted)
            if not end.is_recovery:
                self.close(end.facts, end.cost_nano_usd)
            elif is_new:
                self.close_as_recovered(end.facts, cost)

    def end_leases(self, identities: list[str]) -> None:
        """The row of a dead process is kept while it holds something, and its leases too."""
        self.leave(identities)
        for identity in identities:
            if not self.held_by([identity]):
                self.dead.discard(identity)
                for account in ACCOUNTS:
                    self.leases.pop((identity, account), None)

    def _apply(self, batch: Batch) -> Applied:
        """As the writer does: of a batch with a number nothing was applied by a buried process."""
        if not batch.has_leased:
            return super()._apply(batch)
        if self.me.is_buried:
            applied = self.apply(batch)
            assert applied.is_buried
            assert not self.was_applied(self.me.number)
            self.reregister()
        self.draw(batch)
        applied = self.apply(batch)
        assert not applied.is_buried
        assert self.was_applied(self.me.number)
        assert not self.was_applied(self.me.number + 1)
        self.change(batch.changes)
        return applied

    def draw(self, batch: Batch) -> None:
        """Where the balance does not cover a batch beside the leases, one shrinks."""
        mine = self.me.identity.id
        ended = [s for s in batch.settlements if s.admitted is not None]
        for account in ACCOUNTS:
            request = [*(one.hold for one in batch.admitted), *batch.holds]
            needed = sum(
                hold.amount_nano_usd for hold in request if hold.facts.account_id == account
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
            place, change = (self.me.identity.id, one.account_id), one.change
            if change > 0:
                is_barred = self.is_unleased(one.account_id) or place in self.called_in_ledger()
                free = 0 if is_barred else self.available(one.account_id)
                change = min(change, max(0, free) // 4)
                change = change if change >= one.least else 0
            self.leases[place] = max(0, self.leases.get(place, 0) + change)


def settlement_of(
    facts: CallFacts, cost: int, admitted: Admitted | None, *, is_recovery: bool = False
) -> Settle:
    """The settlement of a call whose hold comes with it unless it is written."""
    ended = outcome(cost, "interrupted" if is_recovery else "success")
    return encode_settlement(facts, ended, admitted, is_recovery=is_recovery)
