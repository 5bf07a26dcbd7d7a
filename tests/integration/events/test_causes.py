"""Events of bookings, calls and tasks: written in the transaction of their cause, or not at all."""

import asyncio
from typing import Any

from actors.events.outbox import number, read
from actors.store.database import Database
from actors.wallet import ledger
from actors.wallet.batch import Batch, apply
from tests.integration.actors.process import process
from tests.integration.media.finished_jobs import ended, failed, made
from tests.integration.money import ACCOUNT, KEY, PROCESS, open_account
from tests.support.ledger_values import facts, hold, refused, settle

USD = 10**9


async def events(database: Database, *types: str) -> list[tuple[str, dict[str, Any]]]:
    await number(database)
    reading = await read(database, after=0, limit=1000, types=types or None)
    return [(event.type, dict(event.data)) for event in reading.events]


async def alert(database: Database, *below: int) -> None:
    await database.execute(
        "UPDATE accounts SET balance_alerts_nano_usd = %s::bigint[]", (list(below),)
    )


async def spend(database: Database, call: int, cost: int, process_id: str = PROCESS) -> None:
    await apply(database, process_id, Batch(holds=[hold(call, cost)]))
    await apply(database, process_id, Batch(settlements=[settle(call, cost)]))


async def lows(database: Database) -> list[tuple[str, str]]:
    return [
        (data["threshold_usd"], data["balance_usd"])
        for _, data in await events(database, "balance.low")
    ]


async def test_balance_falls_to_an_amount_once_until_it_rises_above(database_url: str) -> None:
    async with Database(database_url, size=2) as database:
        await open_account(database, 10 * USD)
        await alert(database, 5 * USD, 2 * USD)
        await apply(database, PROCESS, Batch(holds=[hold(1, 9 * USD)]))
        assert await lows(database) == []  # a hold is no booking of the settled balance
        await apply(database, PROCESS, Batch(settlements=[settle(1, 4 * USD)]))
        assert await lows(database) == []  # 6
        await spend(database, 2, USD)
        assert await lows(database) == [("5", "5")]  # reached, not passed
        await spend(database, 3, USD)
        assert await lows(database) == [("5", "5")]
        async with database.transaction() as session:
            await ledger.top_up(session, ACCOUNT, 2 * USD, kind="topup")  # 6
        await spend(database, 4, USD)
        assert await lows(database) == [("5", "5"), ("5", "5")]
        async with database.transaction() as session:
            await ledger.correct(session, ACCOUNT, -4 * USD)  # 1
        assert (await lows(database))[2:] == [("2", "1")]
        async with database.transaction() as session:
            await ledger.correct(session, ACCOUNT, 9 * USD)  # 10
        await spend(database, 5, 9 * USD)
        assert (await lows(database))[3:] == [("5", "1"), ("2", "1")]


async def test_two_processes_that_book_at_once_report_a_fall_once(database_url: str) -> None:
    async with Database(database_url, size=4) as database:
        await open_account(database, 40 * USD)
        await database.execute(
            "INSERT INTO processes (id, host, boot_id, pid) VALUES ('proc_other', 'h', '', 2)"
        )
        await alert(database, 20 * USD)
        await asyncio.gather(
            *(
                spend(database, 1000 * which + call, USD, name)
                for which, name in enumerate((PROCESS, "proc_other"))
                for call in range(19)
            )
        )
        assert await lows(database) == [("20", "20")]


async def test_an_account_without_alerts_and_one_already_below_have_no_events(
    database_url: str,
) -> None:
    async with Database(database_url, size=1) as database:
        await open_account(database, 3 * USD)
        await spend(database, 1, USD)
        await alert(database, 2 * USD)  # that is the balance
        await spend(database, 2, USD)
        assert await events(database) == []


async def test_calls_have_events_only_while_someone_reads_them(database_url: str) -> None:
    async with Database(database_url, size=1) as database:
        await open_account(database, 10 * USD)
        await spend(database, 1, USD)
        await database.execute("INSERT INTO event_call_readers VALUES ('whk_a')")
        await spend(database, 2, USD)
        await apply(database, PROCESS, Batch(records=[refused(3, model="unknown")]))
        await apply(database, PROCESS, Batch(records=[refused(3, model="unknown")]))  # again
        await database.execute("DELETE FROM event_call_readers")
        await spend(database, 4, USD)
        rows = [data for _, data in await events(database, "call.settled")]
        assert [(row["status"], row["model"], row["cost_nano_usd"]) for row in rows] == [
            ("success", "m", USD),
            ("rejected", "unknown", 0),
        ]
        stored = await database.fetch_all(
            "SELECT row_to_json(r) FROM call_log_rows r"
            " WHERE request_id = ANY (%s::uuid[]) ORDER BY id",
            ([str(facts(2).call_id), str(facts(3).call_id)],),
        )
        assert rows == [row for (row,) in stored]
        assert rows[0]["key_id"] == KEY


async def test_a_call_that_is_corrected_has_its_event_again(database_url: str) -> None:
    async with Database(database_url, size=1) as database:
        await open_account(database, 10 * USD)
        await database.execute("INSERT INTO event_call_readers VALUES ('configuration')")
        await spend(database, 1, USD)
        await database.execute(
            "UPDATE call_logs SET cost_nano_usd = %s, status = 'interrupted'", (USD // 2,)
        )
        first, second = [data for _, data in await events(database, "call.settled")]
        assert first["id"] == second["id"]
        assert (second["cost_nano_usd"], second["status"]) == (USD // 2, "interrupted")


async def test_tasks_end_with_what_they_cost_once(database_url: str) -> None:
    async with process(database_url, "proc_a") as mine:
        await open_account(mine.database, 100 * USD)
        await ended(mine, "vid_made", made("https://a.example/f"))
        await ended(mine, "vid_failed", failed())
        found = [data for _, data in await events(mine.database, "task.ended")]
        rows = await mine.database.fetch_all(
            "SELECT replace(request_id::text, '-', ''), cost_nano_usd FROM call_logs ORDER BY id"
        )
        assert [(one["task_id"], one["status"]) for one in found] == [
            ("vid_made", "succeeded"),
            ("vid_failed", "failed"),
        ]
        assert [one["request_id"] for one in found] == [request for request, _ in rows]
        assert rows[0][1] > 0
        assert found[0]["cost_usd"] == str(rows[0][1] / USD).removesuffix(".0")
        assert found[1]["cost_usd"] == "0"
        assert {one["kind"] for one in found} == {"video"}
        assert set(found[0]) == {"task_id", "kind", "status", "model", "cost_usd", "request_id"}


async def test_what_the_transaction_undoes_has_no_event(database_url: str) -> None:
    async with Database(database_url, size=2) as database:
        await open_account(database, 10 * USD)
        await alert(database, 5 * USD)
        try:
            async with database.transaction() as session:
                await ledger.correct(session, ACCOUNT, -6 * USD)
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        assert await events(database) == []
