"""python -m loadtests.bench.reference PORT UPSTREAM_HOST UPSTREAM_PORT: the bare proxy."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from contextlib import suppress

import ujson
import uvloop
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.trace import Tracer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from tornado import web
from tornado.iostream import StreamClosedError

from loadtests.bench.reference.client import Pool
from loadtests.bench.reference.server import Front

PATH = "/v1/chat/completions"
BACKLOG = 8192


class Mailbox:
    """Answers all that was asked in one turn of the loop in the next: an actor's least."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._asked: list[tuple[int, asyncio.Future[int]]] = []
        self._total = 0

    def ask(self, amount: int) -> asyncio.Future[int]:
        """Put an amount in; the answer is the total."""
        if not self._asked:
            self._loop.call_soon(self._answer)
        answer: asyncio.Future[int] = self._loop.create_future()
        self._asked.append((amount, answer))
        return answer

    def _answer(self) -> None:
        asked, self._asked = self._asked, []
        for amount, answer in asked:
            self._total += amount
            if not answer.done():
                answer.set_result(self._total)


class Rooms:
    """What a handler works with."""

    def __init__(self, host: str, port: int) -> None:
        registry = CollectorRegistry()
        labels = ("protocol", "status")
        self.calls = Counter("calls", "Calls.", labels, registry=registry).labels("chat", "200")
        self.seconds = Histogram("seconds", "Duration.", ("protocol",), registry=registry).labels(
            "chat"
        )
        self.in_flight = Gauge("in_flight", "Under way.", registry=registry)
        self.tracer: Tracer = TracerProvider(sampler=sampling.ALWAYS_OFF).get_tracer("bench")
        self.mailbox = Mailbox()
        self.pool = Pool(host, port)
        self.head = (
            f"POST {PATH} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            "Authorization: Bearer upstream\r\nContent-Length: "
        ).encode()


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
        asked = ujson.loads(self.request.body)
        await rooms.mailbox.ask(1)
        try:
            await self._forward(is_stream=bool(asked.get("stream")))
        finally:
            await rooms.mailbox.ask(-1)
            rooms.in_flight.dec()
            rooms.seconds.observe(time.perf_counter() - began)
            rooms.calls.inc()
            span.end()

    async def _forward(self, *, is_stream: bool) -> None:
        rooms, body = self._rooms, self.request.body
        upstream = await rooms.pool.take()
        try:
            await upstream.ask(b"%b%d\r\n\r\n" % (rooms.head, len(body)), body)
            if is_stream:
                self.set_header("Content-Type", "text/event-stream")
                while piece := await upstream.piece():
                    self.write(piece)
                    await self.flush()
                self.finish()
                return
            pieces = []
            while piece := await upstream.piece():
                pieces.append(piece)
            self.set_header("Content-Type", "application/json")
            self.finish(b"".join(pieces))
        finally:
            upstream.leave()


async def _serve(port: int, upstream_host: str, upstream_port: int) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    rooms = Rooms(upstream_host, upstream_port)
    routes = [(PATH, Completions, {"rooms": rooms})]
    # An access log would be the largest part of it.
    application = web.Application(routes, log_function=lambda handler: None)
    await loop.create_server(lambda: Front(application), "127.0.0.1", port, backlog=BACKLOG)
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    await stopped.wait()


def main() -> None:
    """Serve until told to end."""
    port, upstream_host, upstream_port = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(port), upstream_host, int(upstream_port)))


if __name__ == "__main__":
    main()
