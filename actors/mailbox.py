"""A bounded queue of messages for one reader, and what it takes to answer an ask.

The reader takes everything that waits at once, which is what makes batching natural: while one
batch is worked on, the next gathers. A waiter that has gone away is never handed a resource: see
`Envelope.resolve`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Generic, TypeVar

from actors.clock import Clock

M = TypeVar("M")

# Past this many waiting messages the reader is not keeping up, and answering at once is kinder
# than a queue whose end comes too late for its clients.
DEFAULT_CAPACITY = 100_000


class MailboxFull(Exception):
    """Too many messages wait for this actor."""


class ActorStopped(Exception):
    """The actor has stopped; no reply will come."""


class Envelope(Generic[M]):
    """A message, when it came, and where its reply goes (nowhere, for a tell)."""

    __slots__ = ("message", "put_at", "reply")

    def __init__(self, message: M, put_at: float, reply: asyncio.Future[Any] | None) -> None:
        self.message = message
        self.put_at = put_at
        self.reply = reply

    def resolve(self, value: object) -> bool:
        """Deliver the reply; False when the asker has gone and the value is still the actor's."""
        if self.reply is None or self.reply.done():
            return False
        self.reply.set_result(value)
        return True

    def fail(self, error: Exception) -> bool:
        """Deliver an error instead of a reply; False when the asker has gone."""
        if self.reply is None or self.reply.done():
            return False
        self.reply.set_exception(error)
        return True


class Mailbox(Generic[M]):
    """Messages waiting for one reader, oldest first.

    `is_free` is the fast path: a message may be handled now, in the sender's turn, when
    nothing waits. The reader handles what it has taken without a break, so all that came before has
    then been handled, and the order is the same as by `put`.
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
        """Leave a message. Raises MailboxFull to an asker, and ActorStopped after `close`.

        A message without a reply is taken above the capacity too: it is owed (a lease that comes
        back), and there is never more of it than had been handed out.
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
        """Wait until something is here, then take all of it."""
        while not self._waiting:
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        taken = list(self._waiting)
        self._waiting.clear()
        self.is_free = not self._closed
        return taken

    def close(self) -> None:
        """Refuse further messages and fail every waiting asker."""
        self._closed = True
        self.is_free = False
        while self._waiting:
            self._waiting.popleft().fail(ActorStopped())
