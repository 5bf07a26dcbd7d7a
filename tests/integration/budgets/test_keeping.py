"""What is forgotten of budgets, and what stays of what is dropped."""

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.budget_keeper import BudgetKeeper
from actors.wallet.messages import NodeHold
from actors.wallet.verify import verify
from tests.integration.budgets.nodes import NODE, make_node, node_hold, sums_of, version_of
from tests.integration.money import PROCESS, open_account
from tests.support.clock import FakeClock
from tests.support.ledger_values import settle


async def test_runs_and_ended_periods_are_forgotten_unless_a_call_is_open(
    database_url: str,
) -> None:
    async with Database(database_url) as database:
        await open_account(database, 1_000_000)
        await make_node(database, 1000, period="day")
        await make_node(database, 1000, "bud_gone", scope="every_user", period="total")
        version = await version_of(database)
        for number, run in ((1, "r"), (2, "s")):
            nodes = [
                NodeHold(NODE, "", 10),
                NodeHold("bud_gone", "u", 10),
                NodeHold("run", run, 10, 100),
            ]
            one = node_hold(number, 10, nodes, version=version)
            assert (await apply(database, PROCESS, Batch(holds=[one]))).refused == {}
        await apply(database, PROCESS, Batch(settlements=[settle(1, 10)]))
        clock = FakeClock()
        keeper = BudgetKeeper(database=database, run_days=lambda: 30.0, clock=clock)
        await keeper.round()
        assert len(await sums_of(database)) == 4
        await database.execute(
            "UPDATE budget_sums SET last_hold_at = last_hold_at - interval '31 days'"
        )
        await keeper.round()
        assert set(await sums_of(database)) == {(NODE, ""), ("bud_gone", "u"), ("run", "s")}
        assert await database.fetch_all("SELECT run_ceilings FROM accounts") == [(1,)]
        assert (await verify(database)).faults == []
        old = "- interval '401 days'"
        await database.execute(f"UPDATE budgets SET deleted_at = now() {old} WHERE id = 'bud_gone'")
        clock.advance(3600.0)
        await keeper.round()
        assert ("bud_gone", "u") in await sums_of(database)  # a call is open there
        await apply(database, PROCESS, Batch(settlements=[settle(2, 10)]))
        clock.advance(3600.0)
        await keeper.round()
        assert set(await sums_of(database)) == {(NODE, ""), ("run", "s")}
        assert (await verify(database)).faults == []


async def test_sums_keep_what_the_rows_of_a_dropped_month_have_booked(database_url: str) -> None:
    async with Database(database_url) as database:
        await open_account(database, 1_000_000)
        await make_node(database, 1000)
        month_ago = 1_790_000_000.0 - 40 * 86_400
        for number, cost in ((1, 70), (2, 130)):
            await apply(database, PROCESS, Batch(holds=[node_hold(number, 100)]))
            ended = settle(number, cost, created_at=month_ago)
            await apply(database, PROCESS, Batch(settlements=[ended]))
        await database.execute("SELECT call_logs_make_partitions('2026-08-01', 1)")
        before = await sums_of(database)
        rows = await database.fetch_all("SELECT * FROM call_logs_drop_month('2026-11-01')")
        assert [row[1] for row in rows] == [2]
        assert await sums_of(database) == before == {(NODE, ""): (200, 0, 0, 30)}
        faults = (await verify(database)).faults
        assert [one for one in faults if one["invariant"].startswith("budget")] == []
        await database.execute("UPDATE budget_sums SET spent_nano_usd = spent_nano_usd + 1")
        faults = (await verify(database)).faults
        assert [one["calls_spent_nano_usd"] for one in faults if "calls_spent_nano_usd" in one] == [
            200
        ]
