"""The reference: a bare proxy on the gateway's stack, what a call costs before it is a gateway's.

`python -m loadtests.bench.reference ADDRESS HOST PORT` serves POST /v1/chat/completions at an
address, for the upstream of HOST and PORT, through one Tornado application over httptools. Of a
gateway's work it has only what no server on this stack can leave out: the body is decoded, a
mailbox is asked before and notified after (where money would be), three metrics and one span that
is not sampled. No key, no database, no log, no time-outs, no limits.

It shares nothing with `gw` on purpose: a change of the gateway must not move what it is compared
with.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any

import httptools
import ujson
from opentelemetry.sdk.trace import TracerProvider, sampling
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from tornado import httputil, web
from tornado.iostream import StreamClosedError

from loadtests.bench.upstream import serve

PATH = "/v1/chat/completions"
JOINED_BYTES_MAX = 64 * 1024


class Mailbox:
    """Answers all that was asked in one turn of the loop in the next: an actor's least."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._asked: list[tuple[int, asyncio.Future[int]]] = []
        self._total = 0

    def ask(self, amount: int) -> asyncio.Future[int]:
        """Put an amount in; the answer is the total."""
        if not self._asked:
            self._loop.call_soon(self._respond)
        response: asyncio.Future[int] = self._loop.create_future()
        self._asked.append((amount, response))
        return response

    def _respond(self) -> None:
        request, self._asked = self._asked, []
        for amount, response in request:
            self._total += amount
            if not response.done():
                response.set_result(self._total)


class Upstream(asyncio.Protocol):
    """A kept connection to the upstream, of one answer at a time, which is read as it comes."""

    transport: Any

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._pieces: list[bytes] = []
        self._has_head = self._is_lost = False
        self.is_whole = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._wake()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)  # what is no HTTP ends the connection
        self._wake()

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_whole = True

    async def ask(self, head: bytes, body: bytes) -> None:
        """Send a request; returns when the head of the answer is there. Raises ConnectionError."""
        self._parser = httptools.HttpResponseParser(self)
        self._has_head = self.is_whole = False
        for data in (head + body,) if len(body) < JOINED_BYTES_MAX else (head, body):
            self.transport.write(data)
        while not self._has_head:
            await self._more()

    async def piece(self) -> bytes:
        """What has come since the last time, b"" at the end. Raises ConnectionError."""
        while not self._pieces:
            if self.is_whole:
                return b""
            await self._more()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        return data

    async def _more(self) -> None:
        if self._is_lost:
            raise ConnectionError
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Rooms:
    """What a handler works with."""

    def __init__(self, host: str, port: str) -> None:
        registry = CollectorRegistry()
        calls = Counter("calls", "Calls.", ("protocol", "status"), registry=registry)
        seconds = Histogram("seconds", "Duration.", ("protocol",), registry=registry)
        self.calls, self.seconds = calls.labels("chat", "200"), seconds.labels("chat")
        self.in_flight = Gauge("in_flight", "Under way.", registry=registry)
        self.tracer = TracerProvider(sampler=sampling.ALWAYS_OFF).get_tracer("bench")
        self.mailbox = Mailbox()
        self.upstream, self.idle = (host, int(port)), list[Upstream]()
        self.head = (
            f"POST {PATH} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            "Authorization: Bearer upstream\r\nContent-Length: "
        ).encode()

    async def connection(self) -> Upstream:
        """An idle connection, or a new one. Raises OSError."""
        while self.idle:
            if not (idle := self.idle.pop()).transport.is_closing():
                return idle
        return (await asyncio.get_running_loop().create_connection(Upstream, *self.upstream))[1]


