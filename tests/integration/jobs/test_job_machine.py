"""The life of one job on PostgreSQL: the same machine that runs on the in-memory twin."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from actors.jobs import store
from actors.jobs.job import State
from actors.jobs.settlement import settlement_of
from actors.jobs.state_machine import End
from actors.jobs.store import Booked, Claimed
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import CallFacts, Hold
from actors.wallet.rows import encode_settlement
from actors.wallet.verify import verify
from tests.integration.driver import Driver
from tests.integration.money import ACCOUNT, PROCESS, entry_guards, open_account
from tests.support.job_machine import BALANCE, CLAIM_SECONDS, DEADLINE_SECONDS, HOLD, JobMachine
from tests.support.jobs import CHANNEL, acceptance, new_job
from tests.support.ledger_values import facts as facts_of
from tests.support.ledger_values import outcome

pytestmark = pytest.mark.long

JOB = "vid_1"
# Triggers off: the entries' own would refuse to let an example start afresh.
AFRESH = f"""
{entry_guards("DISABLE")}; ALTER TABLE key_views DISABLE TRIGGER USER;
TRUNCATE entries, holds, jobs, job_polls, call_logs, call_log_rollups, recovered_calls;
TRUNCATE events, events_written; TRUNCATE key_spend, keys, accounts CASCADE;
{entry_guards("ENABLE")}; ALTER TABLE key_views ENABLE TRIGGER USER;
"""


def test_job_lives_on_postgres_as_in_memory(driver: Driver) -> None:
    database, run = driver.database, driver.run

    class PostgresJobMachine(JobMachine):
        def __init__(self) -> None:
            super().__init__()
            self.facts: CallFacts = facts_of(1, protocol="videos", job_id=JOB)
            run(database.execute(AFRESH))
            run(open_account(database, BALANCE))

        def begin(self) -> None:
            job = new_job(deadline_seconds=DEADLINE_SECONDS)
            hold = Hold(facts=self.facts, amount_nano_usd=HOLD, job=job)
            applied = run(apply(database, PROCESS, Batch(holds=[hold])))
            assert (applied.refused, applied.taken) == ({}, {})

        def accept(self) -> bool:
            accepting = store.accept(database, self.facts, acceptance(), pause_seconds=0.0)
            return run(accepting)  # type: ignore[no-any-return]

        def recover(self) -> None:
            settle = encode_settlement(
                self.facts,
                outcome(0, "interrupted", error_code="gateway_restarted"),
                is_recovery=True,
            )
            run(apply(database, "proc_other", Batch(settlements=[settle])))

        def claim(self, claim_id: str, *, limit: int = 8) -> list[Claimed]:
            claiming = store.claim(
                database,
                shares={CHANNEL: limit, "other": 1},
                limit=limit,
                claim_id=claim_id,
                claim_seconds=CLAIM_SECONDS,
            )
            return run(claiming)  # type: ignore[no-any-return]

        def book(self, booked: Booked) -> None:
            run(store.book(database, [booked]))

        def end(self, end: End) -> int | None:
            open_job = run(store.read_open(database, JOB))
            if open_job is None:
                return None
            by = f"machine/{self.claims}"
            result, job_end = settlement_of(
                open_job,
                end,
                now=2e9,
                by=by,
                redact=str,
                content_link=lambda *_: "",
                upstream_cost=lambda *_: None,
            )
            settle = encode_settlement(open_job.facts, result, job_end=job_end)
            run(apply(database, PROCESS, Batch(settlements=[settle])))
            assert run(store.read_end(database, JOB)) == (by, end.state)
            # Said again, as after a lost connection, it changes nothing.
            run(apply(database, PROCESS, Batch(settlements=[settle])))
            return result.cost_nano_usd

        def pass_time(self, seconds: float) -> None:
            earlier = "{0} = {0} - make_interval(secs => %s)"
            sets = ", ".join(earlier.format(name) for name in ("due_at", "deadline_at"))
            run(database.execute(f"UPDATE job_polls SET {sets}", (seconds, seconds)))
            sets = earlier.format("deadline_at")
            run(database.execute(f"UPDATE jobs SET {sets}", (seconds,)))

        def look(self) -> tuple[State, int | None]:
            job = run(store.read(database, JOB, account_id=None))
            return job.state, job.progress

        def money(self) -> tuple[int, int]:
            return run(ledger.read_balance(database, ACCOUNT))  # type: ignore[no-any-return]

        def row_costs(self) -> list[int]:
            sql = "SELECT cost_nano_usd FROM call_logs WHERE request_id = %s"
            rows = run(database.fetch_all(sql, (str(self.facts.call_id),)))
            return [cost for (cost,) in rows]

        def faults(self) -> list[Any]:
            # The process lives, however long the machine's steps take.
            run(database.execute("UPDATE processes SET heartbeat_at = now()"))
            return list(run(verify(database, with_costs=True)).faults)

    run_state_machine_as_test(
        PostgresJobMachine,
        settings=settings(
            max_examples=15,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
