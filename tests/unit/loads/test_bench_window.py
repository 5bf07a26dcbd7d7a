"""What a window comes to, and what the operating system says meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from array import array
from typing import Any

import pytest

from loadtests.bench.canned import chat_body
from loadtests.bench.client import Tally
from loadtests.bench.load import Ask, Subject
from loadtests.bench.upstream import Connection, Wheel
from loadtests.bench.window import Spent, from_tally, grown
from loadtests.rig.machine import cpu_seconds, of_tree, resident_mb, stolen_seconds, tree
from loadtests.rig.processes import Rig, Target

SERVER = Target("gateway", "127.0.0.1", 1, 1, ["key"])
SUBJECT = Subject("a", SERVER, (b"",), Ask(10, pause_ms=20))
RIG = Rig(SERVER, 1)


def spent(server: float = 0.0, database: float = 0.0, **others: float) -> Spent:
    made: Spent = {"server": server, "database": database, "rig": 0.0, "stolen": 0.0, "at": 0.0}
    for name, value in others.items():
        made[name] = value
    return made


def test_cpu_is_shared_among_the_answers() -> None:
    tally = Tally(answers=100, seconds=array("d", [0.001] * 99 + [0.009]))
    figures = from_tally(SUBJECT, tally, 2.0, spent(0.5, 0.1, rig=0.2), Rig(SERVER, 2))
    assert figures["rate"] == 50
    assert figures["cpu_ms"] == pytest.approx(5)
    assert figures["pg_ms"] == pytest.approx(1)
    assert (figures["p50_ms"], figures["p99_ms"]) == (1, 1)
    assert figures["server_busy"] == 0.25
    assert figures["rig_busy"] == pytest.approx(0.075)
    assert "event_us" not in figures


def test_events_are_served_as_far_as_they_were_due() -> None:
    tally = Tally(events=450, gaps=array("d", [0.02]))
    figures = from_tally(SUBJECT, tally, 1.0, spent(0.009, stolen=1.0), RIG)
    assert figures["stolen"] == 1.0 / (os.cpu_count() or 1)
    assert figures["served"] == pytest.approx(0.9)
    assert figures["event_us"] == pytest.approx(20)
    assert figures["gap_p99_ms"] == 20
    assert "cpu_ms" not in figures


def test_of_several_processes_is_said_what_they_serve_with_a_core_each() -> None:
    earlier, later = {**spent(1.0), 7: 0.4, 8: 0.6}, {**spent(2.0), 7: 0.8, 8: 1.2}
    tally = Tally(answers=100, seconds=array("d", [0.001] * 100))
    several = SUBJECT._replace(target=SERVER._replace(workers=(7, 8)))
    figures = from_tally(several, tally, 1.0, grown(earlier, later), RIG)
    assert figures["per_core"] == 200
    assert figures["busiest"] == pytest.approx(0.6)


def test_what_was_read_late_is_counted_at_the_pace_of_the_time_between() -> None:
    own = grown(spent(1.0, 0.5, at=10.0), spent(2.5, 0.8, at=11.5), 1.0)
    assert own["server"] == pytest.approx(1.0)
    assert own["database"] == pytest.approx(0.2)


def test_cpu_and_memory_are_those_of_the_whole_tree() -> None:
    before = time.process_time()
    assert stolen_seconds() >= 0
    assert cpu_seconds(os.getpid()) >= before
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            assert child.pid in tree(os.getpid())
            assert of_tree(cpu_seconds, os.getpid()) >= before
            whole, part = (of_tree(resident_mb, pid) for pid in (os.getpid(), child.pid))
            assert whole > part > 0
        finally:
            child.kill()


class Loop:
    """A loop whose time is told."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.due: list[Any] = []

    def time(self) -> float:
        return self.now_ms / 1000

    def call_later(self, seconds: float, call: Any) -> None:
        self.due.append(call)

    def turn(self, at_ms: int) -> None:
        self.now_ms = at_ms
        due, self.due = self.due, []
        for call in due:
            call()


class Wire:
    """A transport that remembers when it was written to."""

    def __init__(self, loop: Loop) -> None:
        self.written: list[tuple[int, bytes]] = []
        self._loop = loop

    def write(self, data: bytes) -> None:
        self.written.append((self._loop.now_ms, data))


async def test_the_wheel_paces_streams_and_catches_up_after_a_late_turn() -> None:
    loop: Any = Loop()
    wheel = Wheel(loop)
    wires: list[Any] = [Wire(loop), Wire(loop)]
    asked = b"POST /v1/messages HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b"
    body = chat_body("bench-7x10", is_stream=True)
    streams = [Connection(wheel), Connection(wheel)]
    for stream, wire in zip(streams, wires, strict=True):
        stream.connection_made(wire)
        stream.data_received(asked % (len(body), body))
    streams[1].connection_lost(None)
    for at_ms in (*range(1001, 1021), 1055, 1090):  # late at the end
        loop.turn(at_ms)
    times = [at_ms for at_ms, _ in wires[0].written]
    assert times == [1000, 1010, 1020, 1055, 1055, 1055, 1090]
    assert len(wires[1].written) == 1  # nothing more after it was gone
    assert loop.due == []  # nothing left to turn for
