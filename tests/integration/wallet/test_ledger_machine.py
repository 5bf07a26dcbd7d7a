"""The ledger's rules on PostgreSQL: the same machine that runs on the in-memory twin."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from actors.events import outbox
from actors.jobs import store
from actors.process import SQL, ProcessIdentity, register
from actors.wallet import ledger
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.messages import CallFacts
from actors.wallet.verify import verify
from tests.integration.driver import Driver
from tests.integration.money import entry_guards
from tests.support.claim_machine import ClaimRows
from tests.support.jobs import acceptance
from tests.support.lease_machine import LeaseMachine
from tests.support.ledger_machine import KEYS

UNLEASED = "UPDATE accounts SET unleased_until = 'infinity' WHERE unleased_until IS NOT NULL"

# What each row has cost before its corrections, and costs.
COSTS_OF_ROWS = """
SELECT l.request_id, ARRAY(
    SELECT c.cost_before_nano_usd FROM call_log_corrections c WHERE c.call_id = l.request_id
    ORDER BY c.id) || l.cost_nano_usd
FROM call_logs l
"""

pytestmark = pytest.mark.long


def test_postgres_keeps_the_rules(driver: Driver) -> None:
    class PostgresLedgerMachine(LeaseMachine):
        def __init__(self) -> None:
            driver.run(self._empty())
            self.cursor = self._read_events(0).last
            # What the events of each call say that it has cost, one after the other.
            self.settled: dict[UUID, list[int]] = {}
            super().__init__()

        async def _empty(self) -> None:
            database = driver.database
            # Triggers off: the entries' own trigger would refuse to let an example start afresh.
            guarded = ("call_log_corrections", "key_views")
            off, on = (
                ";".join(f"ALTER TABLE {name} {what} TRIGGER USER" for name in guarded)
                for what in ("DISABLE", "ENABLE")
            )
            await outbox.want_calls(database, are_wanted=True)
            await database.execute(
                f"{entry_guards('DISABLE')}; {off};"
                "TRUNCATE idempotency, entries, holds, jobs, job_polls, call_logs,"
                " call_log_rollups, processes, leases, recovered_calls, call_log_corrections,"
                " events, events_written; UPDATE event_numbers SET purged = last;"
                f"TRUNCATE key_spend, keys, accounts CASCADE; {on};"
                f"{entry_guards('ENABLE')}"
            )
            for account, keys in KEYS.items():
                await database.execute(
                    "INSERT INTO accounts (id, name) VALUES (%s, 'n')", (account,)
                )
                for key in keys:
                    await database.execute(
                        "INSERT INTO keys (id, account_id, name, kind, prefix, lookup_hash)"
                        " VALUES (%s, %s, 'n', 'console', 'p', %s)",
                        (key, account, key.encode()),
                    )

        def _read_events(self, after: int) -> outbox.Reading:
            driver.run(outbox.number(driver.database))
            reading = outbox.read(driver.database, after=after, limit=10_000)
            return driver.run(reading)  # type: ignore[no-any-return]

        @invariant()
        def a_row_is_one_event_and_no_cursor_passes_any(self) -> None:
            """And each correction of it is another."""
            reading = self._read_events(self.cursor)
            numbers = [one.sequence for one in reading.events]
            assert numbers == list(range(self.cursor + 1, reading.last + 1))
            self.cursor = reading.last
            for one in reading.events:
                if one.type == "call.settled":
                    costs = self.settled.setdefault(UUID(one.data["request_id"]), [])
                    costs.append(one.data["cost_nano_usd"])
            rows = driver.run(driver.database.fetch_all(COSTS_OF_ROWS))
            assert self.settled == {UUID(call): costs for call, costs in rows}

        def register(self, identity: ProcessIdentity) -> None:
            driver.run(register(driver.database, identity))

        def apply(self, batch: Batch) -> Applied:
            number = self.next_number(batch)
            applying = apply(driver.database, self.me.identity.id, batch, number)
            applied = driver.run(applying)
            # The model says when accounts may be leased again, however long a step takes.
            driver.run(driver.database.execute(UNLEASED))
            return applied  # type: ignore[no-any-return]

        def leases_in_ledger(self) -> dict[tuple[str, str], int]:
            rows = driver.run(driver.database.fetch_all("SELECT * FROM leases"))
            return {(process, account): amount for process, account, amount, _ in rows}

        def is_unleased(self, account: str) -> bool:
            sql = "SELECT unleased_until IS NOT NULL FROM accounts WHERE id = %s"
            return driver.run(driver.database.fetch_one(sql, (account,)))[0]  # type: ignore[no-any-return]

        def called_in_ledger(self) -> set[tuple[str, str]]:
            sql = "SELECT process_id, account_id FROM leases WHERE called_at IS NOT NULL"
            return set(driver.run(driver.database.fetch_all(sql)))

        def take(self, identity: str, account: str) -> int:
            rows = driver.run(driver.database.fetch_all(SQL["called_back"], ("nobody",)))
            called = {(process, name): at for process, name, at in rows}
            taking = (identity, account, called.get((identity, account)))
            return driver.run(driver.database.fetch_one(SQL["take_lease"], taking))[0]  # type: ignore[no-any-return]

        def was_applied(self, number: int) -> bool:
            return driver.run(ledger.was_applied(driver.database, self.me.identity.id, number))  # type: ignore[no-any-return]

        def lease_again(self) -> None:
            driver.run(driver.database.execute("UPDATE accounts SET unleased_until = NULL"))

        def holds_of(self, identity: str) -> set[UUID]:
            rows = driver.run(driver.database.fetch_all(SQL["holds_of"], (identity,)))
            return {UUID(row[0]) for row in rows}

        def leave(self, identities: list[str]) -> None:
            driver.run(driver.database.execute(SQL["leave"], (identities,)))

        def bury(self, identity: str) -> None:
            buried = (identity, self.me.identity.id, None)
            assert driver.run(driver.database.fetch_one(SQL["declare_dead"], buried)) == (True,)

        def accept(self, facts: CallFacts) -> bool:
            accepting = store.accept(driver.database, facts, acceptance(), pause_seconds=2.0)
            return driver.run(accepting)  # type: ignore[no-any-return]

        def open_job(self, job_id: str) -> tuple[UUID, int] | None:
            found = driver.run(store.read_open(driver.database, job_id))
            return found and (found.facts.call_id, found.amount_nano_usd)

        def job_states(self) -> dict[str, str]:
            return dict(driver.run(driver.database.fetch_all("SELECT id, state::text FROM jobs")))

        def log_rows(self) -> list[tuple[UUID, str, int]]:
            rows = driver.run(
                driver.database.fetch_all("SELECT request_id, status, cost_nano_usd FROM call_logs")
            )
            return [(UUID(call), status, cost) for call, status, cost in rows]

        def top_up(self, account_id: str, amount: int) -> int:
            return driver.run(ledger.top_up(driver.database, account_id, amount))  # type: ignore[no-any-return]

        def balance_of(self, account_id: str) -> tuple[int, int]:
            found = driver.run(ledger.read_balance(driver.database, account_id))
            assert found is not None
            return found  # type: ignore[no-any-return]

        def faults(self) -> list[Any]:
            return list(driver.run(verify(driver.database)).faults)

        def pass_time(self, seconds: float) -> None:
            driver.run(
                driver.database.execute(
                    "UPDATE idempotency SET expires_at = expires_at - make_interval(secs => %s)",
                    (seconds,),
                )
            )

        def claim_rows(self) -> ClaimRows:
            rows = driver.run(
                driver.database.fetch_all(
                    "SELECT account_id, key, call_id, state, body FROM idempotency"
                )
            )
            return {
                (account, key): (UUID(call), state, bytes(body) if body is not None else None)
                for account, key, call, state, body in rows
            }

    run_state_machine_as_test(
        PostgresLedgerMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
