"""The base of every actor: a coroutine that owns one changing thing and works off its mailbox.

`ask` waits for a reply, `tell` does not. An actor's state is changed by its messages only, one at
a time, in the order in which they came; others see immutable answers. Restarting is the
supervisor's business.

A handler never waits. So while the mailbox is empty the next message needs no task to be switched
to: `try_ask` and `try_tell` handle it in the sender's turn, and say so when it has to wait instead
(`Mailbox.is_free`). A handler does not send to its own actor that way.

An actor whose work waits has a `run` of its own, and a mailbox that is never free: the ledger
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
    """Works off its mailbox, a batch at a time, until it is stopped."""

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
        """Leave a message without waiting. Raises ActorStopped."""
        self.mailbox.put(message)

    def try_tell(self, message: M) -> bool:
        """Have a message handled now; False when the mailbox is not idle: then `tell`.

        Raises what the handler raises.
        """
        if self.mailbox.is_free:
            self.handle(message)
            return True
        return False

    async def ask(self, message: M, *, timeouts: FutureTimeouts | None = None) -> Any:
        """Leave a message and wait for the reply, for as long as `timeouts` allows.

        Raises MailboxFull, ActorStopped, and the error of `timeouts`.
        """
        reply = asyncio.get_running_loop().create_future()
        self.mailbox.put(message, reply)
        if timeouts is not None:
            timeouts.begin(reply)
        try:
            return await reply
        except asyncio.CancelledError:
            # Answered and cancelled in the same turn of the loop: the reply never arrived.
            if reply.done() and not reply.cancelled() and reply.exception() is None:
                self.take_back(message, reply.result())
            raise
        finally:
            if timeouts is not None:
                timeouts.end(reply)

    def try_ask(self, message: M) -> Any:
        """Have a message answered now; None when the mailbox is not idle: then `ask`.

        Raises what the handler raises.
        """
        return self.handle(message) if self.mailbox.is_free else None

    async def run(self) -> None:
        """Work until cancelled, and then fail every waiting asker with ActorStopped."""
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
        """Handle a batch in order. An error in one message is its asker's, not the others'."""
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
        """Handle one message without waiting, and return its reply: not None if it is asked."""
        raise NotImplementedError

    def take_back(self, message: M, reply: Any) -> None:
        """The reply did not reach its asker: whatever it gave away is the actor's again."""

    def close(self) -> None:
        """Answer every waiting asker with ActorStopped, and take no more messages."""
        self.mailbox.close()