class Completions(web.RequestHandler):
    """A call, forwarded."""

    _task: asyncio.Task[None] | None = None

    def initialize(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def on_connection_close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def post(self) -> None:
        self._task = asyncio.current_task()
        with suppress(StreamClosedError, asyncio.CancelledError):  # the client has left
            await self._counted()
        self._task = None

    async def _counted(self) -> None:
        rooms, began = self._rooms, time.perf_counter()
        span = rooms.tracer.start_span("chat")
        rooms.in_flight.inc()
        request = ujson.loads(self.request.body)
        await rooms.mailbox.ask(1)
        try:
            await self._forward(is_stream=bool(request.get("stream")))
        finally:
            await rooms.mailbox.ask(-1)
            rooms.in_flight.dec()
            rooms.seconds.observe(time.perf_counter() - began)
            rooms.calls.inc()
            span.end()

    async def _forward(self, *, is_stream: bool) -> None:
        rooms, body = self._rooms, self.request.body
        upstream = await rooms.connection()
        try:
            await upstream.ask(b"%b%d\r\n\r\n" % (rooms.head, len(body)), body)
            kind = "text/event-stream" if is_stream else "application/json"
            self.set_header("Content-Type", kind)
            while piece := await upstream.piece():
                self.write(piece)
                if is_stream:
                    await self.flush()
            self.finish()
        finally:
            rooms.idle.append(upstream) if upstream.is_whole else upstream.transport.abort()


class Front(asyncio.Protocol):
    """A connection of a client: what is the least for a Tornado application."""

    def __init__(self, application: web.Application) -> None:
        self._application, self._loop = application, asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._exchange: Any = None
        self.pause_writing()
        self.resume_writing()

    def connection_made(self, transport: Any) -> None:
        self.transport, peer = transport, transport.get_extra_info("peername")
        self.context = SimpleNamespace(
            protocol="http", address_family=2, address=peer, remote_ip=peer[0]
        )

    def connection_lost(self, error: Exception | None) -> None:
        if not self.written.done():
            self.written.set_exception(StreamClosedError())
            self.written.exception()  # it may have no waiter
        if self._exchange is not None and self._exchange.on_close is not None:
            self._exchange.on_close()

    def pause_writing(self) -> None:
        self.written: asyncio.Future[None] = self._loop.create_future()

    def resume_writing(self) -> None:
        if not self.written.done():
            self.written.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)  # what is no HTTP ends the connection

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", httputil.HTTPHeaders()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Validated by the parser: not once more by HTTPHeaders.add.
        key, text = _spelled(name), value.decode("latin-1")
        self._headers._as_list[key] = [text]
        self._headers._combined_cache[key] = text

    def on_headers_complete(self) -> None:
        version, url = f"HTTP/{self._parser.get_http_version()}", self._url.decode("latin-1")
        line = httputil.RequestStartLine(self._parser.get_method().decode(), url, version)
        self._exchange = exchange = Exchange(self)
        exchange.delegate = self._application.start_request(self, exchange)
        exchange.delegate.headers_received(line, self._headers)

    def on_body(self, body: bytes) -> None:
        self._exchange.delegate.data_received(body)

    def on_message_complete(self) -> None:
        self._exchange.delegate.finish()


class Exchange(httputil.HTTPConnection):
    """One request and its answer, as a handler sees its connection."""

    delegate: Any

    def __init__(self, front: Front) -> None:
        self._front, self.context = front, front.context
        self._is_chunked = False
        self.on_close: Callable[[], None] | None = None

    def set_close_callback(self, callback: Callable[[], None] | None) -> None:
        self.on_close = callback

    def write_headers(
        self, start_line: Any, headers: httputil.HTTPHeaders, chunk: bytes | None = None
    ) -> asyncio.Future[None]:
        self._is_chunked = "Content-Length" not in headers._as_list
        lines = [f"HTTP/1.1 {start_line.code} {start_line.reason}"]
        for name, values in headers._as_list.items():
            lines += [f"{name}: {value}" for value in values]
        if self._is_chunked:
            lines.append("Transfer-Encoding: chunked")
        head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        return self._put(head + self._framed(chunk) if chunk else head)

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        return self._put(self._framed(chunk)) if chunk else self._front.written

    def finish(self) -> None:
        self.on_close = None
        if self._is_chunked:
            self._put(b"0\r\n\r\n")

    def _framed(self, chunk: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._is_chunked else chunk

    def _put(self, data: bytes) -> asyncio.Future[None]:
        self._front.transport.write(data)
        return self._front.written


@cache
def _spelled(name: bytes) -> str:
    """The name as Tornado spells it; a benchmark's client sends few of them."""
    return "-".join(map(str.capitalize, name.decode().split("-")))


def _connections() -> Callable[[], Front]:
    routes = [(PATH, Completions, {"rooms": Rooms(*sys.argv[2:])})]
    # An access log would be the largest part of it.
    application = web.Application(routes, log_function=lambda handler: None)
    gc.set_threshold(50_000, 20, 50)
    return lambda: Front(application)


if __name__ == "__main__":
    serve(_connections)
