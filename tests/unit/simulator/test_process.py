"""The simulator as a process: its ready line, its loop, its end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Client, ask_bytes, request


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Simulator]]:
    """A simulator process, and a stand-in that has only its address."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "loadtests.simulator", *arguments),
        stderr=asyncio.subprocess.PIPE,
    )
    assert started.stderr is not None
    try:
        line = (await started.stderr.readline()).decode()
        assert line.startswith("ready listen=http://127.0.0.1:"), line
        yield started, Simulator(port=int(line.rsplit(":", 1)[1]))
    finally:
        signal_to(started, signal.SIGKILL)
        await started.wait()


def signal_to(started: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send the signal, unless the process has ended.

    `Process.send_signal` would first ask the system whether it has, and so take its end away from
    the watcher that waits for it; a process that nobody has waited for keeps its number.
    """
    if started.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(started.pid, number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_with_status_zero_whatever_is_under_way(number: signal.Signals) -> None:
    async def one() -> int | None:
        async with process() as (started, address), Client(address) as client:
            client.send(ask_bytes("chat", stream=True, sim={"endless": True}))
            await client.read_some()
            signal_to(started, number)
            return await started.wait()

    assert run(one()) == 0


async def test_process_answers_cuts_and_resets_like_the_one_in_a_test() -> None:
    async with process("--seed", "3", "--directive", '{"events": 2}') as (_, address):
        async with Client(address) as client:
            client.send(ask_bytes("chat", stream=True))
            assert len((await client.reply()).data) == 5
            client.send(request("GET", "/_sim/stats"))
            assert (await client.reply()).json["completed"] == 1
        for how, end in (("reset", "reset"), ("close", "eof")):
            async with Client(address) as client:
                sim = {"cut_after_events": 3, "cut": how}
                client.send(ask_bytes("chat", stream=True, sim=sim))
                reply = await client.reply()
                assert (len(reply.events), reply.end) == (3, end)


async def test_client_leaving_the_process_is_noticed() -> None:
    async with process() as (_, address), Client(address) as watcher:
        async with Client(address) as client:
            client.send(ask_bytes("chat", stream=True, sim={"endless": True}))
            await client.read_some()
        watcher.send(request("GET", "/_sim/wait?cancelled=1&active=0&timeout=20"))
        assert (await watcher.reply()).status == 200


@pytest.mark.parametrize(
    ("arguments", "status"), [(["--directive", '{"evnts": 1}'], 2), (["--host", "203.0.113.1"], 1)]
)
def test_bad_arguments_end_with_one_line(arguments: list[str], status: int) -> None:
    async def one() -> tuple[int | None, bytes]:
        started = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "loadtests.simulator", *arguments),
            stderr=asyncio.subprocess.PIPE,
        )
        _, told = await started.communicate()
        return started.returncode, told

    code, told = run(one())
    assert code == status
    assert told.count(b"\n") == 1
    assert b"Traceback" not in told


def test_ready_line_is_the_only_output() -> None:
    async def one() -> bytes:
        async with process() as (started, _):
            signal_to(started, signal.SIGTERM)
            assert started.stderr is not None
            return await started.stderr.read()

    assert run(one()) == b""
