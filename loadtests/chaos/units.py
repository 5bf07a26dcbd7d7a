"""A process that is started again when it dies, as systemd does with a unit's main process.

What it leaves behind is left alone: worker processes whose parent was killed find out themselves.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from loadtests.rig.machine import children

# RestartSec of `ops/systemd/model-gateway.service`.
RESTART_SECONDS = 2.0
READY_SECONDS = 60.0
STOP_SECONDS = 60.0
PIPE_BYTES = 4096
LINES_KEPT = 10_000


class NotReady(Exception):
    """A process ended, or waited too long, before it served."""


class Unit:
    """`python -m ARGUMENTS`, kept running. Its log is read line by line, or goes to a file."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        is_ready: Callable[[], Awaitable[bool]],
        environ: Mapping[str, str],
        log_file: Path | None = None,
    ) -> None:
        self._command = [sys.executable, "-m", *arguments]
        self._is_ready = is_ready
        self._environ = {**os.environ, **environ}
        self.log_file = log_file
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.restarts = 0
        self.restart_seconds = RESTART_SECONDS
        self._rest: dict[int, bytes] = {}  # of each pipe that is read, the beginning of a line
        self._pipes: set[int] = set()
        self._popen: subprocess.Popen[bytes]
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The process itself, which was started last."""
        return self._popen.pid

    @property
    def workers(self) -> list[int]:
        """Its processes that serve."""
        return children(self.pid)

    async def start(self) -> None:
        """Start it, and keep it running from then on. Raises NotReady."""
        self._spawn()
        await self.ready()
        self._keeper = asyncio.create_task(self._keep())

    async def ready(self) -> None:
        """Wait until it serves. Raises NotReady."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await self._is_ready():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            log = "\n".join([*self.lines][-20:])
            raise NotReady(f"{' '.join(self._command)} does not serve:\n{log}") from None

    async def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        self._popen.terminate()
        try:
            return await asyncio.to_thread(self._popen.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            self.close()

    def close(self) -> None:
        """Make sure that it is gone, with what it has started."""
        if self._popen.poll() is None:
            for pid in [self.pid, *self.workers]:
                os.kill(pid, 9)
            self._popen.wait()
        for pipe in [*self._pipes]:
            self._close_pipe(pipe)

    def pause_reading(self) -> None:
        """Read nothing of its log any more; the pipe is as small as it can be."""
        for pipe in self._pipes:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            asyncio.get_running_loop().remove_reader(pipe)

    def go_on_reading(self) -> None:
        """Read its log again."""
        for pipe in self._pipes:
            asyncio.get_running_loop().add_reader(pipe, self._read, pipe)

    def _spawn(self) -> None:
        if self.log_file is not None:
            with self.log_file.open("ab") as log:
                self._popen = self._opened(log.fileno())
            return
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self._popen = self._opened(writing)
        os.close(writing)
        self._pipes.add(reading)
        self._rest[reading] = b""
        asyncio.get_running_loop().add_reader(reading, self._read, reading)

    def _opened(self, log: int) -> subprocess.Popen[bytes]:
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            self._command, stdin=nothing, stdout=nothing, stderr=log, env=self._environ
        )

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, 65536)
        except BlockingIOError:
            return
        *whole, self._rest[pipe] = (self._rest[pipe] + data).split(b"\n")
        self.lines.extend(line.decode(errors="replace") for line in whole)
        if not data:  # the last process that logged here has ended
            self._close_pipe(pipe)

    def _close_pipe(self, pipe: int) -> None:
        asyncio.get_running_loop().remove_reader(pipe)
        self._pipes.discard(pipe)
        os.close(pipe)

    async def _keep(self) -> None:
        while True:
            await _ended(self._popen)
            await asyncio.sleep(self.restart_seconds)
            self.restarts += 1
            self._spawn()


async def _ended(popen: subprocess.Popen[bytes]) -> None:
    """Wait until a process has ended."""
    descriptor = os.pidfd_open(popen.pid)
    loop = asyncio.get_running_loop()
    has_ended = asyncio.Event()
    loop.add_reader(descriptor, has_ended.set)
    try:
        await has_ended.wait()
        popen.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
