"""The ledger's rules on the in-memory twin."""

from collections.abc import Coroutine
from typing import Any, TypeVar, cast
from uuid import UUID

import hypothesis

from actors.jobs import store
from actors.process import ProcessIdentity, register
from actors.wallet import ledger
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.messages import CallFacts
from tests.support.claim_machine import ClaimRows
from tests.support.fake_ledger import FakeLedger
from tests.support.jobs import acceptance
from tests.support.lease_machine import LeaseMachine
from tests.support.ledger_machine import KEYS

T = TypeVar("T")


def _now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The fake never waits: one step brings its coroutine to the end."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast(T, stop.value)
    raise AssertionError("the fake waited")


class FakeLedgerMachine(LeaseMachine):
    def __init__(self) -> None:
        self.ledger = FakeLedger()
        super().__init__()
        for account, keys in KEYS.items():
            for key in keys:
                self.ledger.open_account(account, key)

    def register(self, identity: ProcessIdentity) -> None:
        _now(register(self.ledger, identity))

    def apply(self, batch: Batch) -> Applied:
        number = self.next_number(batch)
        return _now(apply(self.ledger, self.me.identity.id, batch, number))

    def leases_in_ledger(self) -> dict[tuple[str, str], int]:
        return self.ledger.leases

    def was_applied(self, number: int) -> bool:
        return _now(ledger.was_applied(self.ledger, self.me.identity.id, number))

    def lease_again(self) -> None:
        self.ledger.unleased.clear()

    def is_unleased(self, account: str) -> bool:
        return account in self.ledger.unleased

    def called_in_ledger(self) -> set[tuple[str, str]]:
        return set(self.ledger.called)

    def take(self, identity: str, account: str) -> int:
        return self.ledger.take_lease(
            identity, account, self.ledger.called.get((identity, account), -1)
        )

    def holds_of(self, identity: str) -> set[UUID]:
        found = self.ledger.holds.items()
        return {call_id for call_id, hold in found if hold["process_id"] == identity}

    def leave(self, identities: list[str]) -> None:
        for identity in identities:
            if not self.holds_of(identity):
                self.ledger.end_leases(identity)

    def top_up(self, account_id: str, amount: int) -> int:
        return _now(ledger.top_up(self.ledger, account_id, amount))

    def balance_of(self, account_id: str) -> tuple[int, int]:
        return self.ledger.balances[account_id], self.ledger.held[account_id]

    def faults(self) -> list[Any]:
        return self.ledger.faults()

    def log_rows(self) -> list[tuple[UUID, str, int]]:
        return [(call, row["status"], row["cost"]) for call, row in self.ledger.rows.items()]

    def bury(self, identity: str) -> None:
        self.ledger.buried.add(identity)

    def accept(self, facts: CallFacts) -> bool:
        return _now(store.accept(self.ledger, facts, acceptance(), pause_seconds=2.0))

    def open_job(self, job_id: str) -> tuple[UUID, int] | None:
        return self.ledger.open_job(job_id)

    def job_states(self) -> dict[str, str]:
        return self.ledger.jobs.states()

    def pass_time(self, seconds: float) -> None:
        self.ledger.claims.now += seconds

    def claim_rows(self) -> ClaimRows:
        rows = self.ledger.claims.rows
        return {place: (row.call_id, row.state, row.body) for place, row in rows.items()}


TestLedgerMachine = FakeLedgerMachine.TestCase
TestLedgerMachine.settings = hypothesis.settings(
    max_examples=40, stateful_step_count=30, deadline=None
)
