"""One process that runs jobs on large bodies, and the gateway's end of its socket.

A job is a function of this program, by name, with a body and some small arguments; its result is
small, with perhaps another body. A message is a head with two lengths, the pickled small part, and
the body as it is. Both sides are this program and no other process has the socket: it is an
inherited pair.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from metrics.environment import inherited

Job = Callable[..., tuple[Any, bytes | None]]

_HEAD = struct.Struct(">QQ")
_READ_BYTES = 1024 * 1024
# This work has a lower priority than the event loop, whose calls wait for it.
_NICENESS = 5


# CPU time for one job: the largest body that a model can read takes half of it. It is not wall
# time: on a busy host a job waits for its turns, which is not the fault of its body.
JOB_CPU_SECONDS_MAX = 2.0


class ProcessDied(Exception):
    """The process ended, or did not respond in time."""


class JobTooLong(Exception):
    """The job exceeded the CPU time of one job, and its process ended."""


class WorkerProcess:
    """A process with its thread in the gateway: one job after the other, each awaited. Every wait
    releases the interpreter's lock."""

    def __init__(self, job_cpu_seconds: float = JOB_CPU_SECONDS_MAX) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), str(job_cpu_seconds)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env=inherited(PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
            )
        self._line = ours

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def do(
        self, job: Job, body: bytes, arguments: tuple[Any, ...], *, seconds: float
    ) -> tuple[Any, bytes | None]:
        """Run a job. Raises its errors, JobTooLong, or ProcessDied.

        `seconds` is the longest silence in wall time; JobTooLong also ends the process.
        """
        self._line.settimeout(seconds)
        try:
            _send(self._line, (job, arguments), body)
            received = _receive(self._line)
            status = None if received is not None else self._process.wait(seconds)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProcessDied(repr(error)) from error
        if received is None:
            if status == -signal.SIGPROF:
                raise JobTooLong
            raise ProcessDied(f"it ended with {status}")
        (result, raised), payload = received
        if raised is None:
            return result, payload
        try:
            raise raised
        finally:
            del raised, received  # an exception knows this frame, which must not know it

    def end(self) -> None:
        """Kill the process."""
        self._line.close()
        self._process.kill()
        self._process.wait()


# Run by the new process: what it was started with is inherited, nothing of the gateway is.
_PROGRAM = """
import sys
from channels.offload.process import work
work(int(sys.argv[1]), float(sys.argv[2]))
"""


def work(file_descriptor: int, job_cpu_seconds: float) -> None:
    """Run jobs until the socket is closed: the gateway has ended, or needs no more of them.

    A job that takes more CPU time ends the process, by the signal of a timer, which also works
    within C code. Imports for the first job are not counted.
    """
    # Signals to the process group are handled by the gateway.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    with suppress(OSError):
        os.nice(_NICENESS)
    with socket.socket(fileno=file_descriptor) as line, suppress(OSError):
        while (received := _receive(line)) is not None:
            (job, arguments), body = received
            result, error, payload = None, None, None
            signal.setitimer(signal.ITIMER_PROF, job_cpu_seconds)
            try:
                result, payload = job(body or b"", *arguments)
            except (Exception, RecursionError) as raised:  # noqa: BLE001  raised in the caller
                error = raised.with_traceback(None)
                error.__cause__ = error.__context__ = None
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            del received, body
            _send(line, (result, error), payload)


def _send(line: socket.socket, value: Any, body: bytes | None) -> None:
    """Send a message; a body of None has its own length value."""
    text = pickle.dumps(value)
    length = 0 if body is None else len(body) + 1
    line.sendall(_HEAD.pack(len(text), length) + text)
    if body:
        line.sendall(body)


def _receive(line: socket.socket) -> tuple[Any, bytes | None] | None:
    """Receive the next message; None if the socket was closed."""
    head = _read(line, _HEAD.size)
    if head is None:
        return None
    size, length = _HEAD.unpack(head)
    text = _read(line, size)
    body = _read(line, length - 1) if length else None
    if text is None or (length and body is None):
        return None
    return cast(Any, pickle.loads(text)), body


def _read(line: socket.socket, size: int) -> bytes | None:
    pieces: list[bytes] = []
    while size > 0:
        piece = line.recv(min(size, _READ_BYTES))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    # For long ones this also releases the interpreter's lock.
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
