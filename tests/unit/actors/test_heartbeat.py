"""The sign of life, what it carries, and what a database that is away does to it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from actors.heartbeat import BREAK_SECONDS, Heartbeat
from actors.process import ProcessIdentity, is_process_alive
from actors.store.errors import DatabaseRefused, StatementRefused
from actors.wallet.live_calls import Delivered
from tests.support.aio import eventually
from tests.support.logs import logs
from tests.unit.actors.fake_store import make_store, process


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
async def test_missed_beat_is_logged_once_and_reports_are_made_again() -> None:
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
async def test_silent_database_is_logged_while_a_beat_hangs_in_it() -> None:
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
