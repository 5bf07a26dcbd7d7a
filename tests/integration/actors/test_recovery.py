"""Processes on a real PostgreSQL: beats, and recovery."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.flight_recorder.file_format import (
    DAMAGED,
    FOLDER,
    PAGE_BYTES,
    SLOT_BYTES,
    SUFFIX,
)
from actors.wallet.flight_recorder.wreck import left_behind
from actors.wallet.ledger import read_balance
from actors.wallet.live_calls import Delivered
from actors.wallet.messages import CallFacts, Hold
from actors.wallet.rows import encode_void
from actors.wallet.verify import verify
from tests.integration.actors.process import (
    GONE,
    Process,
    age_holds,
    lease,
    leased_by,
    ledger_of,
    open_holds,
    process,
    process_ids,
    rows_of,
    silence,
)
from tests.integration.money import ACCOUNT, KEY, open_account
from tests.support.aio import eventually
from tests.support.ledger_values import facts
from tests.support.logs import logs

PLACE = "SELECT id, created_at FROM call_logs WHERE request_id = %s"  # of a row in the log


async def die_with_a_call(
    url: str, *costs: int, name: str = "proc_dead", has_lease: bool = False, **who: Any
) -> CallFacts:
    """A process begins a call, reports with each beat what it has delivered, and is no more."""
    async with process(url, name, pid=GONE, **who) as dead:
        facts = await dead.hold(100)
        if has_lease:
            await lease(dead)
        dead.lives(facts, *costs)
        for _ in costs:
            await dead.heartbeat.beat()
    return facts


@logs("calls_recovered")
async def test_what_was_last_reported_is_what_is_charged(database_url: str) -> None:
    async with ledger_of(database_url) as database:
        facts = await die_with_a_call(database_url, 30, 70, 250)
        async with process(database_url, gone_pids=frozenset({GONE})) as judge:
            assert await judge.recovery.sweep() == 1
        assert await read_balance(database, ACCOUNT) == (10_000 - 250, 0)
        row = await database.fetch_one(
            "SELECT cost_nano_usd, input_tokens, output_tokens, cached_tokens, protocol, model"
            " FROM call_logs WHERE request_id = %s",
            (str(facts.call_id),),
        )
        assert row == (250, 250, 250, 1, "chat", "m")


@logs("calls_recovered")
@pytest.mark.parametrize(
    "who", [{"host": "elsewhere"}, {"boot_id": "another"}, {"boot_id": ""}], ids=str
)
async def test_stranger_is_recovered_after_ten_seconds_of_silence(
    who: dict[str, str], database_url: str
) -> None:
    """Its lease ends with it: within 30 s of the clock of who sees it."""
    async with ledger_of(database_url) as database:
        await die_with_a_call(database_url, has_lease=True, **who)
        async with process(database_url, gone_pids=frozenset({GONE})) as judge:
            await silence(database, "proc_dead", 3600.0)  # by a clock that we do not ask
            await judge.beat_for(30)
            seen = judge.clock.monotonic()
            assert await judge.recovery.sweep() == 0  # seen for the first time
            await judge.beat_for(10)
            assert await judge.recovery.sweep() == 0
            assert (await leased_by(database)).keys() == {"proc_dead"}
            await judge.beat_for(1)
            assert await judge.recovery.sweep() == 1
            assert judge.clock.monotonic() - seen < 30
        assert (await open_holds(database), await leased_by(database)) == (0, {})


@logs("calls_recovered")
async def test_judge_whose_heart_has_not_beaten_for_ten_seconds_waits(database_url: str) -> None:
    async with ledger_of(database_url) as database:
        await die_with_a_call(database_url, host="elsewhere")
        await silence(database, "proc_dead", 3600.0)
        async with process(database_url) as judge:
            assert await judge.recovery.sweep() == 0
            judge.clock.advance(30.0)  # of which it knows nothing: it has not beaten
            await judge.beat_for(9)
            assert await judge.recovery.sweep() == 0
            await judge.beat_for(2)
            assert await judge.recovery.sweep() == 1


@logs("heartbeat_missed")
@logs("database_lost", required=False)
async def test_nobody_is_buried_after_an_outage(database_url: str) -> None:
    async with (
        ledger_of(database_url) as database,
        process(database_url) as judge,
        process(database_url, "proc_other", host="elsewhere") as other,
    ):
        await judge.beat_for(60)
        facts = await other.hold(100)
        judge.heartbeat._database = Database("host=127.0.0.1 port=1")  # nobody listens there
        await judge.beat_for(3)
        judge.heartbeat._database = judge.database
        await silence(database, "proc_other", 60.0)
        await silence(database, "proc_judge", 60.0)
        await judge.heartbeat.beat()  # the database is back, and we were quicker
        for _ in range(9):
            assert await judge.recovery.sweep() == 0
            await judge.beat_for(1)
        await other.heartbeat.beat()
        await judge.beat_for(60)
        assert await judge.recovery.sweep() == 0
        other.settle(facts, 5)
        await other.wallets.settled(ACCOUNT)
        assert await rows_of(database, facts.call_id) == [("success", None, 5)]


@logs("calls_recovered")
@logs("settled_already", required=False)
async def test_two_judges_at_once_settle_every_call_once(database_url: str) -> None:
    gone = frozenset({GONE})
    async with ledger_of(database_url) as database:
        for number in range(10):
            await die_with_a_call(database_url, 7, name=f"proc_dead_{number}")
        async with (
            process(database_url, "proc_b", gone_pids=gone) as b,
            process(database_url, "proc_c", gone_pids=gone) as c,
        ):
            await asyncio.gather(b.recovery.sweep(), c.recovery.sweep())
        assert await read_balance(database, ACCOUNT) == (10_000 - 70, 0)
        assert await process_ids(database) == {"proc_test", "proc_b", "proc_c"}
        (counted,) = await database.fetch_all("SELECT count(*) FROM call_logs")
        assert counted == (10,)


async def take_for_dead(judge: Process) -> None:
    """The judge sees no heartbeat of a stranger for long enough."""
    assert await judge.recovery.sweep() == 0
    await judge.beat_for(11)
    assert await judge.recovery.sweep() > 0


@logs("calls_recovered", "taken_for_dead", "recovery_corrected", "settled_already")
async def test_answered_call_costs_what_it_costs_though_others_had_settled_it(
    database_url: str,
) -> None:
    async with (
        ledger_of(database_url) as database,
        process(database_url) as judge,
        process(database_url, "proc_stalled", host="elsewhere") as stalled,
    ):
        more, less, cut = [await stalled.hold(100) for _ in range(3)]
        for facts in (more, less, cut):
            stalled.lives(facts, 20)
        await stalled.wallets.settled(ACCOUNT)  # no hold is in memory alone
        await stalled.heartbeat.beat()
        await take_for_dead(judge)
        assert await read_balance(database, ACCOUNT) == (10_000 - 60, 0)
        (before,) = await database.fetch_all(PLACE, (str(more.call_id),))

        stalled.identity.confirmed_at = float("-inf")  # so it admits nothing in memory
        again = await stalled.hold(100)  # under another id, which it learns of by this
        assert stalled.identity.id == "proc_stalled.2"
        stalled.settle(more, 500)
        stalled.settle(less, 5)
        await stalled.wallets.settled(ACCOUNT)
        stalled.settle(more, 700)  # a third settlement: nothing
        await stalled.wallets.settled(ACCOUNT)
        assert await rows_of(database, more.call_id) == [("success", None, 500)]
        assert await rows_of(database, less.call_id) == [("success", None, 5)]
        assert await rows_of(database, cut.call_id) == [("interrupted", "gateway_restarted", 20)]
        assert await database.fetch_all(PLACE, (str(more.call_id),)) == [before]
        assert await database.fetch_all(
            "SELECT cause, corrected_by, row_before ->> 'status', cost_before_nano_usd,"
            " cost_after_nano_usd, booked_nano_usd FROM call_log_corrections ORDER BY id"
        ) == [
            ("settled_after_recovery", "proc_stalled.2", "interrupted", 20, 500, -480),
            ("settled_after_recovery", "proc_stalled.2", "interrupted", 20, 5, 15),
        ]
        await stalled.heartbeat.beat()
        assert await judge.recovery.sweep() == 0
        stalled.settle(again, 5)
        await stalled.wallets.settled(ACCOUNT)
        assert await read_balance(database, ACCOUNT) == (10_000 - 530, 0)


@logs("calls_recovered")
async def test_batch_under_way_ends_before_its_process_is_buried(database_url: str) -> None:
    """Its holds are seen and settled: none is left behind by a burial that was quicker."""
    async with (
        ledger_of(database_url) as database,
        process(database_url) as judge,
        process(database_url, "proc_far", host="elsewhere") as far,
    ):
        assert await judge.recovery.sweep() == 0
        await judge.beat_for(11)
        async with database.transaction() as other:
            await other.execute("SELECT FROM accounts FOR UPDATE")
            holding = asyncio.ensure_future(far.hold(100))
            await waits_for_lock(database, "ledger_batch")
            sweeping = asyncio.ensure_future(judge.recovery.sweep())
            await waits_for_lock(database, "process_bury")
        await holding
        assert await sweeping == 1
        assert await open_holds(database) == 0


async def waits_for_lock(database: Database, what: str) -> None:
    """Until a statement that calls `what` waits for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND query LIKE %s AND pid <> pg_backend_pid()"
    )
    while await database.fetch_one(waiting, (f"%{what}(%",)) == (0,):
        await asyncio.sleep(0.01)


