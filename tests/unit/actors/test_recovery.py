"""Processes that beat, fall silent, and are recovered from."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from actors.heartbeat import BREAK_SECONDS, Heartbeat
from actors.process import ProcessIdentity, is_process_alive
from actors.store.errors import DatabaseRefused, StatementRefused
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


# --- The sign of life, what it carries, and what a database that is away does to it ---


async def test_beat_says_who_lives_and_goes_on_every_second() -> None:
    store = make_store()
    async with process(store, pid=77) as p:
        beating = asyncio.ensure_future(p.heartbeat.run())
        for beats in range(3):
            await eventually(lambda: store.clock.sleepers > 0)
            assert store.processes["proc_judge"] == ("here", "boot", 77, 5, 1000.0 + beats)
            store.clock.advance(1.0)
        beating.cancel()
        await asyncio.wait([beating])


async def test_beat_reports_what_calls_have_delivered() -> None:
    store = make_store()
    async with process(store) as p:
        one, two = await p.hold(1), await p.hold(2)
        p.live.enter(one.call_id, lambda: Delivered(7, 3, 2, 1))
        p.live.enter(two.call_id, lambda: None)
        await p.heartbeat.beat()
        assert store.holds[one.call_id]["delivered"] == {
            "cost": 7,
            "input": 3,
            "output": 2,
            "cached": 1,
            "cache_write": 0,
            "basis": "stated",
        }
        assert "delivered" not in store.holds[two.call_id]


@logs("heartbeat_missed")
async def test_missed_beat_is_said_once_and_reports_are_made_again() -> None:
    store = make_store()
    async with process(store) as p:
        await p.heartbeat.beat()
        call = await p.hold(1)
        p.live.enter(call.call_id, lambda: Delivered(7, 3, 2))
        store.is_away = True
        await p.heartbeat.beat()
        await p.heartbeat.beat()
        assert p.heartbeat.connected_since is None
        assert p.heartbeat.steady_seconds == 0.0
        store.is_away, store.lost = False, "delivered"
        await p.heartbeat.beat()
        assert "delivered" not in store.holds[call.call_id]
        store.lost = None
        await p.heartbeat.beat()
        assert store.holds[call.call_id]["delivered"]["cost"] == 7


@logs("heartbeat_missed")
async def test_silent_database_is_told_of_while_a_beat_hangs_in_it() -> None:
    store = make_store()
    async with process(store) as p:
        await p.heartbeat.beat()
        store.frozen = asyncio.Event()
        beating = asyncio.ensure_future(p.heartbeat.beat())
        watching = asyncio.ensure_future(p.heartbeat.watch())
        for seconds in range(1, 8):
            await eventually(lambda: store.clock.sleepers > 0)
            store.clock.advance(1.0)
            await eventually(lambda: store.clock.sleepers > 0)
            assert is_reported_up(p) == (seconds <= BREAK_SECONDS)
        assert p.heartbeat.connected_since is None
        store.frozen.set()
        await beating
        assert is_reported_up(p)
        watching.cancel()
        await asyncio.wait([watching])


async def test_process_that_was_paused_says_nothing_of_the_database() -> None:
    store = make_store()
    async with process(store) as p:
        await p.heartbeat.beat()
        watching = asyncio.ensure_future(p.heartbeat.watch())
        await eventually(lambda: store.clock.sleepers > 0)
        store.clock.advance(30.0)
        await eventually(lambda: store.clock.sleepers > 0)
        assert is_reported_up(p)
        watching.cancel()
        await asyncio.wait([watching])


def is_reported_up(p: Any) -> bool:
    return b"gw_database_up 1.0" in p.heartbeat._metrics.render("")[0]


def with_chores(p: Any, *chores: Callable[[], Awaitable[None]]) -> Heartbeat:
    """A heartbeat of this process that does these chores."""
    return Heartbeat(
        identity=p.identity,
        database=p.heartbeat._database,
        live=p.live,
        clock=p.heartbeat._clock,
        metrics=p.heartbeat._metrics,
        chores=chores,
    )


@logs("heartbeat_missed")
async def test_chores_are_done_with_each_beat() -> None:
    done: list[int] = []

    async def chore() -> None:
        done.append(1)

    store = make_store()
    async with process(store) as p:
        heartbeat = with_chores(p, chore, chore)
        await heartbeat.beat()
        store.is_away = True
        await heartbeat.beat()
        assert len(done) == 2


@logs("chore_refused")
async def test_chore_that_is_refused_for_what_it_says_is_no_missed_beat() -> None:
    done: list[int] = []

    async def refused() -> None:
        raise StatementRefused("22003", "out of range")

    async def chore() -> None:
        done.append(1)

    store = make_store()
    async with process(store) as p:
        heartbeat = with_chores(p, refused, chore)
        await heartbeat.beat()
        assert done == [1]
        assert heartbeat.connected_since is not None


@logs("heartbeat_missed", "recovery_postponed")
async def test_heartbeat_and_sweeps_outlive_a_database_that_refuses() -> None:
    store = make_store()
    async with process(store) as p:
        error = DatabaseRefused("25006", "cannot execute UPDATE in a read-only transaction")
        store.refuses_with = error
        running = [asyncio.ensure_future(one.run()) for one in (p.heartbeat, p.recovery)]
        await eventually(lambda: store.clock.sleepers == 2)
        assert p.heartbeat.steady_seconds == 0.0  # `/readyz`
        store.refuses_with = None
        store.clock.advance(3.0)
        await eventually(lambda: p.heartbeat.connected_since is not None)
        for one in running:
            assert not one.done()
            one.cancel()
        await asyncio.wait(running)


@logs("taken_for_dead")
async def test_process_that_was_taken_for_dead_goes_on_under_another_id() -> None:
    store = make_store()
    async with process(store) as p:
        await p.heartbeat.beat()
        store.bury("proc_judge", None)
        await p.heartbeat.beat()
        await p.heartbeat.beat()
        assert p.identity.id == "proc_judge.2"
        assert store.processes.keys() == {"proc_judge", "proc_judge.2"}
        del store.processes["proc_judge.2"]  # not even a row is left
        await p.heartbeat.beat()
        assert p.identity.id == "proc_judge.3"
        metric = p.heartbeat._metrics.render("text/plain")[0].decode()
        assert "gw_taken_for_dead_total 2.0" in metric


def test_identity_tells_this_kernel_from_others() -> None:
    me, other = (ProcessIdentity.of_this_process(name) for name in ("a", "b"))
    assert me.pid == os.getpid()
    assert (me.host, me.boot_id) == (other.host, other.boot_id)
    assert "pid:" in me.boot_id


def test_pid_is_alive_only_with_the_start_of_its_process() -> None:
    me = ProcessIdentity.of_this_process("a")
    assert me.pid_started > 0
    assert is_process_alive(me.pid, me.pid_started)
    assert not is_process_alive(me.pid, me.pid_started - 1)  # the number was given out again
    assert is_process_alive(me.pid, 0)  # a start that nobody knows


def test_process_that_stands_still_is_alive_and_one_that_was_killed_is_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert is_process_alive(child.pid, 0)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        assert is_process_alive(child.pid, 0)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_process_alive(child.pid, 0)  # nobody has asked after it, and it is no more
    finally:
        child.kill()
        child.communicate()
    assert not is_process_alive(child.pid, 0)
