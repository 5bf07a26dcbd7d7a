"""Processes that beat, fall silent, and are recovered from."""

import asyncio
from typing import Any
from uuid import UUID

from actors.store.errors import StatementRefused
from actors.wallet.live_calls import Delivered
from actors.wallet.rows import encode_void
from tests.support.aio import eventually
from tests.support.logs import logs
from tests.unit.actors.fake_store import ACCOUNT, FakeStore, make_store, process


async def die_with_a_call(store: FakeStore, number: int = 1, **who: Any) -> None:
    """A process holds a call, reports once what it has delivered, and is no more."""
    async with process(store, "proc_dead", **who) as dead:
        await dead.heartbeat.beat()
        call = await dead.hold(number, made_id=f"voc_{number}")
        dead.live.enter(call.call_id, lambda: Delivered(30, 20, 10, 5))
        await dead.heartbeat.beat()


@logs("calls_recovered")
async def test_neighbour_whose_pid_is_gone_is_dead_at_once() -> None:
    store = make_store()
    await die_with_a_call(store, pid=4711)
    async with process(store, gone_pids=frozenset({4711})) as judge:
        await judge.heartbeat.beat()
        store.clock.advance(2.5)
        assert await judge.recovery.sweep() == 1
        row = store.rows[UUID(int=1)]
        assert (row["status"], row["error_code"]) == ("interrupted", "gateway_restarted")
        assert (row["cost"], row["latency_ms"], row["task_id"]) == (30, 2500, "voc_1")
        assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (20, 10, 5)
        assert store.balances[ACCOUNT] == 10_000 - 30
        assert "proc_dead" not in store.processes
        assert await judge.recovery.sweep() == 0
    assert store.faults() == []


@logs("calls_recovered")
async def test_pid_that_was_given_to_another_process_is_no_sign_of_life() -> None:
    store = make_store()
    await die_with_a_call(store, pid=2, pid_started=4)
    async with process(store) as judge:
        assert await judge.recovery.sweep() == 1
    assert store.faults() == []


@logs("calls_recovered")
async def test_no_clock_of_the_database_makes_anybody_dead_or_alive() -> None:
    """It jumps by an hour, on and back: what counts is whether another heartbeat was seen."""
    store = make_store()
    async with process(store) as judge, process(store, "proc_far", host="elsewhere") as far:
        await far.hold(1)
        who = store.processes["proc_far"][:4]
        for beat in range(20):
            store.processes["proc_far"] = (*who, (-1) ** beat * 3600.0 + beat)
            await judge.beat_for(1)
            assert await judge.recovery.sweep() == 0
        store.processes["proc_far"] = (*who, 1e9)  # it will be young for long
        assert await judge.recovery.sweep() == 0
        await judge.beat_for(11)
        assert await judge.recovery.sweep() == 1


async def test_heartbeat_that_comes_before_the_burial_counts() -> None:
    store = make_store()
    async with process(store) as judge, process(store, "proc_far", host="elsewhere") as far:
        await far.hold(1)
        await judge.recovery.sweep()
        await judge.beat_for(11)
        bury = store.bury
        beats: list[str] = []

        def beat_first(process_id: str, beat_at: float | None) -> bool:
            store.beat(process_id)
            beats.append(process_id)
            return bury(process_id, beat_at)

        store.bury = beat_first  # type: ignore[method-assign]
        assert await judge.recovery.sweep() == 0
        assert beats == ["proc_far"]
        assert len(store.holds) == 1


@logs("taken_for_dead", "calls_recovered")
async def test_calls_that_live_here_are_not_recovered_here() -> None:
    """Whoever declared us dead may have died over it: its work is left to us."""
    store = make_store()
    async with process(store) as p:
        living, leaked = await p.hold(1), await p.hold(2)
        p.live.enter(living.call_id, lambda: None)
        store.bury("proc_judge", None)
        await p.heartbeat.beat()
        assert await p.recovery.sweep() == 1
        assert store.rows.keys() == {leaked.call_id}
        p.settle(living, 7)
        await p.wallets.settled(ACCOUNT)
        assert await p.recovery.sweep() == 0
        assert store.processes.keys() == {"proc_judge.2"}
        assert store.rows[living.call_id]["cost"] == 7
    assert store.faults() == []


async def test_nobody_is_buried_when_the_database_was_only_frozen() -> None:
    """Every statement succeeds in the end, so nobody has missed a beat by its own account."""

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


@logs("ledger_batch_failed", "ledger_message_refused", "settlement_quarantined", "calls_recovered")
async def test_call_that_cannot_be_settled_does_not_hold_up_the_sweep() -> None:
    store = make_store()
    await die_with_a_call(store, pid=4711)
    healthy = store.apply

    def refuse_settlements(*lists: Any, **more: Any) -> Any:
        if lists[0]:
            raise StatementRefused("22003", "out of range")
        return healthy(*lists, **more)

    store.apply = refuse_settlements  # type: ignore[method-assign]
    async with process(store, gone_pids=frozenset({4711})) as judge:
        await judge.heartbeat.beat()
        await judge.recovery.sweep()  # comes to an end
        assert "proc_dead" in store.processes  # and is tried again by the next one
        store.apply = healthy  # type: ignore[method-assign]
        assert await judge.recovery.sweep() == 1
    assert store.faults() == []


@logs("ledger_unreachable", required=False)
async def test_hold_whose_settlement_waits_is_no_leak() -> None:
    store = make_store()
    async with process(store) as p:
        await p.heartbeat.beat()
        call = await p.hold(1)
        await p.beat_for(100)
        store.gate = asyncio.Event()
        p.writer.tell(encode_void(call))
        assert await p.recovery.sweep() == 0
        store.gate.set()
        await p.wallets.settled(ACCOUNT)
        assert store.rows == {}


@logs("recovery_postponed")
async def test_sweeps_go_on_when_the_database_is_away() -> None:
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