@logs("calls_recovered")
async def test_call_refused_while_its_hold_was_granted_has_one_row(database_url: str) -> None:
    """Its asker was told that there is no hold; the one there is was settled by others."""
    async with (
        ledger_of(database_url) as database,
        process(database_url) as judge,
        process(database_url, "proc_far", host="elsewhere") as far,
    ):
        quicker, slower = await far.hold(100), await far.hold(100)
        far.refuse(ACCOUNT, KEY, facts=slower)
        await far.wallets.settled(ACCOUNT)
        await take_for_dead(judge)
        assert await rows_of(database, quicker.call_id) == [("interrupted", "gateway_restarted", 0)]
        far.refuse(ACCOUNT, KEY, facts=quicker)
        for facts in (quicker, slower):
            far.writer.tell(encode_void(facts))
        await far.wallets.settled(ACCOUNT)
        for facts in (quicker, slower):
            assert await rows_of(database, facts.call_id) == [("rejected", None, 0)]
        assert await read_balance(database, ACCOUNT) == (10_000, 0)
        assert await database.fetch_all("SELECT call_id, cause FROM call_log_corrections") == [
            (str(quicker.call_id), "refused_after_recovery")
        ]


@logs("calls_recovered")
async def test_hold_of_a_process_without_a_row_is_settled_once_it_is_old(database_url: str) -> None:
    async with ledger_of(database_url) as database, process(database_url) as judge:
        await die_with_a_call(database_url)
        await database.execute("DELETE FROM processes WHERE id = 'proc_dead'")
        await judge.beat_for(11)
        assert await judge.recovery.sweep() == 0
        await age_holds(database, 11.0)
        assert await judge.recovery.sweep() == 1


