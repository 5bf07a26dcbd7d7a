"""What the processes of one gateway share through their parent."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.clock import SystemClock
from actors.limits.limiter import Limiter
from actors.limits.shared import SharedLimits
from actors.parent.backend import ParentBackend
from actors.parent.link import ParentLink
from actors.parent.protocol import LINE_BYTES_MAX
from actors.parent.server import ParentServer
from actors.parent.windows import SharedWindows
from metrics.prometheus import Metrics
from tests.support.aio import eventually, run, waited
from tests.support.clock import FakeClock
from tests.support.logs import logs

A = "acct_a"


class Worker:
    """The limits of one worker; `socket` is its parent's end until the parent takes it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.metrics = Metrics()
        clock = SystemClock()
        self.link = ParentLink(theirs)
        backend = ParentBackend(self.link)
        self.shared = SharedLimits(backend=backend, clock=clock, metrics=self.metrics)
        self.limiter = Limiter(clock=clock, shared=self.shared)
        self.running: asyncio.Task[None]

    async def begin(self) -> None:
        await self.link.open()
        await self.shared.start()
        self.running = asyncio.create_task(self.shared.run())

    async def end(self) -> None:
        """As a killed process: the kernel closes its socket, and nothing is said."""
        self.running.cancel()
        await asyncio.wait([self.running])
        await self.link.close()

    async def refused(
        self, *, rpm: int | None = None, concurrency: int | None = None
    ) -> str | None:
        standing, _ = await waited(self.limiter.enter(A, rpm=rpm, concurrency=concurrency))
        return standing.refused

    @property
    def is_degraded(self) -> bool:
        return "gw_limits_degraded 1.0" in self.metrics.render("")[0].decode()


@asynccontextmanager
async def workers(server: ParentServer, count: int) -> AsyncIterator[list[Worker]]:
    before = server.workers
    made = [Worker() for _ in range(count)]
    for worker in made:
        await server.attach(worker.socket)
        await worker.begin()
    try:
        yield made
    finally:
        for worker in made:
            await worker.end()
        await eventually(lambda: server.workers == before)


@logs("parent_lost")
async def test_worker_goes_on_alone_while_the_parent_is_silent_and_tells_it_all_later() -> None:
    server = ParentServer(SystemClock())
    lonely = Worker()
    await lonely.begin()  # and nobody reads the other end
    assert lonely.is_degraded
    assert [await lonely.refused(rpm=3, concurrency=2) for _ in range(3)] == [
        None,
        None,
        "concurrency",
    ]
    await server.attach(lonely.socket)
    await eventually(lambda: lonely.shared.is_up)
    assert not lonely.is_degraded
    async with workers(server, 1) as (other,):
        assert await other.refused(rpm=3, concurrency=2) == "concurrency"
        assert await other.refused(rpm=2, concurrency=9) == "rpm"
        assert await other.refused(rpm=3, concurrency=9) is None
    await lonely.end()


async def test_request_that_was_given_up_holds_nothing() -> None:
    async with workers(ParentServer(SystemClock()), 1) as (one,):
        entering = asyncio.create_task(waited(one.limiter.enter(A, rpm=None, concurrency=1)))
        await asyncio.sleep(0)  # it is on its way
        entering.cancel()
        await asyncio.wait([entering])
        assert await one.refused(concurrency=1) is None


@logs("worker_refused")
@pytest.mark.parametrize(
    "line", [b"not json\n", b'[1,["limits",[[7]]]]\n', b"x" * (LINE_BYTES_MAX + 1)]
)
async def test_worker_that_says_what_cannot_be_read_is_let_go(line: bytes) -> None:
    server = ParentServer(SystemClock())
    ours, theirs = socket.socketpair()
    await server.attach(ours)
    theirs.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(theirs, line)
    await eventually(lambda: server.workers == 0)
    theirs.close()


@logs("worker_refused")
def test_worker_that_reads_no_answers_is_let_go() -> None:
    async def main() -> None:
        server = ParentServer(FakeClock())
        ours, theirs = socket.socketpair()
        await server.attach(ours)
        theirs.setblocking(False)
        line = b'[1,["limits",[' + b",".join([b'["enter","a",1,1,null]'] * 10_000) + b"]]]\n"
        sending = asyncio.create_task(asyncio.wait_for(flood(theirs, line), 60))
        await eventually(lambda: server.workers == 0)
        await asyncio.wait([sending])
        assert isinstance(sending.exception(), OSError)
        theirs.close()

    async def flood(sock: socket.socket, line: bytes) -> None:
        while True:
            await asyncio.get_running_loop().sock_sendall(sock, line)

    run(main())


def test_names_that_nobody_uses_are_forgotten() -> None:
    book = SharedWindows()
    for number in range(300):
        book.enter(f"name_{number}", (1, number), rpm=5, concurrency=5, now=0.0)
    book.drop_permits(1)
    assert "300 names" in repr(book)
    for _ in range(70):
        book.forget_idle(61.0)
    assert "0 names" in repr(book)


def test_requests_reported_late_take_their_place_in_the_window() -> None:
    book = SharedWindows()
    book.enter("a", (1, 1), rpm=3, concurrency=None, now=50.0)
    book.add_late("a", (2, 1), at=30.0)
    book.add_late("a", (1, 1), at=10.0)  # known already: its own time stays
    standing = book.enter("a", (1, 2), rpm=2, concurrency=None, now=60.0)
    assert (standing.refused, standing.retry_seconds) == ("rpm", 30.0)
    book.release("a", (1, 1), from_window=True)
    assert book.enter("a", (1, 3), rpm=2, concurrency=None, now=60.0).refused is None
