"""What a worker says, and what something else prints in its name"""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gw.processes.worker import Worker, WorkerFailed
from tests.support.logs import logs


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
