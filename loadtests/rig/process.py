"""A process that a test or a load has started: waited for, read, stopped, killed.

It is found by the line with which it reports that it is ready; what it logs is kept for the message
of a failed test. Nothing here sleeps: waiting is for a line, an exit or a condition.
"""

from __future__ import annotations

import fcntl
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from loadtests.rig.machine import children, pin
from loadtests.rig.site import ANYWHERE, Site
from loadtests.rig.waiting import PATIENCE_SECONDS

# More than a test's gateway logs; of a load, the last ones.
LINES_KEPT = 100_000
PIPE_BYTES_LEAST = 4096
READY = r"^ready (.*)"


class ProcessDied(AssertionError):
    """A process ended before it was ready."""


class Process:
    """A child whose stderr is read line by line, or goes to `log_file`.

    `is_heard`: its lines are passed on to this process's stderr, too.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str] | None = None,
        site: Site = ANYWHERE,
        is_heard: bool = False,
        log_file: Path | None = None,
    ) -> None:
        self.arguments = list(command)
        self.words: Mapping[str, str] = {}  # of the line that reports it ready
        self._is_heard = is_heard
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._begun = b""  # the beginning of the next line
        self._lock = threading.Lock()
        self._may_read = threading.Event()
        self._may_read.set()
        self._unread: queue.Queue[str | None] = queue.Queue()
        self._stderr: IO[bytes] | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self.popen = self._start(environ or {}, site, log_file)
        try:
            if site.cores is not None:
                pin(self.pid, site.cores)
        except BaseException:
            self.kill()
            raise
        if self.popen.stderr is not None:
            self._stderr = self.popen.stderr
            os.set_blocking(self._stderr.fileno(), False)
            self._reader.start()

    def _start(
        self, environ: Mapping[str, str], site: Site, log_file: Path | None
    ) -> subprocess.Popen[bytes]:
        log = None if log_file is None else log_file.open("ab")
        try:
            return subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log or subprocess.PIPE,
                env={**os.environ, **environ},
                cwd=site.folder,
            )
        finally:
            if log is not None:
                log.close()

    @property
    def pid(self) -> int:
        """The process itself."""
        return self.popen.pid

    @property
    def workers(self) -> list[int]:
        """The processes that it has started."""
        return children(self.pid)

    @property
    def lines(self) -> list[str]:
        """What it has written to stderr by now."""
        self._take()
        return list(self._lines)

    @property
    def has_ended_log(self) -> bool:
        """Whether nobody can write to its stderr any more."""
        return not self._reader.is_alive()

    def _read(self) -> None:
        pipe = self._stderr
        assert pipe is not None
        while self._take():
            select.select([pipe], [], [])
            self._may_read.wait()
        self._unread.put(None)

    def _take(self) -> bool:
        """Read what there is, in whatever thread wants to know; False at the end."""
        pipe = self._stderr
        if pipe is None:
            return False
        if not self._may_read.is_set():
            return True
        with self._lock:
            try:
                while not pipe.closed and (data := os.read(pipe.fileno(), 65536)):
                    *whole, self._begun = (self._begun + data).split(b"\n")
                    for line in whole:
                        self._hear(line.decode(errors="replace"))
            except BlockingIOError:
                return True
            return False

    def _hear(self, line: str) -> None:
        self._lines.append(line)
        if self._unread.qsize() < LINES_KEPT:  # of a load that lasts, nobody reads them
            self._unread.put(line)
        if self._is_heard and not line.startswith("ready "):
            sys.stderr.write(f"{line}\n")

    def pause_reading(self) -> None:
        """Read nothing of its log any more; the pipe is as small as it can be."""
        assert self._stderr is not None
        self._may_read.clear()
        fcntl.fcntl(self._stderr, fcntl.F_SETPIPE_SZ, PIPE_BYTES_LEAST)

    def go_on_reading(self) -> None:
        """Read its log again."""
        self._may_read.set()

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        """Return the match of the first unread line that `pattern` finds something in."""
        while True:
            try:
                line = self._unread.get(timeout=PATIENCE_SECONDS)
            except queue.Empty:
                raise ProcessDied(f"no line like {pattern!r} from {self}") from None
            if line is None:
                raise ProcessDied(f"{self} ended with {self.popen.wait()}:\n{self.log()}")
            found = re.search(pattern, line)
            if found is not None:
                return found

    def ready(self) -> Mapping[str, str]:
        """Return the words of the line that reports it ready; one that ends before is closed."""
        try:
            words = self.wait_for_line(READY)[1].split()
        except BaseException:
            self.close()
            raise
        self.words = dict(word.split("=", 1) for word in words if "=" in word)
        return self.words

    def log(self) -> str:
        """The last lines of stderr."""
        return "\n".join(self.lines[-40:])

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.popen.kill()
        self.popen.wait()

    def kill_all(self) -> None:
        """The same with what it has started; nobody waits for it."""
        for pid in (self.pid, *self.workers):
            os.kill(pid, signal.SIGKILL)

    def terminate(self) -> int:
        """Ask it to end and return its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self.popen.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} does not end:\n{self.log()}") from None

    def close(self) -> None:
        """Make sure that it is gone."""
        if self.popen.poll() is None:
            self.kill()
        self.go_on_reading()
        if self._stderr is not None:
            self._reader.join(PATIENCE_SECONDS)
            assert not self._reader.is_alive(), f"{self} has left a child that may still log"
            self._stderr.close()

    def __repr__(self) -> str:
        return f"<Process {' '.join(self.arguments)} pid={self.popen.pid}>"


P = TypeVar("P", bound=Process)


@contextmanager
def until_end(process: P) -> Iterator[P]:
    """A process, which is asked to end afterwards."""
    try:
        yield process
    finally:
        try:
            process.terminate()
        finally:
            process.close()


@contextmanager
def started(
    arguments: Sequence[str], site: Site = ANYWHERE, *, environ: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """A Python module, once it is ready, to its end; what it logs is passed on."""
    process = Process(site.module(arguments), site=site, is_heard=True, environ=environ)
    process.ready()
    with until_end(process):
        yield process
