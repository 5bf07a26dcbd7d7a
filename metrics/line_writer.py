"""Writes lines for callers that must not wait: in a separate thread, from a bounded queue.

An unread pipe holds some 64 KB and then blocks its writers; a full disk refuses. Here only the
thread waits. Lines that do not fit into the queue, or cannot be written, are lost and counted,
and as soon as there is room again one line reports their number. Lines are written whole, as many
at once as fit into one atomic write to a pipe: several processes that share one do not interleave
their lines, unless a line is longer than that.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

# Limit of lines waiting to be written; an hour of an ordinary log.
QUEUE_BYTES_MAX: Final = 4 * 1024 * 1024
# The size of an atomic write to a pipe.
ATOMIC_BYTES: Final = select.PIPE_BUF

# Writes these bytes, however long it takes, or raises OSError.
Sink = Callable[[bytes], object]


def descriptor_sink(fd: int) -> Sink:
    """Write to a file descriptor, which may be non-blocking."""

    def write(data: bytes) -> None:
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                select.select((), (fd,), ())

    return write


class LineWriter:
    """One thread that writes to `sink`; `lost_line` makes the line that reports lost ones.

    Writers take turns; they share no lock with the thread, so that even a line logged within
    garbage collection waits for no other.
    """

    def __init__(self, sink: Sink, lost_line: Callable[[int], bytes]) -> None:
        self._sink = sink
        self._lost_line = lost_line
        self._queue: SimpleQueue[bytes | threading.Event] = SimpleQueue()
        self._ended = threading.Event()
        # Of the writers.
        self._given_bytes = 0
        self._crowded_out = 0  # lines
        # Of the thread.
        self._next: bytes | threading.Event | None = None
        self._done_bytes = 0
        self._unwritten = 0  # lines
        self._reported = 0  # of the lost
        # A daemon, so that the process does not wait for it at exit.
        threading.Thread(target=self._run, name="log", daemon=True).start()

    @property
    def lost(self) -> int:
        """The number of lines that could not be written so far."""
        return self._crowded_out + self._unwritten

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes still to be written."""
        return self._given_bytes - self._done_bytes

    def write(self, line: bytes) -> None:
        """Queue a line, which has its line end. Never waits and never raises."""
        if self.waiting_bytes + len(line) > QUEUE_BYTES_MAX:
            self._crowded_out += 1
            return
        self._given_bytes += len(line)
        self._queue.put(line)

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written or lost, at most so long; False on timeout."""
        done = threading.Event()
        self._queue.put(done)
        return self._ended.is_set() or done.wait(seconds)

    def close(self) -> None:
        """Write nothing that is queued from now on."""
        self._queue.put(self._ended)

    def _run(self) -> None:
        while not self._ended.is_set():
            lines = self._taken()
            if self._is_written(b"".join(lines)):
                self._say_what_is_lost()
            else:
                self._unwritten += len(lines)
            self._done_bytes += sum(map(len, lines))

    def _taken(self) -> list[bytes]:
        """Take the next line, and those that fit into one write with it; none at the end."""
        lines: list[bytes] = []
        size = 0
        item, self._next = self._next, None
        while True:
            if item is None:
                try:
                    item = self._queue.get(block=not lines)
                except Empty:
                    return lines
            if isinstance(item, bytes) and (not lines or size + len(item) <= ATOMIC_BYTES):
                lines.append(item)
                size += len(item)
            elif lines:
                self._next = item
                return lines
            else:
                assert isinstance(item, threading.Event)
                item.set()
                if item is self._ended:
                    return lines
            item = None

    def _say_what_is_lost(self) -> None:
        lost = self.lost
        if lost == self._reported or self.waiting_bytes > QUEUE_BYTES_MAX // 2:
            return
        if self._is_written(self._lost_line(lost - self._reported)):
            self._reported = lost

    def _is_written(self, data: bytes) -> bool:
        try:
            self._sink(data)
        except (OSError, ValueError):  # a full disk, a closed pipe, a closed stream
            return False
        return True
