"""The base of every actor: a coroutine that owns some mutable state and processes its mailbox.

`ask` waits for a reply, `tell` does not. An actor's state is changed by its messages only, one at
a time, in the order of arrival; replies are immutable. Restarts are the supervisor's task.

A handler never waits. An actor may therefore handle what waits (`Mailbox.take_waiting`), and then
what its caller wants, in the caller's turn, without a task switch (`channel.py`). A handler does
not call its own actor that way.

An actor whose handling awaits has its own `run` and a mailbox that is never free: the ledger
writer (`wallet/writer.py`).
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Generic, TypeVar

from actors.clock import Clock
from actors.mailbox import Envelope, Mailbox
from channels.deadlines import FutureTimeouts
from metrics.logs import EventLog
from metrics.prometheus import Metrics

M = TypeVar("M")


class Actor(Generic[M]):
    """Processes its mailbox, a batch at a time, until it is stopped."""

    kind: ClassVar[str] = "actor"

    mailbox: Mailbox[M]

    def __init__(
        self, *, clock: Clock, metrics: Metrics, mailbox: Mailbox[M] | None = None
    ) -> None:
        self.clock = clock
        self.metrics = metrics
        self.log = EventLog(f"actors.{self.kind}")
        self.mailbox = mailbox if mailbox is not None else Mailbox(clock)

    def tell(self, message: M) -> None:
        """Queue a message without waiting for a reply. Raises ActorStopped."""
        self.mailbox.put(message)

    async def ask(self, message: M, *, timeouts: FutureTimeouts | None = None) -> Any:
        """Queue a message and wait for the reply, for as long as `timeouts` allows.

        Raises MailboxFull, ActorStopped, and the error of `timeouts`.
        """
        reply = asyncio.get_running_loop().create_future()
        self.mailbox.put(message, reply)
        if timeouts is not None:
            timeouts.begin(reply)
        try:
            return await reply
        except asyncio.CancelledError:
            # Resolved and cancelled in the same turn of the loop: the reply was not received.
            if reply.done() and not reply.cancelled() and reply.exception() is None:
                self.take_back(message, reply.result())
            raise
        finally:
            if timeouts is not None:
                timeouts.end(reply)

    async def run(self) -> None:
        """Process messages until cancelled, then fail every waiting ask with ActorStopped."""
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

    def handle_all(self, batch: list[Envelope[M]]) -> None:
        """Handle a batch in order. An error of one message fails only its own ask."""
        for envelope in batch:
            try:
                reply = self.handle(envelope.message)
            except Exception as error:
                self.log.error("message_failed", exc_info=True, actor=repr(self))
                envelope.fail(error)
            else:
                if not envelope.resolve(reply) and envelope.reply is not None:
                    self.take_back(envelope.message, reply)

    def handle(self, message: M) -> Any:
        """Handle one message without waiting and return its reply, which is not None for an ask."""
        raise NotImplementedError

    def take_back(self, message: M, reply: Any) -> None:
        """Reclaim what an undelivered reply granted."""

    def close(self) -> None:
        """Fail every waiting ask with ActorStopped and refuse further messages."""
        self.mailbox.close()
