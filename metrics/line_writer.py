"""Writes lines for callers that must not wait: in a thread of its own, from a bounded queue.

An unread pipe holds some 64 KB and then blocks its writers; a full disk refuses.
Here only the thread waits. What finds no room in the queue, or cannot be written, is lost and
counted, and as soon as there is room again one line says how many were. Lines go out whole, as many
at once as fit into one atomic write to a pipe: several processes that share one do not tear each
other's lines, unless a line is longer than that.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

# Of lines that wait to be written; an hour of an ordinary log.
QUEUE_BYTES_MAX: Final = 4 * 1024 * 1024
# What a pipe takes in one piece.
ATOMIC_BYTES: Final = select.PIPE_BUF

# Writes these bytes, however long it takes, or raises OSError.
Sink = Callable[[bytes], object]


def descriptor_sink(fd: int) -> Sink:
    """Write to a file descriptor, which may be one that does not block."""

    def write(data: bytes) -> None:
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                select.select((), (fd,), ())

    return write


class LineWriter:
    """One thread that writes to `sink`; `lost_line` makes the line that says how many were lost.

    Writers take turns; between them and the thread there is no lock, so
    that even what the collector logs, in the middle of anything, waits for no other.
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
        # A daemon: the end of the process does not wait for it.
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def __repr__(self) -> str:
        return f"<LineWriter {self.waiting_bytes} bytes waiting {self.lost} lines lost>"

    @property
    def lost(self) -> int:
        """How many lines could not be written so far."""
        return self._crowded_out + self._unwritten

    @property
    def waiting_bytes(self) -> int:
        """How much is still to be written."""
        return self._given_bytes - self._done_bytes

    def write(self, line: bytes) -> None:
        """Write a line, which has its end, soon. Waits for nothing and raises nothing."""
        if self.waiting_bytes + len(line) > QUEUE_BYTES_MAX:
            self._crowded_out += 1
            return
        self._given_bytes += len(line)
        self._queue.put(line)

    def flush(self, seconds: float) -> bool:
        """Wait until what was given is written or lost, at most so long; False if it is not."""
        done = threading.Event()
        self._queue.put(done)
        return self._ended.is_set() or done.wait(seconds)

    def close(self) -> None:
        """Write nothing that is given from now on."""
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
        """The next line, and those behind it that go out in one piece with it; none at the end."""
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
        except (OSError, ValueError):  # a full disk, a reader that has left, a stream closed
            return False
        return True
