"""What a worker says, when it says nothing, and what something else prints in its name"""

import asyncio
import os
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gw.config.addresses import ListenAddress
from gw.processes import worker as module
from gw.processes import worker_main
from gw.processes.worker import NoReply, Worker, WorkerFailed
from tests.support.aio import run
from tests.support.logs import logs
from tests.unit.config.reading import model, read


class Pipe:
    """A worker's standard input, which keeps what it was sent."""

    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data


@logs("process_printed")
async def test_what_is_no_reply_is_logged_and_passed_over() -> None:
    stdout, stdin = asyncio.StreamReader(), Pipe()
    process: Any = SimpleNamespace(pid=1, stdout=stdout, stdin=stdin, returncode=None)
    worker = Worker(cast(asyncio.subprocess.Process, process))
    reading = asyncio.create_task(worker._read())
    stdout.feed_data(b'a library greets you\n{"reloaded": false}\n')
    assert not await worker.reload("models:\n- ö\n")
    assert stdin.sent == b'{"config": "models:\\n- \\u00f6\\n"}\n'
    stdout.feed_eof()
    with pytest.raises(WorkerFailed, match="has ended"):
        await worker.reload("")
    await reading


class StartingWorker(Worker):
    """A worker of whose start each second is given: `alive`, `computes`, `silent`, `ready`."""

    computed = 0.0

    def script(self, *seconds: str) -> None:
        self._seconds = iter(seconds)

    async def _reply(self, seconds: float) -> dict[str, Any]:
        second = next(self._seconds)
        if second == "ready":
            return {"admin": "here"}
        self.heard_at += second == "alive"
        self.computed += second == "computes"
        raise NoReply("it does not answer")


async def test_start_lasts_as_long_as_the_worker_gives_signs_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silence = ["silent"] * (module.START_SILENCE_SECONDS - 1)
    worker = StartingWorker(cast(asyncio.subprocess.Process, SimpleNamespace(pid=1)))
    monkeypatch.setattr(module, "cpu_seconds", lambda _pid: worker.computed)
    worker.script(*silence, "computes", *silence, "alive", *silence, "ready")
    assert await worker._ready() == {"admin": "here"}
    worker.script("alive", *silence, "silent")
    with pytest.raises(WorkerFailed, match="does not answer"):
        await worker._ready()


def test_worker_gives_signs_of_life_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()

    async def start_for_long(*_: Any, **__: Any) -> int:
        assert await asyncio.to_thread(os.read, reader, 100) == b'{"alive": true}\n'
        return 0

    monkeypatch.setattr(worker_main, "run_gateway", start_for_long)
    config = read(model())
    with open(writer, "w") as pipe, open(reader):
        monkeypatch.setattr(sys, "stdout", pipe)
        address = ListenAddress("127.0.0.1", 0)
        serving = worker_main.run_worker(config, address=address, parent_descriptor=None)
        assert run(serving) == 0


async def test_late_reply_to_a_reload_is_not_that_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stdout, stdin = asyncio.StreamReader(), Pipe()
    process: Any = SimpleNamespace(pid=1, stdout=stdout, stdin=stdin, returncode=None)
    worker = Worker(cast(asyncio.subprocess.Process, process))
    reading = asyncio.create_task(worker._read())
    with monkeypatch.context() as patch:
        patch.setattr(module, "RELOAD_SECONDS", 0.0)
        with pytest.raises(WorkerFailed, match="does not answer"):
            await worker.reload("slow")
    stdout.feed_data(b'{"reloaded": true}\n{"reloaded": false}\n')
    assert not await worker.reload("bad")
    stdout.feed_eof()
    await reading
