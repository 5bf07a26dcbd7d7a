"""The base of every actor: a coroutine that owns one changing thing and works off its mailbox.

`ask` waits for an answer, `tell` does not. An actor's state is touched by its own coroutine only;
others see messages and immutable answers. Restarting is the supervisor's business.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Generic, TypeVar

from actors.clock import Clock
from actors.mailbox import DEFAULT_CAPACITY, Envelope, Mailbox
from metrics.logs import EventLog
from metrics.prometheus import Metrics

M = TypeVar("M")


class Actor(Generic[M]):
    """Works off its mailbox, a batch at a time, until it is stopped."""

    kind: ClassVar[str] = "actor"

    def __init__(self, *, clock: Clock, metrics: Metrics, capacity: int = DEFAULT_CAPACITY) -> None:
        self.clock = clock
        self.metrics = metrics
        self.log = EventLog(f"actors.{self.kind}")
        self.mailbox: Mailbox[M] = Mailbox(clock, capacity=capacity)

    def tell(self, message: M) -> None:
        """Leave a message without waiting. Raises ActorStopped."""
        self.mailbox.put(message)

    async def ask(self, message: M) -> Any:
        """Leave a message and wait for the answer. Raises MailboxFull or ActorStopped."""
        reply = asyncio.get_running_loop().create_future()
        self.mailbox.put(message, reply)
        return await reply

    async def run(self) -> None:
        """Work until cancelled, and then answer whoever still waits with ActorStopped."""
        try:
            while True:
                batch = await self.mailbox.take_all()
                self.metrics.mailbox(
                    actor=self.kind,
                    depth=len(batch),
                    wait_seconds=self.clock.monotonic() - batch[0].put_at,
                )
                self.handle_all(batch)
        except asyncio.CancelledError:
            self.close()
            raise

    def catch_up(self) -> None:
        """Handle what waits, now: for an actor that answers in its caller's turn of the loop.

        Raises ActorStopped.
        """
        waiting = self.mailbox.take()
        if waiting:
            self.handle_all(waiting)

    def handle_all(self, batch: list[Envelope[M]]) -> None:
        """Handle a batch in order. An error in one message is its asker's, not the others'."""
        for envelope in batch:
            try:
                self.handle(envelope)
            except Exception as error:
                self.log.error("message_failed", exc_info=True, actor=repr(self))
                envelope.fail(error)

    def handle(self, envelope: Envelope[M]) -> None:
        """Handle one message; answer it when it was asked."""
        raise NotImplementedError

    def close(self) -> None:
        """Answer every waiting asker with ActorStopped, and take no more messages."""
        self.mailbox.close()