@logs("hold_leaked")
async def test_leaked_hold_of_our_own_is_settled_and_logged(database_url: str) -> None:
    async with ledger_of(database_url) as database, process(database_url) as mine:
        leaked, living = await mine.hold(100), await mine.hold(100)
        mine.lives(living, 5)
        await age_holds(database, 59.0)
        await mine.recovery.sweep()
        await mine.wallets.settled(ACCOUNT)
        assert await open_holds(database) == 2
        await age_holds(database, 61.0)
        await mine.recovery.sweep()
        await mine.wallets.settled(ACCOUNT)
        assert await rows_of(database, leaked.call_id) == [("interrupted", "gateway_restarted", 0)]
        assert await open_holds(database) == 1
        mine.settle(living, 5)
        await mine.wallets.settled(ACCOUNT)


async def test_process_that_stops_in_good_order_is_forgotten(database_url: str) -> None:
    async with ledger_of(database_url) as database, process(database_url) as mine:
        facts = await mine.hold(100)
        await mine.heartbeat.leave()
        assert "proc_judge" in await process_ids(database)  # it still holds money
        mine.settle(facts, 1)
        await eventually(lambda: mine.writer.is_idle)
        await mine.heartbeat.leave()
        assert "proc_judge" not in await process_ids(database)


@logs("calls_recovered")
async def test_more_calls_than_one_read_takes_are_all_recovered(database_url: str) -> None:
    async with ledger_of(database_url) as database:
        async with process(database_url, "proc_dead", pid=GONE) as dead:
            await asyncio.gather(*(dead.hold(1) for _ in range(1200)))
        async with process(database_url, gone_pids=frozenset({GONE})) as judge:
            assert await judge.recovery.sweep() == 1200
        assert await open_holds(database) == 0


