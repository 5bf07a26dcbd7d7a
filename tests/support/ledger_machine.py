"""The rules of the ledger as a state machine, run by Hypothesis on the fake and on PostgreSQL.

Two processes write, each on its host; a step is one process's. The model is a handful of
dictionaries; after every step what the ledger says must equal what the model says, and now and then
every invariant of `gw ledger verify` must hold.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from actors.process import ProcessIdentity
from actors.wallet.batch import Applied, Batch
from actors.wallet.messages import CallFacts, Hold, JobEnd, Record, Settle
from actors.wallet.receipt import lines_of, multiplier_of, total_nano_usd
from actors.wallet.rows import encode_settlement, encode_void
from actors.wallet.sheets import hold_nano_usd, price_of
from channels.registry import Binding
from tests.support.jobs import new_job
from tests.support.ledger_values import facts as facts_of
from tests.support.ledger_values import outcome
from tests.support.prices import billable_of, kept_of, spec_of, usage_of
from tests.support.specs import make_model

ACCOUNTS = ("acct_a", "acct_b")
KEYS = {"acct_a": ("key_a", "key_a_capped"), "acct_b": ("key_b",)}
CAP = 900
# To verify takes longer than the steps do, and what is off in a ledger stays so.
STEPS_BETWEEN_PROOFS = 6
HOSTS = ("here", "there")

# What may happen around a hold whose asker is told that there is none, in any order.
REFUSAL = ("hold", "record", "void", "recover")

amounts = st.integers(min_value=0, max_value=500)
accounts = st.sampled_from(ACCOUNTS)
processes = st.sampled_from((0, 1))
low_costs = st.integers(min_value=0, max_value=300)


class Open(NamedTuple):
    """An open hold, and the identity that holds it until a job takes it over."""

    account: str
    key: str
    amount: int
    holder: str


@dataclass
class Process:
    """A process that lives: its id changes when it learns that others have declared it dead."""

    identity: ProcessIdentity
    is_buried: bool = False
    number: int = 0  # of the last batch that had one
    last: Batch | None = None


class LedgerMachine(RuleBasedStateMachine):
    """Subclasses say how a batch is applied, an account credited, and the whole thing verified."""

    calls: Bundle[CallFacts] = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.balance = dict.fromkeys(ACCOUNTS, 0)
        self.facts: dict[UUID, CallFacts] = {}
        self.open: dict[UUID, Open] = {}
        self.spent = {key: 0 for keys in KEYS.values() for key in keys}
        self.rows: dict[UUID, tuple[str, int]] = {}  # status and cost
        self.recovered: dict[UUID, str] = {}  # and the key; those that are not corrected
        self.ever_recovered: set[UUID] = set()
        self.jobs: dict[UUID, str] = {}  # of calls that were granted one
        self.states: dict[str, str] = {}  # of jobs
        self.handed_over: set[UUID] = set()
        self.counter = 0
        self.steps = 0
        self.leases: dict[tuple[str, str], int] = {}  # by identity of the process, and account
        self.begun = 0  # processes
        self.processes = [self.begin(host) for host in HOSTS]
        self.me = self.processes[0]  # acts now

    def register(self, identity: ProcessIdentity) -> None:
        raise NotImplementedError

    def apply(self, batch: Batch) -> Applied:
        raise NotImplementedError

    def top_up(self, account_id: str, amount: int) -> int:
        raise NotImplementedError

    def faults(self) -> list[Any]:
        raise NotImplementedError

    def balance_of(self, account_id: str) -> tuple[int, int]:
        raise NotImplementedError

    def log_rows(self) -> list[tuple[UUID, str, int]]:
        """Call, status and cost of every row of the call log."""
        raise NotImplementedError

    def accept(self, facts: CallFacts) -> bool:
        """An upstream accepts the job of a call, which takes over what it holds."""
        raise NotImplementedError

    def open_job(self, job_id: str) -> tuple[UUID, int] | None:
        """Call and hold of an accepted job that has not ended."""
        raise NotImplementedError

    def job_states(self) -> dict[str, str]:
        raise NotImplementedError

    @rule(account=accounts, amount=st.integers(min_value=1, max_value=1000))
    def credit(self, account: str, amount: int) -> None:
        self.balance[account] += amount
        assert self.top_up(account, amount) == self.balance[account]

    @rule(
        target=calls,
        account=accounts,
        key_index=st.integers(min_value=0, max_value=1),
        wanted=st.lists(amounts, min_size=1, max_size=4),
    )
    def hold(self, account: str, key_index: int, wanted: list[int]) -> Any:
        keys = KEYS[account]
        key = keys[key_index % len(keys)]
        cap = CAP if key.endswith("capped") else None
        facts = [self.new_facts(account, key) for _ in wanted]
        batch = Batch(
            holds=[
                Hold(facts=f, amount_nano_usd=amount, cap_nano_usd=cap)
                for f, amount in zip(facts, wanted, strict=True)
            ]
        )
        applied = self.run(batch)
        for seq, (f, amount) in enumerate(zip(facts, wanted, strict=True)):
            expected = self.expect_hold(account, key, amount, cap)
            assert applied.refused.get(seq) == expected
            self.open_if(expected is None, f, amount)
        return multiple(*facts)

    @rule(target=calls, account=accounts, amount=amounts, is_submitted=st.booleans())
    def begin_a_job(self, account: str, amount: int, is_submitted: bool) -> Any:
        """It may also stay with its process for a while, or until that dies."""
        facts = self.new_facts(account, KEYS[account][0], has_job=True)
        assert facts.job_id is not None
        hold = Hold(facts=facts, amount_nano_usd=amount, job=new_job())
        applied = self.run(Batch(holds=[hold]))
        expected = self.expect_hold(account, facts.key_id, amount, None)
        assert applied.refused.get(0) == expected
        if self.open_if(expected is None, facts, amount):
            self.jobs[facts.call_id] = facts.job_id
            self.states[facts.job_id] = "submitting"
        if is_submitted:
            self.hand_it_over(facts)
        return facts

    @rule(facts=calls)
    def hand_it_over(self, facts: CallFacts) -> None:
        """Also a call that begins none, one that has ended, and a second time."""
        job_id = self.jobs.get(facts.call_id)
        is_accepted = facts.call_id in self.handed_over or (
            job_id is not None and facts.call_id in self.open
        )
        assert self.accept(facts) == is_accepted
        if is_accepted and facts.call_id not in self.handed_over:
            assert job_id is not None
            self.handed_over.add(facts.call_id)
            self.states[job_id] = "queued"

    @rule(facts=calls, cost=st.integers(min_value=0, max_value=800))
    def settle(self, facts: CallFacts, cost: int) -> None:
        """Less, equal, more than the hold; again; or for a call that was never admitted."""
        applied = self.run(Batch(settlements=[self.settlement(facts, cost)]))
        assert (facts.call_id not in applied.unsettled) == (facts.call_id in self.open)
        assert (facts.call_id in applied.corrected) == (facts.call_id in self.recovered)
        self.close(facts, cost)

    @rule(random=st.randoms(use_true_random=False), account=accounts)
    def call_at_a_price(self, random: Random, account: str) -> None:
        """Of every dimension, also a channel's own: what is paid is what its receipt comes to."""
        own = spec_of(random) if random.random() < 0.5 else None
        factor = random.choice((Decimal(1), Decimal("1.3"), Decimal("0.85")))
        model = make_model(Binding("a", price=own), price=spec_of(random), multiplier=factor)
        price, usage = price_of(model), usage_of(random)
        served = price if price.channels is None else price.channels["a"]
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        held = hold_nano_usd(price, **tokens, billable=billable_of(usage))
        cost, detail = served.cost_nano_usd(usage), kept_of(served, usage)
        if held > 10**15:
            return
        self.credit(account=account, amount=held + 1)
        facts = self.new_facts(account, KEYS[account][0])
        expected = self.expect_hold(account, facts.key_id, held, None)
        applied = self.run(Batch(holds=[Hold(facts=facts, amount_nano_usd=held)]))
        assert applied.refused.get(0) == expected
        if not self.open_if(expected is None, facts, held):
            return
        tokens["cached_tokens"] = usage.cached_tokens
        ended = outcome(cost, detail=detail, **tokens)
        self.run(Batch(settlements=[encode_settlement(facts, ended)]))
        assert total_nano_usd(lines_of(detail, **tokens), multiplier_of(detail)) == cost
        self.close(facts, cost)

    @rule(facts=calls, cost=low_costs)
    def recover(self, facts: CallFacts, cost: int) -> None:
        """Others settle a call, by mistake or not; its own settlement may follow, or have come."""
        applied = self.run(Batch(settlements=[recovery(facts, cost)]))
        # What a job has taken over is nobody's to recover.
        is_open = facts.call_id in self.open and facts.call_id not in self.handed_over
        assert applied.unsettled == (set() if is_open else {facts.call_id})
        assert applied.corrected == set()
        if is_open:
            self.close_as_recovered(facts, cost)

    @rule(account=accounts, amount=amounts, cost=amounts, steps=st.permutations(REFUSAL))
    def refuse_late(self, account: str, amount: int, cost: int, steps: list[str]) -> None:
        """A call is refused while its hold is being made: in any order it has one row, at no cost.

        What is still held in the end is what recovery finds.
        """
        facts = self.new_facts(account, KEYS[account][0])
        for step in (*steps, "recover"):
            if step == "hold":
                self.expect_hold(account, facts.key_id, amount, None)
                batch = Batch(holds=[Hold(facts=facts, amount_nano_usd=amount)])
            elif step == "record":
                row = Record(facts=facts, outcome=outcome(0, status="rejected"))
                batch = Batch(records=[row])
            elif step == "void":
                batch = Batch(settlements=[encode_void(facts)])
            else:
                batch = Batch(settlements=[recovery(facts, cost)])
            self.run(batch)
        self.rows[facts.call_id] = ("rejected", 0)

    @rule(who=processes)
    def act(self, who: int) -> None:
        """The steps of one process end, those of the other begin."""
        self.me = self.processes[who]

    @rule(facts=calls)
    def void(self, facts: CallFacts) -> None:
        if facts.call_id in self.handed_over:  # somebody has learnt of its hold
            return
        self.run(Batch(settlements=[encode_void(facts)]))
        self.close(facts, 0, status=None)

    @rule(facts=calls, cost=low_costs, amount=amounts)
    def settle_and_hold_together(self, facts: CallFacts, cost: int, amount: int) -> None:
        """What a settlement releases can be held within the same batch."""
        fresh = self.new_facts(facts.account_id, facts.key_id)
        refused = self.new_facts(facts.account_id, facts.key_id)
        cap = CAP if facts.key_id.endswith("capped") else None
        applied = self.run(
            Batch(
                settlements=[self.settlement(facts, cost)],
                holds=[Hold(facts=fresh, amount_nano_usd=amount, cap_nano_usd=cap)],
                records=[Record(facts=refused, outcome=outcome(0, status="rejected"))],
            )
        )
        self.close(facts, cost)
        self.rows[refused.call_id] = ("rejected", 0)
        expected = self.expect_hold(fresh.account_id, fresh.key_id, amount, cap)
        assert applied.refused.get(0) == expected
        self.open_if(expected is None, fresh, amount)

    @rule()
    def send_the_last_batch_again(self) -> None:
        """The connection was lost after the commit: the repeat must change nothing.

        A hold that was refused may be granted now, as a new admission. One that has something
        leased is not sent again: its number shows that it was applied.
        """
        last = self.me.last
        if last is None or last.has_leased:
            return
        batch = Batch(settlements=last.settlements, records=last.records)
        before = {account: self.balance_of(account) for account in ACCOUNTS}
        repeated = self.apply(batch)
        every = frozenset(settle.facts.call_id for settle in batch.settlements)
        assert (repeated.unsettled, repeated.corrected) == (every, frozenset())
        standing = [h for h in last.holds if h.facts.call_id in self.open]
        again = self._apply(Batch(holds=standing))
        assert (again.refused, again.taken) == ({}, {})
        assert {account: self.balance_of(account) for account in ACCOUNTS} == before

    @invariant()
    def ledger_equals_model(self) -> None:
        for account in ACCOUNTS:
            assert self.balance_of(account) == (self.balance[account], self.held(account))

    @invariant()
    def every_call_has_its_one_row(self) -> None:
        expected = sorted((call, *row) for call, row in self.rows.items())
        assert sorted(self.log_rows()) == expected

    @invariant()
    def open_jobs_can_be_ended_by_anybody(self) -> None:
        for call_id, job_id in self.jobs.items():
            is_open = call_id in self.open and call_id in self.handed_over
            expected = (call_id, self.open[call_id].amount) if is_open else None
            assert self.open_job(job_id) == expected

    @invariant()
    def jobs_end_with_their_calls(self) -> None:
        assert self.job_states() == self.states

    @invariant()
    def ledger_verifies(self) -> None:
        self.steps += 1
        if self.steps % STEPS_BETWEEN_PROOFS == 0:
            assert self.faults() == []

    def teardown(self) -> None:
        assert self.faults() == []

    def run(self, batch: Batch) -> Applied:
        self.me.last = batch
        return self._apply(batch)

    def _apply(self, batch: Batch) -> Applied:
        """Apply a batch as the writer does: what a buried process may not, it holds as another."""
        applied = self.apply(batch)
        assert applied.is_buried == bool(self.me.is_buried and batch.holds)
        if not applied.is_buried:
            return applied
        assert (applied.refused, applied.taken) == ({}, {})
        self.reregister()
        again = self.apply(Batch(holds=batch.holds))
        return replace(again, unsettled=applied.unsettled, corrected=applied.corrected)

    def expect_hold(self, account: str, key: str, amount: int, cap: int | None) -> str | None:
        available = self.available(account)
        if amount > 0 and (available <= 0 or amount > available):
            if amount > available + self.leased(account):
                return "insufficient_funds"
            return "leased"
        if cap is not None:
            held = sum(one.amount for one in self.open.values() if one.key == key)
            left = cap - self.spent[key] - held
            if left <= 0 or amount > left:
                return "spend_cap"
        return None

    def leased(self, account: str) -> int:
        return sum(amount for (_, name), amount in self.leases.items() if name == account)

    def held(self, account: str) -> int:
        return sum(one.amount for one in self.open.values() if one.account == account)

    def available(self, account: str) -> int:
        return self.balance[account] - self.held(account) - self.leased(account)

    def next_number(self, batch: Batch) -> int | None:
        """As the writer numbers its batches."""
        if not batch.has_leased:
            return None
        self.me.number += 1
        return self.me.number

    def begin(self, host: str) -> Process:
        self.begun += 1
        identity = ProcessIdentity(f"proc_{self.begun}", host, "boot", self.begun)
        self.register(identity)
        return Process(identity)

    def reregister(self) -> None:
        """The process goes on under another id."""
        assert self.me.identity.renew(self.me.identity.id)
        self.register(self.me.identity)
        self.me.is_buried = False

    def open_if(self, is_granted: bool, facts: CallFacts, amount: int) -> bool:
        if is_granted:
            holder = self.me.identity.id
            self.open[facts.call_id] = Open(facts.account_id, facts.key_id, amount, holder)
        return is_granted

    def close(self, facts: CallFacts, cost: int, *, status: str | None = "success") -> None:
        """A call ends, or what recovery made of it is corrected; without a status it is void."""
        call_id = facts.call_id
        found = self.open.pop(call_id, None)
        if found is not None:
            account, key, before = found.account, found.key, 0
        elif call_id in self.recovered and status is not None:
            account, key = facts.account_id, self.recovered.pop(call_id)
            before = self.rows[call_id][1]
        else:
            return
        self.balance[account] -= cost - before
        self.spent[key] += cost - before
        if status is not None:
            self.rows[call_id] = (status, cost)
        if found is not None and call_id in self.jobs:
            is_paid = status == "success" and call_id in self.handed_over
            self.states[self.jobs[call_id]] = "succeeded" if is_paid else "failed"

    def close_as_recovered(self, facts: CallFacts, cost: int) -> None:
        self.close(facts, cost, status="interrupted")
        self.recovered[facts.call_id] = facts.key_id
        self.ever_recovered.add(facts.call_id)

    def settlement(self, facts: CallFacts, cost: int) -> Settle:
        """The end of a call, and of its job if it has one that was accepted."""
        if facts.call_id not in self.handed_over:
            return encode_settlement(facts, outcome(cost))
        return encode_settlement(
            facts, outcome(cost), job_end=JobEnd(state="succeeded", by="machine", result={})
        )

    def new_facts(self, account: str, key: str, *, has_job: bool = False) -> CallFacts:
        self.counter += 1
        job_id = f"job_{self.counter}" if has_job else None
        facts = facts_of(self.counter, account_id=account, key_id=key, job_id=job_id)
        self.facts[facts.call_id] = facts
        return facts


def recovery(facts: CallFacts, cost: int) -> Settle:
    """What others make of a call whose process they take for dead."""
    return encode_settlement(facts, outcome(cost, status="interrupted"), is_recovery=True)
