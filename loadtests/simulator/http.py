"""One client connection: HTTP/1.1 in, bytes out, with the socket in our own hands.

Requests on a connection are answered in order, one at a time. An ordinary answer is one write;
anything with time in it is played by a task, which the client's leaving cancels.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, cast

import httptools

from loadtests.simulator.engine import Engine
from loadtests.simulator.exchange import Exchange, Outcome
from loadtests.simulator.script import Ending, Script, play

MAX_BODY_BYTES: Final = 256 * 1024 * 1024
FLUSH_SECONDS: Final = 2.0
INTROSPECTION: Final = b"/_sim"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Introspect = Callable[[Exchange], Coroutine[Any, Any, bytes]]


class Connection(asyncio.Protocol):
    """A client's connection; `introspect` answers the paths that are about the simulator."""

    def __init__(
        self,
        engine: Engine,
        introspect: Introspect,
        connections: set[Connection],
        is_open: Callable[[int], bool],
    ) -> None:
        self._engine = engine
        self._introspect = introspect
        self._connections = connections
        self._is_open = is_open
        self._transport: asyncio.Transport
        self._parser: httptools.HttpRequestParser | None = None
        self.port = 0
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_size = 0
        self._waiting: deque[Exchange] = deque()
        self._writable: asyncio.Future[None] | None = None
        self.task: asyncio.Task[Any] | None = None

    # the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self.port = transport.get_extra_info("sockname")[1]
        self._connections.add(self)
        self._engine.stats.count(connections=1, connections_open=1)
        if not self._is_open(self.port):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:  # a fault of ours, so make it heard
            self._transport.abort()
            raise error.__context__ or error from None
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._parser = None
            self._transport.write(BAD_REQUEST)
            self._transport.close()

    def eof_received(self) -> None:
        """The client is gone: it has no use for half a connection."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._parser = None  # it refers back to us
        self._waiting.clear()
        self._connections.discard(self)
        self.resume_writing()
        if self.task is not None:
            self.task.cancel()
        self._engine.stats.count(connections_open=-1)

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()
        self._engine.stats.count(held_back=1)

    def resume_writing(self) -> None:
        if self._writable is None:
            return
        if not self._writable.done():
            self._writable.set_result(None)
        self._writable = None
        self._engine.stats.count(held_back=-1)

    # the parser's calls

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))
        if len(name) == 6 and name.lower() == b"expect":
            self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._body_size += len(body)
        if self._body_size > MAX_BODY_BYTES:
            self._transport.abort()

    def on_message_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        body = self._body
        exchange = Exchange(
            parser.get_method().decode(),
            self._target,
            self._headers,
            body[0] if len(body) == 1 else b"".join(body),
            self.port,
            parser.should_keep_alive(),
        )
        self._target, self._headers, self._body, self._body_size = b"", [], [], 0
        if self.task is not None:
            self._waiting.append(exchange)
        else:
            self._serve(exchange)

    # answering

    def _serve(self, exchange: Exchange) -> None:
        if exchange.target.startswith(INTROSPECTION):
            self.task = asyncio.ensure_future(self._introspect(exchange))
            self.task.add_done_callback(partial(self._shown, exchange))
            return
        script = self._engine.begin(exchange)
        whole = script.whole
        if whole is None:
            self.task = asyncio.ensure_future(play(script, self, self._engine.stats))
            # A callback, no `finally`: a task cancelled before its first step runs none of ours.
            self.task.add_done_callback(partial(self._performed, exchange, script))
            return
        self._transport.write(whole)
        stats = self._engine.stats
        stats.sent(events=script.events, count_bytes=len(whole))
        stats.ended(exchange, "completed")
        if script.ending is Ending.CLOSE or not exchange.is_keep_alive:
            self._transport.close()

    def _performed(self, exchange: Exchange, script: Script, task: asyncio.Task[Outcome]) -> None:
        is_delivered = not task.cancelled() and task.exception() is None
        self._engine.stats.ended(exchange, task.result() if is_delivered else "cancelled")
        self._done(task, is_last=script.ending is Ending.CLOSE or not exchange.is_keep_alive)

    def _shown(self, exchange: Exchange, task: asyncio.Task[bytes]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._transport.write(task.result())
        self._done(task, is_last=not exchange.is_keep_alive)

    def _done(self, task: asyncio.Task[Any], *, is_last: bool) -> None:
        """Go on after an answer that took time."""
        self.task = None
        if task.cancelled():
            return
        if task.exception() is not None:
            self._transport.abort()
            task.result()  # a fault of ours: the loop's exception handler hears of it
        if is_last:
            self._transport.close()
        while self._waiting and self.task is None and not self._transport.is_closing():
            self._serve(self._waiting.popleft())

    # what playback needs

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def drain(self) -> None:
        if self._writable is not None:
            await self._writable
        if self._transport.is_closing():  # the client has left, and the end of this is on its way
            await asyncio.get_running_loop().create_future()

    async def cut(self, how: str) -> None:
        if how == "close":
            self._transport.close()
            return
        # A reset throws away what has not left this machine, and the test wants it to arrive.
        deadline = asyncio.get_running_loop().time() + FLUSH_SECONDS
        while self._unsent() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.001)
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def abort(self) -> None:
        """Drop the connection at once (the simulator stops)."""
        self._transport.abort()

    def _unsent(self) -> int:
        sock = self._transport.get_extra_info("socket")
        try:  # what the system has, and the other side has not acknowledged
            response = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
        except OSError:
            response = bytes(4)
        return self._transport.get_write_buffer_size() + int(struct.unpack("i", response)[0])
