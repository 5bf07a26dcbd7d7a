"""A bounded queue of messages for one reader, with the replies to asks.

The reader takes all waiting messages at once, so that batches form by themselves: the next one
gathers while one is handled. A resource is never handed to a waiter that has been cancelled: see
`Envelope.resolve`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from msgspec import Struct

from actors.clock import Clock

M = TypeVar("M")
# With more waiting messages the reader does not keep up, and an immediate refusal is better than a
# reply that comes after the client's timeout.
DEFAULT_CAPACITY = 100_000


class MailboxFull(Exception):
    """Too many messages wait for this actor."""


class ActorStopped(Exception):
    """The actor has stopped and will not reply."""


class Envelope(Struct, Generic[M], eq=False):
    """A message, its arrival time, and the future of its reply (None for `tell`)."""

    message: M
    put_at: float
    reply: asyncio.Future[Any] | None

    def resolve(self, value: object) -> bool:
        """Deliver the reply; False when the asker was cancelled: the actor keeps the value."""
        if self.reply is None or self.reply.done():
            return False
        self.reply.set_result(value)
        return True

    def fail(self, error: Exception) -> bool:
        """Deliver an error instead of a reply; False when the asker was cancelled."""
        if self.reply is None or self.reply.done():
            return False
        self.reply.set_exception(error)
        return True


class Mailbox(Generic[M]):
    """Messages waiting for one reader, oldest first.

    `is_free`: none waits, and it is open. The reader handles a batch without awaiting, so all
    earlier messages have been handled by then: what is handled in a caller's turn is in order.
    """

    __slots__ = ("_capacity", "_clock", "_closed", "_waiting", "_wake", "is_free")

    def __init__(self, clock: Clock, *, capacity: int = DEFAULT_CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._waiting: deque[Envelope[M]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._closed = False
        self.is_free = True

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: M, reply: asyncio.Future[Any] | None = None) -> None:
        """Queue a message. Raises MailboxFull for an ask, and ActorStopped after `close`.

        A message without a reply is accepted above the capacity too: it returns something (a
        lease), and there are never more of these than were granted.
        """
        if self._closed:
            raise ActorStopped
        if reply is not None and len(self._waiting) >= self._capacity:
            raise MailboxFull
        self._waiting.append(Envelope(message, self._clock.monotonic(), reply))
        self.is_free = False
        wake = self._wake
        if wake is not None and not wake.done():
            wake.set_result(None)

    async def take_all(self) -> list[Envelope[M]]:
        """Wait until there is a message, then take all of them."""
        while not self._waiting:
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        return self.take_waiting()

    def take_waiting(self) -> list[Envelope[M]]:
        """Take all messages that wait now. Raises ActorStopped after `close`."""
        if self._closed:
            raise ActorStopped
        taken = list(self._waiting)
        self._waiting.clear()
        self.is_free = True
        return taken

    def close(self) -> None:
        """Refuse further messages and fail every waiting ask."""
        self._closed = True
        self.is_free = False
        while self._waiting:
            self._waiting.popleft().fail(ActorStopped())


class KeyedMailbox(Mailbox[M], Generic[M]):
    """A mailbox with a queue for each key, so that none blocks the others.

    A queue is first in, first out; the queues take turns. The reader awaits between batches, so
    nothing is handled in the sender's turn (`is_free`). `key_of` names the queue of a message.

    A message with a waiting caller wakes the reader at once, and so does the `full`th that waits.
    Others are taken along with the next one of these, or when the first of them has waited for its
    linger time: `linger` returns that of a message in seconds.
    """

    __slots__ = (
        "_departure",
        "_full",
        "_key_of",
        "_linger",
        "_queues",
        "_ready",
        "_shortest",
        "_size",
        "_turns",
    )

    def __init__(
        self,
        clock: Clock,
        *,
        capacity: int,
        key_of: Callable[[M], str],
        linger: Callable[[M], float],
        full: int,
    ) -> None:
        super().__init__(clock, capacity=capacity)
        self.is_free = False
        self._key_of = key_of
        self._linger = linger
        self._full = full
        self._queues: dict[str, deque[Envelope[M]]] = {}  # the queues that are not empty
        self._turns: deque[tuple[str, deque[Envelope[M]]]] = deque()
        self._size = 0
        self._ready = asyncio.Event()  # messages should be taken now
        self._departure: asyncio.TimerHandle | None = None  # end of the linger time
        self._shortest = 0.0  # linger time of those that wait for it

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Envelope[M]]:
        """Iterate over all waiting messages."""
        for _, queue in self._turns:
            yield from queue

    def length_of(self, queue: str) -> int:
        """Return how many messages wait in a queue."""
        return len(self._queues.get(queue, ()))

    def put(self, message: M, reply: asyncio.Future[Any] | None = None) -> None:
        if self._closed:
            raise ActorStopped
        if reply is not None and self._size >= self._capacity:
            raise MailboxFull
        name = self._key_of(message)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = deque()
            self._turns.append((name, queue))
        queue.append(Envelope(message, self._clock.monotonic(), reply))
        self._size += 1
        if reply is not None or self._size >= self._full:
            self._ready.set()
        elif not self._ready.is_set():
            seconds = self._linger(message)
            if self._departure is None or seconds < self._shortest:
                self._shortest = seconds
                self._depart_in(seconds)

    def wake(self) -> None:
        """Wake the reader, though no message waits for it."""
        self._ready.set()

    async def ready(self) -> None:
        """Wait until messages should be taken."""
        await self._ready.wait()

    def next(self) -> Envelope[M] | None:
        """Return the message whose turn it is without taking it; None when no message waits."""
        return self._turns[0][1][0] if self._turns else None

    def take_next(self) -> Envelope[M] | None:
        """Take the message whose turn it is; None when no message waits."""
        if not self._size:
            self._ready.clear()
            if self._departure is not None:
                self._departure.cancel()
                self._departure = None
            return None
        name, queue = self._turns[0]
        envelope = queue.popleft()
        self._size -= 1
        if queue:
            self._turns.rotate(-1)
        else:
            self._turns.popleft()
            del self._queues[name]
        return envelope

    def put_back(self, envelope: Envelope[M]) -> None:
        """Make the message that was taken last the next one again."""
        name = self._key_of(envelope.message)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = deque()
            self._turns.appendleft((name, queue))
        else:
            self._turns.rotate(1)
        queue.appendleft(envelope)
        self._size += 1

    async def take_all(self) -> list[Envelope[M]]:
        """Wait until messages should be taken, then take all of them, in turns."""
        await self._ready.wait()
        taken = []
        while (envelope := self.take_next()) is not None:
            taken.append(envelope)
        return taken

    def close(self) -> None:
        self._closed = True
        while (envelope := self.take_next()) is not None:
            envelope.fail(ActorStopped())

    def _depart_in(self, seconds: float) -> None:
        """Wake the reader after this time, unless it wakes before."""
        loop = asyncio.get_running_loop()
        if self._departure is not None:
            if self._departure.when() <= loop.time() + seconds:
                return
            self._departure.cancel()
        self._departure = loop.call_later(seconds, self._depart)

    def _depart(self) -> None:
        self._departure = None
        if self._turns:
            self._ready.set()