# What a process of this host leaves in its flight recorder.


async def die_with_an_response(url: str, folder: Path, cost: int, **more: Any) -> CallFacts:
    """A call has ended, its settlement is on its way, and its process is no more."""
    async with process(url, "proc_dead", pid=GONE, data_dir=folder) as dead:
        facts = await dead.hold(100)
        dead.settle(facts, cost, **more)
    return facts


@logs("calls_recovered")
async def test_answer_costs_what_it_costs(database_url: str, tmp_path: Path) -> None:
    async with ledger_of(database_url) as database:
        facts = await die_with_an_response(database_url, tmp_path, 33)
        assert await open_holds(database) == 1
        async with (
            process(
                database_url, "proc_a", gone_pids=frozenset({GONE}), data_dir=tmp_path
            ) as judge,
            process(
                database_url, "proc_b", gone_pids=frozenset({GONE}), data_dir=tmp_path
            ) as other,
        ):
            found = await asyncio.gather(judge.recovery.sweep(), other.recovery.sweep())
            assert sorted(found) == [0, 1]
            assert await rows_of(database, facts.call_id) == [("success", None, 33)]
            assert await read_balance(database, ACCOUNT) == (10_000 - 33, 0)
            assert left_behind(tmp_path) == ["proc_a", "proc_b"]


@logs("calls_recovered")
async def test_call_that_the_ledger_never_heard_of_is_recovered_and_told(
    database_url: str, tmp_path: Path
) -> None:
    async with ledger_of(database_url) as database:
        async with process(database_url, "proc_dead", pid=GONE, data_dir=tmp_path) as dead:
            await lease(dead)
            facts = await dead.hold(100)
        assert await open_holds(database) == 0
        async with process(database_url, gone_pids=frozenset({GONE}), data_dir=tmp_path) as judge:
            assert await judge.recovery.sweep() == 1
        assert await rows_of(database, facts.call_id) == [("interrupted", "gateway_restarted", 0)]


LINKS = tuple(f"https://cdn.example/{number}/" + "p" * 900 for number in range(4))


@logs("calls_recovered")
async def test_images_with_long_links_cost_what_they_cost(
    database_url: str, tmp_path: Path
) -> None:
    async with ledger_of(database_url) as database:
        facts = await die_with_an_response(database_url, tmp_path, 33, result_urls=LINKS)
        async with process(database_url, gone_pids=frozenset({GONE}), data_dir=tmp_path) as judge:
            assert await judge.recovery.sweep() == 1
        assert await rows_of(database, facts.call_id) == [("success", None, 33)]


