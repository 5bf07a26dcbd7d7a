"""The ledger's rules on the in-memory twin."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, cast
from uuid import UUID

import hypothesis

from actors.jobs import store
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
        super().__init__()
        self.ledger = FakeLedger()
        self.process = 1
        for account, keys in KEYS.items():
            for key in keys:
                self.ledger.open_account(account, key)

    @property
    def identity_id(self) -> str:
        return f"process.{self.process}"

    def apply(self, batch: Batch) -> Applied:
        number = self.next_number(batch)
        return _now(apply(self.ledger, self.identity_id, batch, number))

    def leases_in_ledger(self) -> dict[tuple[str, str], int]:
        return self.ledger.leases

    def was_applied(self, number: int) -> bool:
        return _now(ledger.was_applied(self.ledger, self.identity_id, number))

    def lease_again(self) -> None:
        self.ledger.unleased.clear()

    def end_process(self, identity: str) -> None:
        self.ledger.end_leases(identity)

    def top_up(self, account_id: str, amount: int) -> int:
        return _now(ledger.top_up(self.ledger, account_id, amount))

    def balance_of(self, account_id: str) -> tuple[int, int]:
        return self.ledger.balances[account_id], self.ledger.held[account_id]

    def faults(self) -> list[Any]:
        return self.ledger.faults()

    def log_rows(self) -> list[tuple[UUID, str, int]]:
        return [(call, row["status"], row["cost"]) for call, row in self.ledger.rows.items()]

    def bury(self) -> None:
        self.ledger.buried.add(f"process.{self.process}")

    def reregister(self) -> None:
        self.process += 1

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
