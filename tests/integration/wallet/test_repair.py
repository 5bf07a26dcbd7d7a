"""A call log in which calls have two rows, which no gateway writes: shown, repaired."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from actors.store.database import Database
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Settle
from actors.wallet.verify import repair, verify
from tests.integration.cli.command import Gw
from tests.integration.money import ACCOUNT, PROCESS, entry_guards, open_account
from tests.support.aio import run
from tests.support.ledger_values import hold, refused, settle

SUBMITTED = 1_790_000_000.0
LATE, PAID, TWICE, PLAIN, OPEN = range(1, 6)


def recovered(number: int, cost: int) -> Settle:
    return settle(number, cost, "interrupted", seconds=16.0, error_code="gateway_restarted")


async def make_rows_twice(url: str) -> None:
    """Calls settled as recovery does, without its note of them: a refusal adds a row."""
    async with Database(url) as database:
        await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
        await open_account(database, 10_000)
        numbers = (LATE, PAID, TWICE, PLAIN, OPEN)
        holds = [hold(number) for number in numbers]
        await apply(database, PROCESS, Batch(holds=holds))
        settled = settle(PLAIN, 40)
        await apply(
            database,
            PROCESS,
            Batch(
                settlements=[recovered(LATE, 0), recovered(PAID, 30), recovered(TWICE, 0), settled]
            ),
        )
        why = {"error_code": "internal_error"}
        records = [refused(one, seconds=17.0, **why) for one in (LATE, PAID, TWICE)]
        await apply(database, PROCESS, Batch(records=records))
        again = refused(TWICE, seconds=18.0, **why)
        await apply(database, PROCESS, Batch(records=[again]))


async def faults(url: str) -> list[str]:
    async with Database(url) as database:
        return sorted({fault["invariant"] for fault in (await verify(database)).faults})


@pytest.fixture
def gw(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Gw:
    run(make_rows_twice(database_url))
    return Gw(tmp_path, database_url, capsys)


def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    async def main() -> list[tuple[Any, ...]]:
        async with Database(url) as database:
            return await database.fetch_all(sql)

    return run(main())


ROWS = "SELECT request_id::text, status, cost_nano_usd FROM call_logs ORDER BY request_id, id"
BALANCE = "SELECT balance_nano_usd, held_nano_usd FROM accounts"


def test_rows_too_many_are_shown_then_taken_out_and_kept(gw: Gw, database_url: str) -> None:
    assert run(faults(database_url)) == ["settlement_has_its_row"]
    before = query(database_url, ROWS)

    shown = gw.answers("ledger", "repair", "--by", "Ann")
    assert (shown["applied"], len(shown["calls"])) == (False, 3)
    assert query(database_url, ROWS) == before
    late, paid, twice = shown["calls"]
    assert late["stays"]["status"] == paid["stays"]["status"] == "rejected"
    assert [row["status"] for row in late["goes"]] == ["interrupted"]
    assert (paid["paid_usd"], paid["booked_usd"]) == ("0.00000003", "0.00000003")
    assert [row["status"] for row in twice["goes"]] == ["rejected", "interrupted"]

    done = gw.answers("ledger", "repair", "--by", "Ann", "--apply")
    assert done == {**shown, "applied": True}
    assert run(faults(database_url)) == []
    rejected = [(str(UUID(int=number)), "rejected", 0) for number in (LATE, PAID, TWICE)]
    assert query(database_url, ROWS) == [*rejected, (str(UUID(int=PLAIN)), "success", 40)]
    assert query(database_url, BALANCE) == [(10_000 - 40, 100)]  # what was taken is back
    assert query(database_url, "SELECT spent_nano_usd FROM key_spend") == [(40,)]
    kept = query(
        database_url,
        "SELECT call_id::text, cause::text, corrected_by, row_before ->> 'status',"
        " (row_before ->> 'id')::bigint = row_id, booked_nano_usd"
        " FROM call_log_corrections ORDER BY id",
    )
    gone = dict.fromkeys((LATE, PAID), "interrupted")
    assert kept == [
        (str(UUID(int=LATE)), "duplicate_row", "Ann", gone[LATE], True, None),
        (str(UUID(int=PAID)), "duplicate_row", "Ann", gone[PAID], True, 30),
        (str(UUID(int=TWICE)), "duplicate_row", "Ann", "rejected", True, None),
        (str(UUID(int=TWICE)), "duplicate_row", "Ann", "interrupted", True, None),
    ]
    again = gw.answers("ledger", "repair", "--apply")
    assert again["calls"] == []
    assert "@" in again["by"]


def test_repaired_database_goes_on(gw: Gw, database_url: str) -> None:
    gw.answers("ledger", "repair", "--apply")

    async def main() -> None:
        async with Database(database_url) as database:
            settled = settle(OPEN, 60, seconds=20.0)
            fresh = hold(9)
            applied = await apply(database, PROCESS, Batch(settlements=[settled], holds=[fresh]))
            assert applied.settled == {UUID(int=OPEN)}
            assert not applied.is_buried
            assert applied.balances == {ACCOUNT: (10_000 - 100, 100)}

    run(main())
    assert run(faults(database_url)) == []


def test_answer_for_people_says_what_is_done(gw: Gw) -> None:
    said = gw.says("ledger", "repair")
    assert said.exit_code == 0
    assert "3 calls: nothing was changed; --apply does it" in said.out
    assert "3 calls: repaired" in gw.says("ledger", "repair", "--apply").out
    assert "nothing to repair" in gw.says("ledger", "repair").out


def test_what_was_kept_of_a_row_is_never_changed(gw: Gw, database_url: str) -> None:
    gw.answers("ledger", "repair", "--apply")  # which runs a loop of its own

    async def change() -> None:
        async with Database(database_url) as database:
            for statement in ("UPDATE {} SET corrected_by = 'x'", "DELETE FROM {}", "TRUNCATE {}"):
                with pytest.raises(Exception, match="append-only"):
                    await database.execute(statement.format("call_log_corrections"))

    run(change())


async def test_call_of_a_month_with_a_checkpoint_is_repaired_and_still_proved_from_there(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        await database.execute("SELECT call_logs_make_partitions('2026-09-01', 1)")
        await open_account(database, 10_000)
        await apply(database, PROCESS, Batch(holds=[hold(PAID)]))
        await apply(database, PROCESS, Batch(settlements=[recovered(PAID, 30)]))
        await database.execute(
            f"{entry_guards('DISABLE')}; UPDATE entries SET created_at = '2024-03-15 12:00+00';"
            f" {entry_guards('ENABLE')}; SELECT entries_make_months('2024-03-01', 1)"
        )
        sealed = (await verify(database)).sealed
        assert len(sealed) == 1
        await apply(database, PROCESS, Batch(records=[refused(PAID, seconds=17.0)]))
        assert not (await verify(database)).ok
        (done,) = await repair(database, by="Ann", is_applied=True)
        assert (done.paid_nano_usd, done.booked_nano_usd) == (30, 30)
        assert await ledger.read_balance(database, ACCOUNT) == (10_000, 0)
        report = await verify(database)
        assert (report.faults, report.since) == ([], sealed[0])
        assert (await verify(database, is_everything=True)).faults == []
