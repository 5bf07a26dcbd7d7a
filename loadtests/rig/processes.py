"""Real processes for acceptance tests: the simulator, a gateway, the command line.

Each is started as a user would start it and found by its ready line; what it logs is kept for the
message of a failed test. Nothing here sleeps: waiting is for a line, an exit or a condition.
"""

import io
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from gw.cli.main import main
from loadtests.rig.waiting import PATIENCE_SECONDS


class ProcessDied(AssertionError):
    """A process ended before it was ready."""


class Process:
    """A child whose stderr is collected and searched for the line that says it is ready."""

    def __init__(
        self, arguments: Sequence[str], *, environ: Mapping[str, str] | None = None
    ) -> None:
        self.arguments = list(arguments)
        self._lines: list[str] = []
        self._begun = b""  # the beginning of the next line
        self._lock = threading.Lock()
        self._unread: queue.Queue[str | None] = queue.Queue()
        self.popen = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environ or {})},
        )
        assert self.popen.stderr is not None
        self._stderr = self.popen.stderr
        os.set_blocking(self._stderr.fileno(), False)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def lines(self) -> list[str]:
        """Everything that it has written to stderr by now."""
        self._take()
        return list(self._lines)

    def _read(self) -> None:
        while self._take():
            select.select([self._stderr], [], [])
        self._unread.put(None)

    def _take(self) -> bool:
        """Read what there is, in whatever thread wants to know; False at the end."""
        with self._lock:
            try:
                while not self._stderr.closed and (data := os.read(self._stderr.fileno(), 65536)):
                    *whole, self._begun = (self._begun + data).split(b"\n")
                    for line in whole:
                        self._lines.append(line.decode())
                        self._unread.put(line.decode())
            except BlockingIOError:
                return True
            return False

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

    def ready(self, pattern: str) -> re.Match[str]:
        """Return the match of the line that reports it ready; one that ends before is closed."""
        try:
            return self.wait_for_line(pattern)
        except ProcessDied:
            self.close()
            raise

    def log(self) -> str:
        """The last lines of stderr."""
        return "\n".join(self.lines[-40:])

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.popen.kill()
        self.popen.wait()

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
        self._reader.join(PATIENCE_SECONDS)
        assert not self._reader.is_alive(), f"{self} has left a child that may still log"
        self._stderr.close()

    def __repr__(self) -> str:
        return f"<Process {' '.join(self.arguments)} pid={self.popen.pid}>"


class SimulatorProcess(Process):
    """The upstream simulator as a process of its own."""

    def __init__(self, *, seed: int = 7, port: int = 0) -> None:
        super().__init__(["loadtests.simulator", "--port", str(port), "--seed", str(seed)])
        self.url = self.ready(r"^ready listen=(\S+)")[1]


class GatewayProcess(Process):
    """A gateway as `gw serve` starts it."""

    def __init__(
        self, config: Path, *, processes: int = 1, environ: Mapping[str, str] | None = None
    ) -> None:
        arguments = ["gw", "serve", "--config", str(config)]
        if processes != 1:
            arguments += ["--processes", str(processes)]
        super().__init__(arguments, environ=environ)
        ready = self.ready(r"^ready listen=(\S+) admin=(\S+)")
        self.url, self.admin_url = ready[1], ready[2]


class CommandFailed(AssertionError):
    """A command of the CLI ended with another code than 0."""

    def __init__(self, code: int, response: Any, stderr: str) -> None:
        super().__init__(f"exit {code}: {response} {stderr}")
        self.code = code
        self.answer = response
        self.stderr = stderr


def gw(config: Path, *arguments: str) -> Any:
    """Run one command of the CLI with `--json`; return its object. Raises CommandFailed.

    In this process, because to start an interpreter takes longer than what most commands do; in one
    of its own where $PYTHONPATH names another tree, whose command is meant then, and for `serve`,
    which handles the signals of a process.
    """
    command = [*arguments, "--config", str(config), "--json"]
    if "PYTHONPATH" in os.environ or arguments[0] == "serve":
        done = subprocess.run(
            [sys.executable, "-m", "gw", *command], capture_output=True, text=True, check=False
        )
        code, printed, complaint = done.returncode, done.stdout, done.stderr
    else:
        out, err = io.StringIO(), io.StringIO()
        # In a thread, where the loop that a test may be running does not forbid it its own.
        with redirect_stdout(out), redirect_stderr(err), ThreadPoolExecutor(1) as pool:
            code = pool.submit(main, command).result()
        printed, complaint = out.getvalue(), err.getvalue()
    response = json.loads(printed) if printed.strip() else None
    if code:
        raise CommandFailed(code, response, complaint)
    return response
