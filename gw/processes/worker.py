"""One worker process as seen by its parent: a `gw serve` on the shared port.

Parent and worker exchange lines of JSON. The parent sends `{"config": TEXT}`, at the start and
for each reload: the text that it has accepted, because the file may have changed by the time that
a worker has to be replaced. The worker sends `{"admin": …}` when it serves, `{"reloaded": …}`
after each reload, and `{"alive": true}` from its loop at intervals, also while it starts: a silent
worker hangs, however long a migration or a busy machine keeps another. A worker whose standard
input is closed has lost its parent, and drains.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from actors.process import cpu_seconds, cpu_wait_seconds
from metrics.logs import EventLog

# So long a worker that starts may say nothing and compute nothing. It is silent until its program
# is loaded, which takes a second or two of CPU, and minutes where other work has the CPU.
START_SILENCE_SECONDS = 120
RELOAD_SECONDS = 30.0
ALIVE = {"alive": True}


class WorkerFailed(Exception):
    """A worker ended, or sent nothing, before it served."""


class NoReply(WorkerFailed):
    """A worker has sent no reply in time."""


@dataclass(eq=False)
class Worker:
    """A running worker; `admin_url` is known once it serves."""

    process: asyncio.subprocess.Process
    admin_url: str = ""
    heard_at: float = field(default_factory=monotonic)  # time of the last line
    _replies: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    _reading: asyncio.Task[None] | None = None
    _given_up: int = 0  # reloads whose replies nobody waits for any more
    _log: EventLog = field(default_factory=lambda: EventLog("gw.processes"))

    def __repr__(self) -> str:
        return f"<Worker {self.process.pid} {self.admin_url or 'starting'}>"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    def cpu_wait_seconds(self) -> float:
        return cpu_wait_seconds(self.pid)

    @classmethod
    async def start(
        cls,
        arguments: Sequence[str],
        *,
        text: str,
        descriptors: Sequence[int] = (),
        environ: Mapping[str, str] | None = None,
    ) -> Worker:
        """Start `gw serve` with the configuration `text` and wait until it serves.

        It inherits `descriptors` under their numbers. Raises WorkerFailed.
        """
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gw", "serve", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C signals the whole terminal; the parent signals its workers itself.
            start_new_session=True,
            pass_fds=descriptors,
            env=environ,
        )
        worker = cls(process)
        worker._reading = asyncio.create_task(worker._read())
        try:
            worker._post(text)
            reply = await worker._ready()
        except BaseException:
            worker.kill()
            await worker.ended()
            raise
        worker.admin_url = reply["admin"]
        return worker

    async def reload(self, text: str) -> bool:
        """Apply another configuration; return False if refused. Raises WorkerFailed."""
        self._post(text)
        try:
            return bool((await self._reply(RELOAD_SECONDS))["reloaded"])
        except NoReply:
            self._given_up += 1
            raise

    def stop(self) -> None:
        """Let the worker drain and exit."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the worker."""
        self._signal(signal.SIGKILL)

    async def ended(self) -> int:
        """Wait for the worker's end; return its exit code."""
        code = await self.process.wait()
        if self._reading is not None:
            await asyncio.wait([self._reading])  # it continues when the waiting task is cancelled
        return code

    def _post(self, text: str) -> None:
        assert self.process.stdin is not None
        if self.process.returncode is None:
            self.process.stdin.write(json.dumps({"config": text}).encode() + b"\n")

    def _signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            try:
                self.process.send_signal(number)
            except ProcessLookupError:
                return  # it has ended meanwhile

    async def _ready(self) -> dict[str, Any]:
        """Return what a worker that starts says of itself, as long as it gives signs of life.

        Only seconds in which this process was awake itself count.
        """
        silent = 0
        while True:
            before = self._life()
            try:
                return await self._reply(1.0)
            except NoReply:
                silent = silent + 1 if self._life() == before else 0
                if silent >= START_SILENCE_SECONDS:
                    raise

    def _life(self) -> tuple[float, float]:
        """Return when it was heard, and how much it has computed."""
        return self.heard_at, cpu_seconds(self.pid)

    async def _reply(self, seconds: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                reply = await self._replies.get()
        except TimeoutError:
            raise NoReply(f"process {self.process.pid} does not answer") from None
        if not reply:
            raise WorkerFailed(f"process {self.process.pid} has ended")
        return reply

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.heard_at = monotonic()
            try:
                reply = json.loads(line)
                if self._given_up and isinstance(reply, dict) and "reloaded" in reply:
                    self._given_up -= 1
                elif reply != ALIVE:
                    self._replies.put_nowait(reply)
            except ValueError:  # not ours: a library prints
                printed = line.decode(errors="replace").strip()
                self._log.warning("process_printed", pid=self.process.pid, line=printed)
        self._replies.put_nowait({})
