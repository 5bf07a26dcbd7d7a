"""One worker process as its parent sees it: a `gw serve` of its own on the shared port.

Parent and worker talk in lines of JSON on the worker's standard output: `{"admin": …}` when it
serves, `{"reloaded": …}` after each SIGHUP. A worker whose standard input ends has lost its parent,
and drains.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

READY_SECONDS = 120.0
RELOAD_SECONDS = 30.0


class WorkerFailed(Exception):
    """A worker ended, or said nothing, before it served."""


@dataclass(eq=False)
class Worker:
    """A running worker; `admin_url` is known once it serves."""

    process: asyncio.subprocess.Process
    admin_url: str = ""
    _replies: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    _reading: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Worker {self.process.pid} {self.admin_url or 'starting'}>"

    @classmethod
    async def start(cls, arguments: Sequence[str]) -> Worker:
        """Start `gw serve` with these arguments and wait until it serves. Raises WorkerFailed."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gw", "serve", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C reaches the whole terminal; the parent tells its workers itself.
            start_new_session=True,
        )
        worker = cls(process)
        worker._reading = asyncio.create_task(worker._read())
        try:
            reply = await worker._reply(READY_SECONDS)
        except BaseException:
            worker.kill()
            await worker.ended()
            raise
        worker.admin_url = reply["admin"]
        return worker

    async def reload(self) -> bool:
        """Let it read its configuration again; False when it refused. Raises WorkerFailed."""
        self._signal(signal.SIGHUP)
        return bool((await self._reply(RELOAD_SECONDS))["reloaded"])

    def stop(self) -> None:
        """Let it drain and end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._signal(signal.SIGKILL)

    async def ended(self) -> int:
        """Wait for its end; return its exit code."""
        code = await self.process.wait()
        if self._reading is not None:
            await self._reading
        return code

    def _signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            try:
                self.process.send_signal(number)
            except ProcessLookupError:
                return  # it has ended meanwhile

    async def _reply(self, seconds: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                reply = await self._replies.get()
        except TimeoutError:
            raise WorkerFailed(f"process {self.process.pid} does not answer") from None
        if not reply:
            raise WorkerFailed(f"process {self.process.pid} has ended")
        return reply

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self._replies.put_nowait(json.loads(line))
        self._replies.put_nowait({})
