"""The ledger writer of a process: one connection, one transaction at a time, many accounts in it.

It is the actor of all wallets. Messages of an account wait in a queue of their own of its
mailbox: each account's holds and settlements keep their order, none keeps the others waiting.

While a transaction is under way the next batch gathers, and under load for a moment longer, so the
cost of a call falls as load rises (group commit). Messages without a waiting caller ride along with
those that have one. Money SQL runs here and nowhere else, in this coroutine, which no client's
disconnect can cancel: cancelling a running statement would close the connection and leave its
outcome unknown.

When the database goes away the batch is sent again until it is back; applying it twice changes
nothing, or, where leases are concerned, its number shows whether it was applied. A server that was
only frozen is first made to end the session that may still be running it. Holds do not wait for
that: their askers give up (`wallets.py`), what may have been granted unseen is voided, and what was
never sent is forgotten.

A hold whose caller has left or was refused is never kept: if it is granted after all, by a
batch that took long or by one whose reply was lost, a `Void` follows and gives it back. Should the
process be declared dead or die in between, recovery gives it back; the call's row is the one that
has what its client received, whichever of the two was first (`ledger_batch`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from msgspec.structs import replace

from actors.actor import DEFAULT_CAPACITY, Actor, ActorStopped, Envelope, Mailbox, MailboxFull
from actors.clock import Clock
from actors.process import ProcessIdentity, reregister
from actors.store.connection import StoreUnavailable
from actors.store.database import Database, Session
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.leases import Leases
from actors.wallet.ledger import leases_of, take_over, was_applied
from actors.wallet.messages import (
    Admitted,
    Barrier,
    Granted,
    Hold,
    KeptResponse,
    LeaseChange,
    LedgerUnavailable,
    Message,
    Record,
    Refused,
    ResponseTooLarge,
    Settle,
    Taken,
    Void,
)
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# A mailbox in which messages wait in queues, so that none keeps the others waiting.
#
# Within a queue the oldest comes first; among the queues they take turns. Its reader waits between
# one batch and the next, so nothing is ever handled in the sender's turn (`is_free`).
#
# A message whose caller waits wakes the reader at once. Others go along with the next such one, or
# by themselves after a moment.

M = TypeVar("M")


class KeyedMailbox(Mailbox[M], Generic[M]):
    """`key_of` names the queue of a message.

    `linger_seconds` is how long one without a caller waits.
    """

    __slots__ = (
        "_departure",
        "_key_of",
        "_linger_seconds",
        "_queues",
        "_ready",
        "_size",
        "_turns",
    )

    def __init__(
        self,
        clock: Clock,
        *,
        capacity: int,
        key_of: Callable[[M], str],
        linger_seconds: float,
    ) -> None:
        super().__init__(clock, capacity=capacity)
        self.is_free = False
        self._key_of = key_of
        self._linger_seconds = linger_seconds
        self._queues: dict[str, deque[Envelope[M]]] = {}  # those in which something waits
        self._turns: deque[tuple[str, deque[Envelope[M]]]] = deque()
        self._size = 0
        self._ready = asyncio.Event()  # something shall be taken now
        self._departure: asyncio.TimerHandle | None = None  # of what waits for company

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Envelope[M]]:
        """Iterate over all that waits."""
        for _, queue in self._turns:
            yield from queue

    def length_of(self, queue: str) -> int:
        """How many messages wait in a queue."""
        return len(self._queues.get(queue, ()))

    def put(self, message: M, reply: asyncio.Future[Any] | None = None) -> None:
        if self._closed:
            raise ActorStopped
        if reply is not None and self._size >= self._capacity:
            raise MailboxFull
        envelope = Envelope(message, self._clock.monotonic(), reply)
        name = self._key_of(message)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = deque()
            self._turns.append((name, queue))
        queue.append(envelope)
        self._size += 1
        if self._ready.is_set():
            return
        if reply is not None:
            self._ready.set()
        elif self._departure is None:
            loop = asyncio.get_running_loop()
            self._departure = loop.call_later(self._linger_seconds, self._depart)

    def wake(self) -> None:
        """Let the reader look, though no message waits for it."""
        self._ready.set()

    async def ready(self) -> None:
        """Wait until something shall be taken."""
        await self._ready.wait()

    def next(self) -> Envelope[M] | None:
        """The message whose turn it is, to be looked at; None when nothing waits."""
        return self._turns[0][1][0] if self._turns else None

    def take_next(self) -> Envelope[M] | None:
        """Take the message whose turn it is; None when nothing waits."""
        if not self._turns:
            self._ready.clear()
            return None
        turn = self._turns.popleft()
        name, queue = turn
        envelope = queue.popleft()
        self._size -= 1
        if queue:
            self._turns.append(turn)
        else:
            del self._queues[name]
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


# Measured: a larger batch buys little CPU and costs latency.
BATCH_MAX = 256
# A transaction costs as much as some ten calls in it. After a large batch the next may therefore
# gather for a moment, the longer the more came; where few come, no hold is kept waiting.
BATCH_THRESHOLD = 20
GATHER_PER_MESSAGE = 75e-6  # seconds
GATHER_MAX_SECONDS = 0.003
# A settlement or a row is not awaited: it goes with the next hold, by itself after so long.
LINGER_SECONDS = 0.002
# Responses to be kept under idempotency keys make a batch heavy: past this, the next takes the
# rest.
RESPONSE_BYTES_MAX = 2 * 1024 * 1024
# Messages that are not awaited are owed and taken above this too; who asks is counted by `Wallets`.
CAPACITY = DEFAULT_CAPACITY
BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 1.0

Work = Envelope[Message]


class BatchNumbers:
    """Numbers the batches that may not be applied twice.

    `unanswered` is the number and identity of one whose reply is missing: it may have been applied.
    """

    __slots__ = ("last", "unanswered")

    def __init__(self) -> None:
        self.last = 0
        self.unanswered: tuple[int, str] | None = None

    def send(self, identity: str) -> int:
        """The number of a batch that is sent now."""
        self.last += 1
        self.unanswered = self.last, identity
        return self.last


class LedgerWriter(Actor[Message]):
    """Applies messages of accounts, in batches; each account's in their order."""

    kind: ClassVar[str] = "ledger"
    mailbox: KeyedMailbox[Message]

    def __init__(
        self,
        *,
        database: Database,
        identity: ProcessIdentity,
        clock: Clock,
        metrics: Metrics,
        timeout_seconds: float = 5.0,
    ) -> None:
        mailbox = KeyedMailbox(
            clock, capacity=CAPACITY, key_of=account_of, linger_seconds=LINGER_SECONDS
        )
        super().__init__(clock=clock, metrics=metrics, mailbox=mailbox)
        self.log = EventLog("actors.wallet.writer")
        self._database = database
        self._identity = identity
        self._timeout_seconds = timeout_seconds
        self._batch: list[Work] = []  # under way
        self._numbers = BatchNumbers()
        self.leases = Leases(identity=identity, clock=clock, tell=self.tell, wake=self.mailbox.wake)
        self._session: Session | None = None
        # How long the oldest hold or settlement has waited that the last batch had no room for.
        self.backlog_seconds = 0.0
        self.on_balance: Callable[[str, int], None] = lambda _account, _available: None
        self.on_settled: Callable[[UUID], None] = lambda _call: None

    def __repr__(self) -> str:
        state = "connected" if self._session is not None else "unconnected"
        return f"<LedgerWriter {state} {len(self._batch)} under way {len(self.mailbox)} waiting>"

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self.mailbox and not self._batch and not len(self.leases)

    def unsettled(self) -> set[UUID]:
        """Ids of calls whose hold or settlement is waiting or under way."""
        messages = (e.message for e in chain(self.mailbox, self._batch))
        ids = {m.facts.call_id for m in messages if not isinstance(m, Barrier | LeaseChange)}
        return ids.union(self.leases.calls())

    async def run(self) -> None:
        """Apply batches until cancelled."""
        try:
            while True:
                if self._batch:  # a restart after an unexpected error goes on where it stopped
                    await self._finish(self._batch)
                    size, self._batch = len(self._batch), []
                    if size >= BATCH_THRESHOLD:
                        await self.clock.sleep(min(size * GATHER_PER_MESSAGE, GATHER_MAX_SECONDS))
                await self.mailbox.ready()
                self._batch = self._gather()
        finally:
            # The mailbox stays open: no waiting call may learn that no money was moved, and what
            # calls that end still send is recovery's to find.
            await self._drop_session()

    def _gather(self) -> list[Work]:
        """Take what waits, an account after the other, as far as one transaction goes."""
        taken = [Envelope[Message](one, one.at, None) for one in self.leases.due(BATCH_MAX // 2)]
        response_bytes = 0
        while len(taken) < BATCH_MAX and response_bytes < RESPONSE_BYTES_MAX:
            if isinstance(barrier := self._next_message(), Barrier):
                due, is_all = self.leases.due_of(barrier.account_id, BATCH_MAX - len(taken))
                taken.extend(Envelope(one, one.at, None) for one in due)
                if not is_all:
                    break
            envelope = self.mailbox.take_next()
            if envelope is None:
                break
            if isinstance(envelope.message, Hold):
                # Its asker has left: the money would only be held back from others.
                if not _is_given_up(envelope):
                    taken.append(envelope)
                continue
            taken.append(envelope)
            kept = _kept(envelope.message)
            if kept is not None:
                response_bytes += len(kept.body)
        left = self.mailbox.next()
        self.backlog_seconds = 0.0 if left is None else self.clock.monotonic() - left.put_at
        return taken

    def _next_message(self) -> Message | None:
        envelope = self.mailbox.next()
        return None if envelope is None else envelope.message

    async def _finish(self, work: list[Work]) -> None:
        """Apply `work`, however long the database is away."""
        backoff = BACKOFF_FIRST_SECONDS
        is_repeat, is_bad = False, False
        while True:
            try:
                if self._numbers.unanswered is not None:
                    work = await self._without_applied(work, *self._numbers.unanswered)
                if is_bad and len(work) > 1:
                    for one in work:
                        await self._finish([one])
                    return
                work = await self._apply(work, is_repeat=is_repeat)
                if not work:
                    return
            except StoreUnavailable as error:
                await self._drop_session()
                self.metrics.ledger_retry()
                self.log.warning("ledger_unreachable", error=str(error), waiting=len(work))
                self._give_up_holds(work)
                is_repeat = True
                await self.clock.sleep(backoff)
                backoff = min(2 * backoff, BACKOFF_MAX_SECONDS)
            except Exception as error:  # one bad message must not stop the others
                await self._drop_session()
                self.log.error(
                    "ledger_batch_failed", exc_info=True, error=repr(error), size=len(work)
                )
                if len(work) == 1:
                    if _kept(work[0].message) is None:
                        self._set_aside(work[0])
                        return
                    # Better to forget the reply than to leave the call unsettled.
                    work = [_without_response(work[0])]
                is_bad = True

    async def _apply(self, work: list[Work], *, is_repeat: bool) -> list[Work]:
        """Apply `work` in one transaction; return what is to be applied in another."""
        holds = [(e, e.message) for e in work if isinstance(e.message, Hold)]
        batch = _batch_of(work)
        left: list[Work] = []
        if len(batch):
            session = await self._writing_session()
            started = self.clock.monotonic()
            signed = self._identity.id
            number = None
            if batch.has_leased:
                number = self._numbers.send(signed)
            applied = await apply(session, signed, batch, number)
            self._numbers.unanswered = None
            self.metrics.ledger_batch(size=len(batch), seconds=self.clock.monotonic() - started)
            if applied.is_buried and number is not None:  # nothing was applied
                await reregister(session, self._identity, signed, self.metrics)
                return [e for e in work if not _is_given_up(e)]
            for account_id, (balance, held) in applied.balances.items():
                self.on_balance(account_id, balance - held)
            self._look_for_late(batch, applied, is_repeat=is_repeat)
            if applied.is_buried:
                await reregister(session, self._identity, signed, self.metrics)
                left = [e for e, _ in holds if not _is_given_up(e)]
                work = [e for e in work if not isinstance(e.message, Hold)]
            else:
                self._identity.confirmed_at = max(self._identity.confirmed_at, started)
                self.leases.changed(signed, applied.leases, batch.changes)
                self._reply_to_holds(holds, applied)
        self._report(work)
        return left

    async def _without_applied(self, work: list[Work], number: int, signed: str) -> list[Work]:
        """What is left of a batch whose reply is missing; all of it if it was not applied.

        Of one that was, holds are asked for again: one that stands counts as granted.
        """
        session = await self._writing_session()
        if not await was_applied(session, signed, number):
            self._numbers.unanswered = None
            return work
        batch = _batch_of(work)
        leases = await leases_of(session, signed, list({account_of(e.message) for e in work}))
        self._numbers.unanswered = None
        self.leases.changed(signed, leases, batch.changes)
        done = [e for e in work if not isinstance(e.message, Hold | Void)]
        self._report(done)
        return [e for e in work if isinstance(e.message, Hold | Void)]

    async def _writing_session(self) -> Session:
        if self._session is None:
            self._session = await self._database.session()
            await take_over(self._session, self._identity.first_id)
        return self._session

    def _reply_to_holds(self, holds: list[tuple[Work, Hold]], applied: Applied) -> None:
        for seq, (envelope, hold) in enumerate(holds):
            reason = applied.refused.get(seq)
            if reason is not None:
                self.metrics.hold_refused(reason)
                envelope.resolve(Refused(reason=reason))
            elif seq in applied.taken:
                envelope.resolve(Taken(applied.taken[seq]))
            else:
                granted = Granted(amount_nano_usd=hold.amount_nano_usd)
                if not envelope.resolve(granted):  # the client left while the hold was being made
                    self.take_back(hold, granted)

    def take_back(self, message: Message, reply: object) -> None:
        """Void a hold that was granted and whose asker has left."""
        if isinstance(message, Hold) and isinstance(reply, Granted):
            self.tell(_void_of(message))

    def _report(self, work: list[Work]) -> None:
        """These messages are applied."""
        if not work:
            return
        now = self.clock.monotonic()
        for envelope in work:
            message = envelope.message
            if isinstance(message, Settle):
                self.metrics.settle_latency(now - envelope.put_at)
                self.on_settled(message.facts.call_id)
                if message.span is not None:
                    message.span.end()
                if message.admitted is not None:
                    self._written(message.admitted)
            elif isinstance(message, Hold):
                self.metrics.hold_latency(now - envelope.put_at)
            elif isinstance(message, Admitted):
                self._written(message)
            elif isinstance(message, Barrier):
                envelope.resolve(None)
        self.metrics.mailbox(actor="ledger", depth=len(work), wait_seconds=now - work[0].put_at)

    def _written(self, admitted: Admitted) -> None:
        self.metrics.hold_latency(0.0)  # nothing waited for it
        self.leases.written(admitted)

    def _look_for_late(self, batch: Batch, applied: Applied, *, is_repeat: bool) -> None:
        """Log which calls recovery had settled, by mistake, and which another process had."""
        if len(applied.settled) == len(batch.settlements):
            return  # as nearly always
        for settlement in batch.settlements:
            call_id = settlement.facts.call_id
            if call_id in applied.settled or isinstance(settlement, Void) or settlement.is_recovery:
                continue
            if call_id in applied.corrected:
                self.metrics.recovery.corrected()
                self.log.warning("recovery_corrected", call=call_id.hex)
            elif settlement.facts.job_id is not None:
                continue  # it may be ended by several at once, and the first one counts
            elif _is_late(settlement, self._identity.id):
                continue  # it had been written when the process died
            elif not is_repeat:  # else it may have been this batch that settled it
                self.metrics.settle_noop()
                self.log.warning("settled_already", call=call_id.hex)

    def _give_up_holds(self, work: list[Work]) -> None:
        """Refuse holds that waited too long; one already sent may be granted, so it is voided."""
        limit = self.clock.monotonic() - self._timeout_seconds
        for index, envelope in enumerate(work):
            message = envelope.message
            if isinstance(message, Hold) and (envelope.put_at <= limit or _is_given_up(envelope)):
                envelope.fail(LedgerUnavailable())
                work[index] = Envelope(_void_of(message), envelope.put_at, None)
            elif isinstance(message, Barrier) and envelope.put_at <= limit:
                envelope.fail(LedgerUnavailable())
        for envelope in self.mailbox:
            if isinstance(envelope.message, Hold | Barrier) and envelope.put_at <= limit:
                envelope.fail(LedgerUnavailable())

    def _set_aside(self, work: Work) -> None:
        """Give up on one message that the database refuses for its content."""
        self._numbers.unanswered = None
        self.log.error("ledger_message_refused", ledger_message=repr(work.message))
        if isinstance(work.message, Admitted):
            self.leases.written(work.message)
        elif isinstance(work.message, LeaseChange):
            self.leases.changed(self._identity.id, {}, [work.message])
        if isinstance(work.message, Settle):
            if work.message.admitted is not None:
                self.leases.written(work.message.admitted)
            self.on_settled(work.message.facts.call_id)  # it would be refused again
            if work.message.span is not None:
                work.message.span.end(error_type="refused")
        work.fail(LedgerUnavailable())

    async def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _batch_of(work: Iterable[Work]) -> Batch:
    messages = [envelope.message for envelope in work]
    return Batch(
        settlements=[one for one in messages if isinstance(one, Settle | Void)],
        admitted=[one for one in messages if isinstance(one, Admitted)],
        holds=[one for one in messages if isinstance(one, Hold)],
        changes=[one for one in messages if isinstance(one, LeaseChange)],
        records=[one for one in messages if isinstance(one, Record)],
    )


def _is_given_up(envelope: Envelope[Message]) -> bool:
    """Whether it is a hold whose asker has left, or waited long enough."""
    reply = envelope.reply
    return reply is not None and reply.done() and isinstance(envelope.message, Hold)


def _void_of(hold: Hold) -> Message:
    return Void(facts=hold.facts, has_claim=hold.claim is not None)


def _is_late(settle: Settle, identity: str) -> bool:
    """Whether its hold was granted in memory under another identity."""
    return settle.admitted is not None and settle.admitted.identity != identity


def _kept(message: Message) -> KeptResponse | None:
    """The reply that a settlement brings with it."""
    if isinstance(message, Settle) and isinstance(message.claim_end, KeptResponse):
        return message.claim_end
    return None


def _without_response(envelope: Envelope[Message]) -> Envelope[Message]:
    message = envelope.message
    assert isinstance(message, Settle)
    settle: Message = replace(message, claim_end=ResponseTooLarge())
    return Envelope(settle, envelope.put_at, None)


def account_of(message: Message) -> str:
    """The account whose money a message is about."""
    if isinstance(message, Barrier | LeaseChange):
        return message.account_id
    return message.facts.account_id
