"""The light upstream: python -m loadtests.bench.upstream; prints `ready listen=URL`.

Canned bytes, one write for each event, and one wheel of time for all streams that are paced: what
it costs must be little beside what is measured behind it. The simulator (`loadtests/simulator`) is
the upstream for everything that is about being right.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from typing import Any

import httptools
import uvloop

from loadtests.bench.canned import answer_to

BACKLOG = 8192
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"
# Has no divisor in common with any usual pause, so that all parts of one are taken in turn.
_STRIDE = 7919


class Wheel:
    """Calls streams back at milliseconds they name, all that are due in one turn of one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots: dict[int, list[Connection]] = {}
        self._at = self._begun = 0
        self._is_turning = False

    def begin(self, stream: Connection) -> None:
        """Let a stream go on after a part of its pause, another one for each stream.

        Else streams that a server has begun in one turn of its loop would stay in step, and those
        they hold up fall in with them: no upstream's tokens come so.
        """
        self._begun += 1
        now = int(self._loop.time() * 1000)
        if not self._is_turning:
            self._is_turning, self._at = True, now + 1
            self._loop.call_later(0.001, self._turn)
        after_ms = 1 + self._begun * _STRIDE % stream.pause_ms
        self._slots.setdefault(max(now + after_ms, self._at), []).append(stream)

    def _turn(self) -> None:
        now, slots = int(self._loop.time() * 1000), self._slots
        while self._at <= now:
            for stream in slots.pop(self._at, ()):
                # Counted from when it was due: a late turn does not stretch the stream.
                if stream.put():
                    slots.setdefault(self._at + stream.pause_ms, []).append(stream)
            self._at += 1
        self._is_turning = bool(slots)
        if slots:
            self._loop.call_later(0.001, self._turn)


class Connection(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel, self._loop = wheel, asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._body = b"", list[bytes]()
        self._left: list[bytes] = []  # pieces of the answer, the next one last
        self.pause_ms = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._left = []

    def on_url(self, path: bytes) -> None:
        self._path += path

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        answer = answer_to(self._path, b"".join(self._body))
        self._path, self._body = b"", []
        if answer is None:
            self._transport.write(NOT_FOUND)
            return
        self._left, self.pause_ms = [*reversed(answer.pieces)], answer.pause_ms
        if self.put():
            self._wheel.begin(self) if self.pause_ms else self._loop.call_soon(self._hurry)

    def put(self) -> bool:
        """Write the next piece of the answer, if any is left. Returns whether there are more."""
        if self._left:
            self._transport.write(self._left.pop())
        return bool(self._left)

    def _hurry(self) -> None:
        """Write one event in each turn of the loop, as an upstream does that has them ready."""
        if self.put():
            self._loop.call_soon(self._hurry)


def serve(connections: Callable[[], Callable[[], asyncio.Protocol]]) -> None:
    """Listen on a free port, print `ready listen=URL`, and end on a signal.

    `connections` is called in the loop and makes what makes the protocol of a connection.
    """

    async def serving() -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        server = await loop.create_server(connections(), "127.0.0.1", 0, backlog=BACKLOG)
        gc.collect()
        gc.freeze()
        host, port = server.sockets[0].getsockname()
        print(f"ready listen=http://{host}:{port}", file=sys.stderr, flush=True)
        await stopped.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving())


def _connections() -> Callable[[], Connection]:
    gc.disable()  # a collection would be a gap in every stream; what is left lasts for one run
    wheel = Wheel(asyncio.get_running_loop())
    return lambda: Connection(wheel)


if __name__ == "__main__":
    serve(_connections)
