"""One process that does jobs on large bodies, and the gateway's end of the line to it.

A job is a function of this program, by name, with a body and some small arguments; what comes back
is a small result and perhaps another body. On the line each message is a head with two lengths, the
pickled small part, and the body as it is. Both sides are this program and no other process holds
the line: it is a pair of sockets, inherited.
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

Job = Callable[..., tuple[Any, bytes | None]]

_HEAD = struct.Struct(">QQ")
_READ_BYTES = 1024 * 1024
# Beside the event loop, whose calls wait for it, this work comes second.
_NICENESS = 5


class ProcessDied(Exception):
    """The process ended, or did not answer in time."""


class WorkerProcess:
    """A process at work, as a thread of the gateway sees it: one job after the other, each waited
    for. Every wait lets go of the interpreter's lock."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._line = ours

    def __repr__(self) -> str:
        return f"<WorkerProcess {self._process.pid}>"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def do(
        self, job: Job, body: bytes, arguments: tuple[Any, ...], *, seconds: float
    ) -> tuple[Any, bytes | None]:
        """Have a job done. Raises what it raises, or ProcessDied."""
        self._line.settimeout(seconds)
        try:
            _send(self._line, (job, arguments), body)
            received = _receive(self._line)
        except OSError as error:
            raise ProcessDied(repr(error)) from error
        if received is None:
            raise ProcessDied("it ended")
        (result, raised), payload = received
        if raised is None:
            return result, payload
        try:
            raise raised
        finally:
            del raised, received  # an exception knows this frame, which must not know it

    def end(self) -> None:
        """End it, whatever it is doing."""
        self._line.close()
        self._process.kill()
        self._process.wait()


# Run by the new process: what it was started with is inherited, nothing of the gateway is.
_PROGRAM = "import sys; from channels.offload.process import work; work(int(sys.argv[1]))"


def work(file_descriptor: int) -> None:
    """Do jobs until the line is closed: the gateway is gone, or wants no more of them."""
    # Signals to the whole group are the gateway's to act on.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(_NICENESS)
    with socket.socket(fileno=file_descriptor) as line, suppress(OSError):
        while (received := _receive(line)) is not None:
            (job, arguments), body = received
            result, error, payload = None, None, None
            try:
                result, payload = job(body or b"", *arguments)
            except (Exception, RecursionError) as raised:  # noqa: BLE001  told where it was asked
                error = raised.with_traceback(None)
                error.__cause__ = error.__context__ = None
            del received, body
            _send(line, (result, error), payload)


def _send(line: socket.socket, value: Any, body: bytes | None) -> None:
    """Send a message; a body of None is told by a length of its own."""
    text = pickle.dumps(value)
    length = 0 if body is None else len(body) + 1
    line.sendall(_HEAD.pack(len(text), length) + text)
    if body:
        line.sendall(body)


def _receive(line: socket.socket) -> tuple[Any, bytes | None] | None:
    """The next message; None where the line was closed."""
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
    # For long ones this, too, lets go of the interpreter's lock.
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
