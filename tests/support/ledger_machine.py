"""The rules of the ledger as a state machine, run by Hypothesis on the fake and on PostgreSQL.

The model is a handful of dictionaries; after every step what the ledger says must equal what the
model says, and every invariant of `gw ledger verify` must hold.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from actors.wallet.ledger import Applied, Batch
from actors.wallet.messages import CallFacts, Hold, Outcome, Record, Settle, Void

ACCOUNTS = ("acct_a", "acct_b")
KEYS = {"acct_a": ("key_a", "key_a_capped"), "acct_b": ("key_b",)}
CAP = 900

amounts = st.integers(min_value=0, max_value=500)
accounts = st.sampled_from(ACCOUNTS)


class LedgerMachine(RuleBasedStateMachine):
    """Subclasses say how a batch is applied, an account credited, and the whole thing verified."""

    calls: Bundle[CallFacts] = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.balance = dict.fromkeys(ACCOUNTS, 0)
        self.open: dict[UUID, tuple[str, str, int]] = {}
        self.spent = {key: 0 for keys in KEYS.values() for key in keys}
        self.ended: set[UUID] = set()
        self.counter = 0
        self.last: Batch | None = None

    # What a subclass provides

    def apply(self, batch: Batch) -> Applied:
        raise NotImplementedError

    def top_up(self, account_id: str, amount: int) -> int:
        raise NotImplementedError

    def faults(self) -> list[Any]:
        raise NotImplementedError

    def balance_of(self, account_id: str) -> tuple[int, int]:
        raise NotImplementedError

    # Rules

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
            if expected is None:
                self.open[f.call_id] = (account, key, amount)
        return multiple(*facts)

    @rule(facts=calls, cost=st.integers(min_value=0, max_value=800))
    def settle(self, facts: CallFacts, cost: int) -> None:
        """Less, equal, more than the hold; again; or for a call that was never admitted."""
        applied = self.run(Batch(settlements=[Settle(facts=facts, outcome=outcome(cost))]))
        assert (facts.call_id in applied.settled) == (facts.call_id in self.open)
        self.close(facts, cost)

    @rule(facts=calls)
    def void(self, facts: CallFacts) -> None:
        self.run(Batch(settlements=[Void(facts=facts)]))
        self.close(facts, 0)

    @rule(facts=calls, cost=st.integers(min_value=0, max_value=300), amount=amounts)
    def settle_and_hold_together(self, facts: CallFacts, cost: int, amount: int) -> None:
        """What a settlement releases can be held within the same batch."""
        fresh = self.new_facts(facts.account_id, facts.key_id)
        cap = CAP if facts.key_id.endswith("capped") else None
        applied = self.run(
            Batch(
                settlements=[Settle(facts=facts, outcome=outcome(cost))],
                holds=[Hold(facts=fresh, amount_nano_usd=amount, cap_nano_usd=cap)],
                records=[
                    Record(
                        facts=self.new_facts(facts.account_id, facts.key_id),
                        outcome=outcome(0, status="rejected"),
                    )
                ],
            )
        )
        self.close(facts, cost)
        expected = self.expect_hold(fresh.account_id, fresh.key_id, amount, cap)
        assert applied.refused.get(0) == expected
        if expected is None:
            self.open[fresh.call_id] = (fresh.account_id, fresh.key_id, amount)

    @rule()
    def send_the_last_batch_again(self) -> None:
        """The connection was lost after the commit: the repeat must change nothing.

        A hold that was refused may be granted now, as a new admission.
        """
        if self.last is None:
            return
        batch = Batch(settlements=self.last.settlements, records=self.last.records)
        before = {account: self.balance_of(account) for account in ACCOUNTS}
        assert self.apply(batch).settled == frozenset()
        standing = [h for h in self.last.holds if h.facts.call_id in self.open]
        again = self.apply(Batch(holds=standing))
        assert (again.refused, again.taken) == ({}, {})
        assert {account: self.balance_of(account) for account in ACCOUNTS} == before

    @invariant()
    def ledger_equals_model(self) -> None:
        for account in ACCOUNTS:
            held = sum(amount for a, _, amount in self.open.values() if a == account)
            assert self.balance_of(account) == (self.balance[account], held)

    @invariant()
    def ledger_verifies(self) -> None:
        assert self.faults() == []

    # The model

    def run(self, batch: Batch) -> Applied:
        self.last = batch
        return self.apply(batch)

    def expect_hold(self, account: str, key: str, amount: int, cap: int | None) -> str | None:
        held = sum(a for acct, _, a in self.open.values() if acct == account)
        available = self.balance[account] - held
        if available <= 0 or amount > available:
            return "insufficient_funds"
        if cap is not None:
            left = cap - self.spent[key] - sum(a for _, k, a in self.open.values() if k == key)
            if left <= 0 or amount > left:
                return "spend_cap"
        return None

    def close(self, facts: CallFacts, cost: int) -> None:
        found = self.open.pop(facts.call_id, None)
        if found is not None:
            account, key, _ = found
            self.balance[account] -= cost
            self.spent[key] += cost

    def new_facts(self, account: str, key: str) -> CallFacts:
        self.counter += 1
        return CallFacts(
            call_id=UUID(int=self.counter),
            account_id=account,
            key_id=key,
            protocol="chat",
            model="m",
            submitted_at=1_790_000_000.0,
        )


def outcome(cost: int, status: Any = "success") -> Outcome:
    return Outcome(status=status, cost_nano_usd=cost, created_at=1_790_000_001.5, latency_ms=1500)
