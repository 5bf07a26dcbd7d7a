"""Who is taken for dead, what becomes of its calls, and who is left in peace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

from actors.live import Delivered
from actors.store.database import StatementRefused
from tests.support.aio import eventually, run
from tests.unit.actors.fake_store import ACCOUNT, FakeStore, make_store, process

ExpectLog = Callable[..., None]


async def die_with_a_call(store: FakeStore, number: int = 1, **who: Any) -> None:
    """A process holds a call, reports once what it has delivered, and is no more."""
    async with process(store, "proc_dead", **who) as dead:
        await dead.heartbeat.beat()
        call = await dead.hold(number)
        dead.live.enter(call.call_id, lambda: Delivered(30, 20, 10, 5))
        await dead.heartbeat.beat()


def test_neighbour_whose_pid_is_gone_is_dead_at_once(expect_log: ExpectLog) -> None:
    expect_log("calls_recovered")

    async def main() -> None:
        store = make_store()
        await die_with_a_call(store, pid=4711)
        async with process(store, gone_pids=frozenset({4711})) as judge:
            await judge.heartbeat.beat()
            store.clock.advance(2.5)
            assert await judge.recovery.sweep() == 1
            row = store.rows[UUID(int=1)]
            assert (row["status"], row["error_code"]) == ("interrupted", "gateway_restarted")
            assert (row["cost"], row["latency_ms"]) == (30, 2500)
            assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (20, 10, 5)
            assert store.balances[ACCOUNT] == 10_000 - 30
            assert "proc_dead" not in store.processes
            assert await judge.recovery.sweep() == 0
        assert store.faults() == []

    run(main())


def test_pid_means_nothing_on_another_boot_or_another_host() -> None:
    async def main() -> None:
        store = make_store()
        await die_with_a_call(store, 1, pid=4711, boot_id="another")
        async with process(store, gone_pids=frozenset({4711})) as judge:
            await judge.heartbeat.beat()
            assert await judge.recovery.sweep() == 0
            store.processes["proc_dead"] = ("elsewhere", "boot", 4711, store.clock.monotonic())
            assert await judge.recovery.sweep() == 0
            assert len(store.holds) == 1

    run(main())


def test_stranger_is_dead_after_ten_seconds_of_silence_that_were_not_ours(
    expect_log: ExpectLog,
) -> None:
    expect_log("calls_recovered")

    async def main() -> None:
        store = make_store()
        await die_with_a_call(store, host="elsewhere")
        async with process(store) as judge:
            await judge.heartbeat.beat()
            await judge.beat_for(9)
            assert await judge.recovery.sweep() == 0
            await judge.beat_for(2)
            assert await judge.recovery.sweep() == 1
        assert store.faults() == []

    run(main())


def test_judge_that_has_just_come_buries_nobody() -> None:
    async def main() -> None:
        store = make_store()
        await die_with_a_call(store, host="elsewhere")
        store.clock.advance(3600.0)
        async with process(store) as judge:
            await judge.heartbeat.beat()
            assert await judge.recovery.sweep() == 0
            await judge.beat_for(9)
            assert await judge.recovery.sweep() == 0

    run(main())


def test_nobody_is_buried_after_an_outage(expect_log: ExpectLog) -> None:
    expect_log("heartbeat_missed")

    async def main() -> None:
        store = make_store()
        async with process(store) as judge, process(store, "proc_other", host="h") as other:
            for p in (judge, other):
                await p.heartbeat.beat()
            for _ in range(20):
                store.clock.advance(1.0)
                await judge.heartbeat.beat()
                await other.heartbeat.beat()
            await other.hold(1)
            store.is_away = True
            await judge.beat_for(60)
            await other.heartbeat.beat()
            store.is_away = False
            await judge.heartbeat.beat()  # ours comes back first
            assert await judge.recovery.sweep() == 0
            await other.heartbeat.beat()
            for _ in range(20):
                store.clock.advance(1.0)
                await judge.heartbeat.beat()
                await other.heartbeat.beat()
                assert await judge.recovery.sweep() == 0
            assert len(store.holds) == 1

    run(main())


def test_nobody_is_buried_when_the_database_was_only_frozen() -> None:
    """Every statement succeeds in the end, so nobody has missed a beat by its own account."""

    async def main() -> None:
        store = make_store()
        async with process(store) as judge, process(store, "proc_other", host="h") as other:
            for p in (judge, other):
                await p.heartbeat.beat()
            for _ in range(20):
                store.clock.advance(1.0)
                await judge.heartbeat.beat()
                await other.heartbeat.beat()
            await other.hold(1)
            store.frozen = asyncio.Event()
            sweeping = asyncio.ensure_future(judge.recovery.sweep())
            await asyncio.sleep(0)
            store.clock.advance(30.0)
            store.frozen.set()
            assert await sweeping == 0
            await judge.heartbeat.beat()
            assert await judge.recovery.sweep() == 0
            assert len(store.holds) == 1

    run(main())


def test_hold_whose_process_left_no_row_is_settled_when_it_is_old(expect_log: ExpectLog) -> None:
    expect_log("calls_recovered")

    async def main() -> None:
        store = make_store()
        async with process(store) as judge, process(store, "proc_unknown") as unknown:
            await judge.heartbeat.beat()
            await judge.beat_for(20)
            await unknown.hold(1)
            assert await judge.recovery.sweep() == 0  # it may be about to say that it lives
            await judge.beat_for(11)
            assert await judge.recovery.sweep() == 1
        assert store.rows[UUID(int=1)]["cost"] == 0
        assert store.faults() == []

    run(main())


def test_two_judges_settle_a_call_once(expect_log: ExpectLog) -> None:
    expect_log("calls_recovered")
    expect_log("settled_already", required=False)

    async def main() -> None:
        store = make_store()
        gone = frozenset({4711})
        await die_with_a_call(store, pid=4711)
        async with (
            process(store, "proc_b", gone_pids=gone) as b,
            process(store, "proc_c", gone_pids=gone) as c,
        ):
            for p in (b, c):
                await p.heartbeat.beat()
            await asyncio.gather(b.recovery.sweep(), c.recovery.sweep())
        assert store.balances[ACCOUNT] == 10_000 - 30
        assert store.faults() == []

    run(main())


def test_call_that_cannot_be_settled_does_not_hold_up_the_sweep(expect_log: ExpectLog) -> None:
    expect_log("ledger_batch_failed", "ledger_message_refused", "calls_recovered")

    async def main() -> None:
        store = make_store()
        await die_with_a_call(store, pid=4711)
        healthy = store.apply

        def refuse_settlements(*lists: Any) -> Any:
            if lists[0]:
                raise StatementRefused("22003", "out of range")
            return healthy(*lists)

        store.apply = refuse_settlements  # type: ignore[assignment, method-assign]
        async with process(store, gone_pids=frozenset({4711})) as judge:
            await judge.heartbeat.beat()
            await judge.recovery.sweep()  # comes to an end
            assert "proc_dead" in store.processes  # and is tried again by the next one
            store.apply = healthy  # type: ignore[method-assign]
            assert await judge.recovery.sweep() == 1
        assert store.faults() == []

    run(main())


def test_leaked_hold_of_our_own_is_settled_loudly(expect_log: ExpectLog) -> None:
    expect_log("hold_leaked")

    async def main() -> None:
        store = make_store()
        async with process(store) as p:
            await p.heartbeat.beat()
            leaked, living = await p.hold(1), await p.hold(2)
            p.live.enter(living.call_id, lambda: None)
            await p.beat_for(60)
            await p.recovery.sweep()
            assert len(store.holds) == 2  # not yet
            await p.beat_for(1)
            await p.recovery.sweep()
            await p.wallets.settled(ACCOUNT)
            assert set(store.holds) == {living.call_id}
            assert store.rows[leaked.call_id]["status"] == "interrupted"
        assert store.faults() == []

    run(main())


def test_hold_whose_settlement_waits_is_no_leak(expect_log: ExpectLog) -> None:
    expect_log("ledger_unreachable", required=False)

    async def main() -> None:
        store = make_store()
        async with process(store) as p:
            await p.heartbeat.beat()
            call = await p.hold(1)
            await p.beat_for(100)
            store.gate = asyncio.Event()
            p.wallets.void(call)
            assert await p.recovery.sweep() == 0
            store.gate.set()
            await p.wallets.settled(ACCOUNT)
            assert store.rows == {}

    run(main())


def test_sweeps_go_on_when_the_database_is_away(expect_log: ExpectLog) -> None:
    expect_log("recovery_postponed")

    async def main() -> None:
        store = make_store()
        async with process(store) as p:
            store.is_away = True
            sweeping = asyncio.ensure_future(p.recovery.run())
            await eventually(lambda: store.clock.sleepers > 0)
            store.is_away = False
            store.clock.advance(3.0)
            await eventually(lambda: store.clock.sleepers > 0)
            sweeping.cancel()
            await asyncio.wait([sweeping])

    run(main())
