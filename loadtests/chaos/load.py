"""The load: calls that come at random moments, at the same rate whatever becomes of them.

Beside them, when a fault wants it, clients that stop reading, and clients that send a byte
a second.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Sequence

from loadtests.chaos import calls
from loadtests.chaos.calls import Call, KindName, Sent
from loadtests.rig.async_connection import AsyncConnection
from loadtests.rig.own_time import OwnTime

HOST = "127.0.0.1"
KEPT_RATIO = 0.5  # of the calls that take a connection which another has left open
# A client whose picture or film came to nothing asks so often again, under the same key.
TRIES, AGAIN_SECONDS = 5, 1.0
# So many calls in a row that were begun after a fault must be answered.
WELL_CALLS = 20
WELL_SECONDS = 30.0


class Load:
    """Everything that clients do. `calls` is all that they have sent, in that order."""

    def __init__(self, port: int, keys: Sequence[str], rng: random.Random, rate: float) -> None:
        self._port, self._keys, self._rng, self._rate = port, keys, rng, rate
        self._numbers = itertools.count(1)
        self._idle: list[AsyncConnection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._coming: asyncio.Task[None] | None = None
        self.calls: list[Call] = []
        self.strangers = 0  # connections that sent something else than a call
        self.leave_ratio = 0.0  # of the calls whose clients leave, however far they have come

    def start(self) -> None:
        """Let calls come from now on, the first time or once more."""
        self._coming = asyncio.create_task(self._come())

    async def end(self) -> None:
        """Let no more come, and wait for the last."""
        assert self._coming is not None
        self._coming.cancel()
        await asyncio.wait([self._coming])
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks)
            for task in done:
                task.result()
        while self._idle:
            await self._idle.pop().close()

    async def until_well(self, since: float, own_time: OwnTime) -> float | None:
        """Wait until calls begun after that moment are answered one after the other.

        Returns how many seconds after it the first of them was begun, None when they never are.
        """

        async def is_well() -> bool:
            return self._well_since(since) is not None

        await own_time.until(is_well, WELL_SECONDS)
        began_at = self._well_since(since)
        return None if began_at is None else began_at - since

    def number(self) -> int:
        """The number of a call that is made beside these."""
        return next(self._numbers)

    def key(self) -> str:
        """Anybody's key."""
        return self._rng.choice(self._keys)

    def begin(self, kind: KindName, number: int, sent: Sent) -> Call:
        """A call that is about to be sent."""
        call = Call(number, kind, sent, time.monotonic())
        self.calls.append(call)
        return call

    def _well_since(self, since: float) -> float | None:
        first = None
        count = 0
        for call in self.calls:
            if call.began_at < since or call.is_keyed:
                continue
            if call.end == "nothing" and not call.is_over:
                break
            count = count + 1 if call.outcome == "answered" else 0
            first = (first or call.began_at) if count else None
            if count == WELL_CALLS:
                return first
        return None

    async def _come(self) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(self._rate))
            task = asyncio.create_task(self._call())
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._tasks.discard(task)  # else `end` raises what went wrong

    async def _call(self) -> None:
        kind, number, key = calls.choose(self._rng), self.number(), self.key()
        sent = calls.make(kind, number, self._rng)
        for _ in range(TRIES if sent.idempotency_key else 1):
            call = self.begin(kind, number, sent)
            await self._send(call, sent.encode(key))
            call.is_over, call.ended_at = True, time.monotonic()
            if call.outcome in ("answered", "left"):
                break
            await asyncio.sleep(AGAIN_SECONDS)

    async def _send(self, call: Call, request: bytes) -> None:
        connection = await self._connection()
        if connection is None:
            return
        leaves = self._rng.random() < self.leave_ratio
        try:
            async with asyncio.timeout(self._rng.random() if leaves else None):
                call.end = await calls.exchange(connection, request, call.response)
        except TimeoutError:
            call.end = "left"
            connection.leave()
        if connection.is_open:
            self._idle.append(connection)

    async def _connection(self) -> AsyncConnection | None:
        """One that was left open, or a new one; None without a listener."""
        if self._rng.random() < KEPT_RATIO:
            while self._idle:
                kept = self._idle.pop(self._rng.randrange(len(self._idle)))
                if kept.is_open:
                    return kept
                kept.leave()
        try:
            return await AsyncConnection.open(HOST, self._port)
        except OSError:
            return None


COUNT = 20
RECEIVE_BYTES = 4096
BYTE_SECONDS = 1.0
# An endless stream costs what was delivered until its client left.
ANY_PRICE = 10**12


async def read_nothing(load: Load, port: int, seconds: float) -> None:
    """So many ask for streams without end and read nothing of them, then leave."""
    connections = []
    for _ in range(COUNT):
        connection = await AsyncConnection.open(
            HOST, port, receive_buffer_bytes=RECEIVE_BYTES, reads=False
        )
        connections.append(connection)
        number = load.number()
        sent = calls.conversation("stream", number, endless=True)._replace(price_nano_usd=ANY_PRICE)
        call = load.begin("stream", number, sent)
        call.end, call.is_over = "left", True
        connection.writer.write(sent.encode(load.key()))
    await asyncio.sleep(seconds)
    for connection in connections:
        connection.leave()


async def dribble(load: Load, port: int, seconds: float) -> None:
    """So many send the head of a request a byte a second, as many its body; then they leave."""
    whole = calls.conversation("chat", load.number()).encode(load.key())
    head_bytes = whole.index(b"\r\n\r\n") + 4
    load.strangers += 2 * COUNT
    begun = [b""] * COUNT + [whole[:head_bytes]] * COUNT
    await asyncio.gather(*(_dribble(port, whole, sent, seconds) for sent in begun))


async def _dribble(port: int, request: bytes, begun: bytes, seconds: float) -> None:
    connection = await AsyncConnection.open(HOST, port)
    connection.writer.write(begun)
    for at in range(round(seconds / BYTE_SECONDS)):
        if not connection.is_open:
            break
        connection.writer.write(request[len(begun) + at : len(begun) + at + 1])
        await asyncio.sleep(BYTE_SECONDS)
    connection.leave()
