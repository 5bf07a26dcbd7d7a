"""The heartbeat beside the ledger on a real database: it never waits for it, and costs little."""

from __future__ import annotations

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Hold
from actors.wallet.verify import verify
from tests.integration.actors.process import process
from tests.integration.money import ACCOUNT, open_account
from tests.support.ledger_values import facts

STREAMS, BEATS = 500, 4


async def test_hold_that_is_being_settled_is_left_alone_and_the_others_are_reported(
    database_url: str,
) -> None:
    async with Database(database_url) as database, process(database_url) as mine:
        await open_account(database, 1000)
        calls = [await mine.hold(100) for _ in range(3)]
        for facts in calls:
            mine.lives(facts, 7)
        ending = str(calls[1].call_id)
        async with database.transaction() as settlement:
            await settlement.execute("DELETE FROM holds WHERE call_id = %s", (ending,))
            await mine.heartbeat.beat()  # would wait for the row above, and that one for ours
            said = await mine.database.fetch_all(
                "SELECT delivered::json ->> 'cost' FROM holds ORDER BY created_at"
            )
            assert [cost for (cost,) in said] == ["7", None, "7"]
            await settlement.execute("ROLLBACK")
            await settlement.execute("BEGIN")
        for facts in calls:
            mine.settle(facts, 7)
        await mine.wallets.settled(ACCOUNT)
        assert (await verify(database)).faults == []


async def test_process_is_signed_on_with_its_age_by_the_clock_of_the_database(
    database_url: str,
) -> None:
    async with Database(database_url) as database, process(database_url, pid=77) as mine:
        await mine.heartbeat.beat()
        row = await database.fetch_one(
            "SELECT host, boot_id, pid, now() - heartbeat_at < interval '5 minutes'"
            " FROM processes WHERE id = %s",
            (mine.identity.id,),
        )
        assert row == ("here", "boot", 77, True)


async def test_what_is_delivered_finds_place_on_the_page_of_its_hold(database_url: str) -> None:
    terms = {"price": {"input": "1", "output": "10"}, "estimate": [42, 256], "hold": 2_602_000}
    calls = [facts(number) for number in range(1, STREAMS + 1)]
    async with process(database_url) as mine:
        await open_account(mine.database, 10**9)
        await mine.heartbeat.beat()
        holds = [Hold(facts=one, amount_nano_usd=100, detail=terms) for one in calls]
        await apply(mine.database, mine.identity.id, Batch(holds=holds))
        for one in calls:
            mine.lives(one, *range(1, BEATS + 1))
        for _ in range(BEATS):
            await mine.heartbeat.beat()

        # One after another, so all of it was said on the one connection that is told to count now.
        await mine.database.fetch_all("SELECT pg_stat_force_next_flush()")
        await mine.database.execute("SELECT 1")
        ((changed, in_place),) = await mine.database.fetch_all(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'holds'"
        )
    assert changed == STREAMS * BEATS
    assert in_place > 0.9 * changed