@logs("calls_recovered", "recorder_damaged")
async def test_damaged_recorder_gives_what_is_intact_and_alarms_once(
    database_url: str, tmp_path: Path
) -> None:
    async with ledger_of(database_url) as database:
        facts = await die_with_an_response(database_url, tmp_path, 33)
        path = tmp_path / FOLDER / ("proc_dead" + SUFFIX)
        content = path.read_bytes()
        path.write_bytes(b"x" + content[1 : PAGE_BYTES + 6 * SLOT_BYTES + 100])
        async with process(database_url, gone_pids=frozenset({GONE}), data_dir=tmp_path) as judge:
            assert [await judge.recovery.sweep() for _ in range(3)] == [1, 0, 0]
            assert b"gw_recorder_damage_total 1" in judge.metrics.render("")[0]
            assert left_behind(tmp_path) == ["proc_judge"]
        assert await rows_of(database, facts.call_id) == [("success", None, 33)]
        assert path.with_suffix(DAMAGED).exists()


@logs("calls_recovered")
async def test_stream_costs_what_its_last_read_sent(database_url: str, tmp_path: Path) -> None:
    """The heartbeat had last reported 3 tokens; 8 tokens of input and 50 of output went out."""
    price = {"input": "1", "output": "2"}
    async with ledger_of(database_url, 10_000_000) as database:
        async with process(database_url, "proc_dead", pid=GONE, data_dir=tmp_path) as dead:
            facts = await dead.hold(1_000_000, detail={"price": price})
            so_far = Delivered(8000 + 6000, input_tokens=8, output_tokens=3, basis="estimated")
            slot = dead.wallets.recorder.delivers(facts.call_id, so_far.to_json())
            assert slot is not None
            dead.live.enter(facts.call_id, lambda: so_far)
            await dead.heartbeat.beat()
            dead.wallets.recorder.counts(slot, 50)
        async with process(database_url, gone_pids=frozenset({GONE}), data_dir=tmp_path) as judge:
            assert await judge.recovery.sweep() == 1
            assert await rows_of(database, facts.call_id) == [
                ("interrupted", "gateway_restarted", 8 * 1000 + 50 * 2000)
            ]


@logs("calls_recovered", "recovery_corrected")
async def test_answer_taken_for_interrupted_is_corrected(database_url: str, tmp_path: Path) -> None:
    """The truth comes when the host with the recorder is back: the process is long forgotten."""
    async with ledger_of(database_url) as database:
        facts = await die_with_an_response(database_url, tmp_path, 33)
        async with process(database_url, gone_pids=frozenset({GONE})) as elsewhere:
            assert await elsewhere.recovery.sweep() == 1
            assert (await rows_of(database, facts.call_id))[0][0] == "interrupted"
            assert "proc_dead" not in await process_ids(database)
        async with process(database_url, "proc_back", data_dir=tmp_path) as back:
            for _ in range(2):
                assert await back.recovery.sweep() == 0
            assert await rows_of(database, facts.call_id) == [("success", None, 33)]
            assert await read_balance(database, ACCOUNT) == (10_000 - 33, 0)
            assert left_behind(tmp_path) == ["proc_back"]


STREAMS, BEATS = 500, 4


async def test_hold_being_settled_is_left_alone_and_others_are_reported(database_url: str) -> None:
    async with Database(database_url) as database, process(database_url) as mine:
        await open_account(database, 1000)
        calls = [await mine.hold(100) for _ in range(3)]
        for facts in calls:
            mine.lives(facts, 7)
        ending = str(calls[1].call_id)
        async with database.transaction() as settlement:
            await settlement.execute("DELETE FROM holds WHERE call_id = %s", (ending,))
            await mine.heartbeat.beat()  # would wait for the row above, and that one for ours
            message = await mine.database.fetch_all(
                "SELECT delivered::json ->> 'cost' FROM holds ORDER BY created_at"
            )
            assert [cost for (cost,) in message] == ["7", None, "7"]
            await settlement.execute("ROLLBACK")
            await settlement.execute("BEGIN")
        for facts in calls:
            mine.settle(facts, 7)
        await mine.wallets.settled(ACCOUNT)
        assert (await verify(database)).faults == []


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
