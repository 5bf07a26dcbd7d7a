"""A mailbox in which messages wait in lanes, so that none keeps the others waiting.

Within a lane the oldest comes first; among the lanes they take turns. Its reader waits between one
batch and the next, so nothing is ever handled in the sender's turn (`is_free`).

What somebody waits for wakes the reader at once. What nobody waits for goes along with the next
that somebody does, by itself after a moment.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from actors.clock import Clock
from actors.mailbox import ActorStopped, Envelope, Mailbox, MailboxFull

M = TypeVar("M")


class Lanes(Mailbox[M], Generic[M]):
    """`lane_of` names the lane of a message; `company_seconds` is how long a told one waits."""

    __slots__ = (
        "_company_seconds",
        "_departure",
        "_lane_of",
        "_lanes",
        "_ready",
        "_size",
        "_turns",
    )

    def __init__(
        self,
        clock: Clock,
        *,
        capacity: int,
        lane_of: Callable[[M], str],
        company_seconds: float,
    ) -> None:
        super().__init__(clock, capacity=capacity)
        self.is_free = False
        self._lane_of = lane_of
        self._company_seconds = company_seconds
        self._lanes: dict[str, deque[Envelope[M]]] = {}  # those in which something waits
        self._turns: deque[tuple[str, deque[Envelope[M]]]] = deque()
        self._size = 0
        self._ready = asyncio.Event()  # something shall be taken now
        self._departure: asyncio.TimerHandle | None = None  # of what waits for company

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Envelope[M]]:
        """Iterate over all that waits."""
        for _, lane in self._turns:
            yield from lane

    def length_of(self, lane: str) -> int:
        """How many messages wait in a lane."""
        return len(self._lanes.get(lane, ()))

    def put(self, message: M, reply: asyncio.Future[Any] | None = None) -> None:
        if self._closed:
            raise ActorStopped
        if reply is not None and self._size >= self._capacity:
            raise MailboxFull
        envelope = Envelope(message, self._clock.monotonic(), reply)
        name = self._lane_of(message)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = deque()
            self._turns.append((name, lane))
        lane.append(envelope)
        self._size += 1
        if self._ready.is_set():
            return
        if reply is not None:
            self._ready.set()
        elif self._departure is None:
            loop = asyncio.get_running_loop()
            self._departure = loop.call_later(self._company_seconds, self._depart)

    async def ready(self) -> None:
        """Wait until something shall be taken."""
        await self._ready.wait()

    def next(self) -> Envelope[M] | None:
        """The message whose turn it is, to be looked at; None when nothing waits."""
        return self._turns[0][1][0] if self._turns else None

    def take_next(self) -> Envelope[M] | None:
        """Take the message whose turn it is; None when nothing waits."""
        if not self._turns:
            return None
        turn = self._turns.popleft()
        name, lane = turn
        envelope = lane.popleft()
        self._size -= 1
        if lane:
            self._turns.append(turn)
        else:
            del self._lanes[name]
            if not self._turns:
                self._ready.clear()
        return envelope

    async def take_all(self) -> list[Envelope[M]]:
        """Wait until something shall be taken, then take all of it, in turns."""
        await self._ready.wait()
        taken = []
        while (envelope := self.take_next()) is not None:
            taken.append(envelope)
        return taken

    def close(self) -> None:
        self._closed = True
        while (envelope := self.take_next()) is not None:
            envelope.fail(ActorStopped())

    def _depart(self) -> None:
        self._departure = None
        if self._turns:
            self._ready.set()
