"""The ledger writer of a process: one connection, one transaction at a time, for many accounts.

It is the actor of all wallets. Messages of an account wait in their own queue of its mailbox: each
account's holds and settlements keep their order, and no account blocks the others.

While a transaction runs the next batch gathers, and under load for a moment longer, so that the
cost per call falls as load rises (group commit). Messages without a waiting caller are sent along
with those that have one. Money SQL runs only here, in this coroutine, which no client's disconnect
can cancel: cancelling a running statement would close the connection and leave its outcome unknown.

When the database is unreachable, or refuses every statement for its own state (read-only, a full
disk, a missing right or function), the batch is repeated until it succeeds; applying it twice
changes nothing, or, with leases, its number shows whether it was applied. After a freeze, the
server first ends the session that may still run it. Holds do not wait for that: their callers time
out (`wallets.py`), holds that may have been granted are voided, and those never sent are dropped.

A hold whose caller was cancelled or refused is never kept: if a slow batch, or one whose reply was
lost, grants it after all, a `Void` releases it. If the process dies or is declared dead in between,
recovery releases it; the row of the call is the one with what its client received, whichever of the
two was written first (`ledger_batch`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from actors.actor import Actor
from actors.clock import Clock
from actors.mailbox import DEFAULT_CAPACITY, Envelope, KeyedMailbox
from actors.process import ProcessIdentity, reregister
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.store.session import Session
from actors.wallet.batch import Applied, Batch, apply
from actors.wallet.claims import KeptResponse, ResponseTooLarge
from actors.wallet.leases import Leases
from actors.wallet.ledger import leases_of, take_over, was_applied
from actors.wallet.messages import (
    Admitted,
    Barrier,
    Granted,
    Hold,
    LeaseChange,
    LedgerUnavailable,
    Message,
    NodeChange,
    Record,
    Refused,
    Settle,
    Taken,
    Void,
    linger,
)
from actors.wallet.quarantine import Quarantined, keep
from actors.wallet.rows import encode_void, with_hold
from actors.wallet.stored_values import StoredValues
from metrics.logs import EventLog
from metrics.prometheus import Metrics


class Wallet(Struct, eq=False):
    """The wallet of one account in this process: its available balance when it was last read.

    A wallet decides nothing: admission is the guarded update in PostgreSQL, which the writer runs,
    and the account's holds and settlements are ordered by the writer's mailbox. This snapshot of
    the balance may admit a request to the hold without a read, but never refuses by itself.
    """

    account_id: str
    available_nano_usd: int | None = None  # None: not read yet
    is_overleased: bool = False  # leases of all processes are more than that, and called back
    last_used: float = 0.0

    def __repr__(self) -> str:
        return f"<Wallet {self.account_id} available={self.available_nano_usd}>"


# Measured: a larger batch saves little CPU and adds latency.
BATCH_MAX = 256
# So many messages wait for no others: fewer than a batch takes, so that none of those that come
# with the last one is left for a small batch of its own.
BATCH_FULL = 224
# A transaction costs about as much as ten calls in it. After a large batch the next one may
# therefore gather for a moment, in proportion to its size; under low load no hold is delayed.
BATCH_THRESHOLD = 20
GATHER_PER_MESSAGE = 75e-6  # seconds
GATHER_MAX_SECONDS = 0.003
# Messages freed in one turn of the loop: the processor's caches have lost them by then.
FREED_AT_ONCE = 64
# Stored responses of idempotency keys make a batch heavy: past this, the next takes the rest.
RESPONSE_BYTES_MAX = 2 * 1024 * 1024
# Messages without a caller are accepted above this limit; `Wallets` limits those with one.
CAPACITY = DEFAULT_CAPACITY
BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 1.0

Work = Envelope[Message]


class BatchNumbers(Struct):
    """Numbers the batches that must not be applied twice.

    `unanswered` is the number and identity of a batch without a reply: it may have been applied.
    """

    last: int = 0
    unanswered: tuple[int, str] | None = None

    def send(self, identity: str) -> int:
        """Return the number of a batch that is about to be sent."""
        self.last += 1
        self.unanswered = self.last, identity
        return self.last


class LedgerWriter(Actor[Message]):
    """Applies messages of accounts in batches; each account's in their order."""

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
        data_dir: Path | None = None,
    ) -> None:
        """`data_dir`: for what even the table of the quarantine refuses."""
        mailbox = KeyedMailbox(
            clock,
            capacity=CAPACITY,
            key_of=attrgetter("account_id"),
            linger=linger,
            full=BATCH_FULL,
        )
        super().__init__(clock=clock, metrics=metrics, mailbox=mailbox)
        self.log = EventLog("actors.wallet.writer")
        self._database = database
        self._identity = identity
        self._timeout_seconds = timeout_seconds
        self._batch: list[Work] = []  # under way
        self._numbers = BatchNumbers()
        self.values = StoredValues()
        self.leases = Leases(identity=identity, clock=clock, tell=self.tell, wake=self.mailbox.wake)
        self._session: Session | None = None
        self._data_dir = data_dir
        # Calls in the quarantine: their holds stay, and are no leaks.
        self._quarantined: set[int] = set()
        # Holds of calls under way that the database refuses: written with their settlements.
        self._refused_holds: dict[int, Admitted] = {}
        # Why the last attempt to reach the database has failed.
        self.cut_off_by: StoreUnavailable | None = None
        # How long the oldest message that did not fit into the last batch has waited.
        self.backlog_seconds = 0.0
        self.wallets: dict[str, Wallet] = {}  # made and forgotten by `Wallets`
        self.on_settled: Callable[[Iterable[Settle]], None] = lambda _settled: None

    def __repr__(self) -> str:
        state = "connected" if self._session is not None else "unconnected"
        return f"<LedgerWriter {state} {len(self._batch)} under way {len(self.mailbox)} waiting>"

    @property
    def is_idle(self) -> bool:
        """Whether no message waits or is being applied."""
        return not self.left

    @property
    def left(self) -> int:
        """How many messages wait or are being applied, those of leases included."""
        return len(self.mailbox) + len(self._batch) + len(self.leases)

    def unsettled(self) -> set[int]:
        """Return the ids of calls whose hold or settlement is waiting or being applied."""
        messages = (e.message for e in chain(self.mailbox, self._batch))
        others = (Barrier, LeaseChange, NodeChange)
        ids = {m.facts.call_id.int for m in messages if not isinstance(m, others)}
        return ids | self.leases.calls() | self._quarantined | self._refused_holds.keys()

    async def run(self) -> None:
        """Apply batches until cancelled."""
        try:
            while True:
                if self._batch:  # gathered below, or under way when an error restarted this
                    await self._finish(self._batch)
                    done, self._batch = self._batch, []
                    size = len(done)
                    while len(done) > FREED_AT_ONCE:
                        del done[-FREED_AT_ONCE:]
                        await asyncio.sleep(0)
                    done.clear()
                    if size >= BATCH_THRESHOLD:
                        await self.clock.sleep(min(size * GATHER_PER_MESSAGE, GATHER_MAX_SECONDS))
                await self.mailbox.ready()
                self._batch = self._gather()
                # The loop writes the responses of these calls first: a batch is long to encode.
                await asyncio.sleep(0)
        finally:
            # The mailbox stays open: a waiting call must not report that no money was moved, and
            # recovery finds what ending calls still send.
            await self._drop_session()

    def _gather(self) -> list[Work]:
        """Take waiting messages, the accounts in turns, up to the size of a transaction."""
        taken = [Envelope[Message](one, one.at, None) for one in self.leases.due(BATCH_MAX // 2)]
        response_bytes = 0
        while len(taken) < BATCH_MAX and response_bytes < RESPONSE_BYTES_MAX:
            envelope = self.mailbox.take_next()
            if envelope is None:
                break
            message = envelope.message
            if isinstance(message, Settle):
                if (kept := message.claim_end) and isinstance(kept, KeptResponse):
                    response_bytes += len(kept.body)
                if self._refused_holds:
                    envelope = self._with_hold(envelope, message)
            elif isinstance(message, Barrier):
                due, is_all = self.leases.due_of(message.account_id, BATCH_MAX - len(taken))
                taken.extend(Envelope(one, one.at, None) for one in due)
                if not is_all:
                    self.mailbox.put_back(envelope)
                    break
            elif _is_given_up(envelope):  # its hold would only block money
                continue
            taken.append(envelope)
        left = self.mailbox.next()
        self.backlog_seconds = 0.0 if left is None else self.clock.monotonic() - left.put_at
        return taken

    def _with_hold(self, envelope: Work, message: Settle) -> Work:
        """Return the settlement of a call with its hold, where that alone was refused."""
        admitted = self._refused_holds.get(message.facts.call_id.int)
        if admitted is None or message.admitted is not None:
            return envelope
        del self._refused_holds[message.facts.call_id.int]
        if message.outcome is not None and message.outcome.served:
            self.leases.served(admitted, message.outcome.served)
        return Envelope(with_hold(message, admitted), envelope.put_at, None)

    async def _finish(self, work: list[Work]) -> None:
        """Apply `work`, however long the database is unreachable."""
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
                self.cut_off_by = None
                if not work:
                    return
            except StoreUnavailable as error:
                await self._drop_session()
                self.cut_off_by = error
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
                    message = work[0].message
                    if isinstance(message, Settle) and isinstance(message.claim_end, KeptResponse):
                        # Better to lose the stored response than to leave the call unsettled.
                        message = replace(message, claim_end=ResponseTooLarge())
                        work = [Envelope(message, work[0].put_at, None)]
                    else:
                        await self._set_aside(work[0], repr(error))
                        return
                is_bad = True

    async def _apply(self, work: list[Work], *, is_repeat: bool) -> list[Work]:
        """Apply `work` in one transaction; return what has to be applied in another one."""
        batch = _batch_of(work)
        left: list[Work] = []
        if len(batch):
            session = await self._writing_session()
            started = self.clock.monotonic()
            signed = self._identity.id
            number = None
            if batch.has_leased:
                number = self._numbers.send(signed)
            applied = await apply(session, signed, batch, number, self.values)
            self._numbers.unanswered = None
            self.metrics.ledger_batch(size=len(batch), seconds=self.clock.monotonic() - started)
            if applied.is_buried and number is not None:  # nothing was applied
                await reregister(session, self._identity, signed, self.metrics)
                return [e for e in work if not _is_given_up(e)]
            self._note_balances(applied)
            for what in applied.others:
                self.metrics.attributed_as_other(what)
            if applied.exceeding_nano_usd:
                self.metrics.budgets.exceeded(applied.exceeding_nano_usd)
            self._look_for_late(batch, applied, is_repeat=is_repeat)
            if applied.is_buried:
                await reregister(session, self._identity, signed, self.metrics)
                left = [e for e in work if isinstance(e.message, Hold) and not _is_given_up(e)]
                work = [e for e in work if not isinstance(e.message, Hold)]
            else:
                self.leases.changed(signed, applied.leases, batch.changes, applied.versions)
                if applied.drawn:
                    self.leases.nodes_drawn(applied.drawn)
                if batch.nodes:
                    self.leases.nodes_changed(signed, started, applied.nodes, batch.nodes)
                for account_id in applied.called:
                    self.leases.call_back(account_id)
                if batch.holds:
                    self._reply_to_holds(work, applied)
        self._report(work)
        return left

    def _note_balances(self, applied: Applied) -> None:
        now = self.clock.monotonic()
        for account_id, balance, held, leased in applied.balances:
            wallet = self.wallets.get(account_id)
            if wallet is not None:
                wallet.available_nano_usd = balance - held
                wallet.is_overleased = balance - held < leased
                wallet.last_used = now

    async def _without_applied(self, work: list[Work], number: int, signed: str) -> list[Work]:
        """Return the unapplied part of a batch whose reply is missing.

        If it was applied, holds are sent again: an existing hold counts as granted.
        """
        session = await self._writing_session()
        if not await was_applied(session, signed, number):
            self._numbers.unanswered = None
            return work
        batch, asked_at = _batch_of(work), self.clock.monotonic()
        leases = await leases_of(
            session, signed, list(dict.fromkeys(e.message.account_id for e in work))
        )
        self._numbers.unanswered = None
        self.leases.changed(signed, leases.amounts, batch.changes, leases.versions)
        self.leases.nodes_drawn(leases.nodes)
        self.leases.nodes_changed(signed, asked_at, leases.nodes, batch.nodes)
        for account_id in leases.called:
            self.leases.call_back(account_id)
        done = [e for e in work if not isinstance(e.message, Hold | Void)]
        self._report(done)
        return [e for e in work if isinstance(e.message, Hold | Void)]

    async def _writing_session(self) -> Session:
        if self._session is None:
            self._session = await self._database.session()
            await take_over(self._session, self._identity.first_id)
        return self._session

    def _reply_to_holds(self, work: list[Work], applied: Applied) -> None:
        holds = [(e, e.message) for e in work if isinstance(e.message, Hold)]
        for seq, (envelope, hold) in enumerate(holds):
            reason = applied.refused.get(seq)
            if reason is not None:
                self.metrics.hold_refused(reason)
                envelope.resolve(Refused(reason=reason, budget=applied.budgets.get(seq)))
            elif seq in applied.taken:
                envelope.resolve(Taken(applied.taken[seq]))
            else:
                granted = Granted(applied.warned.get(seq, ()))
                if not envelope.resolve(granted):  # the client left meanwhile
                    self.take_back(hold, granted)

    def take_back(self, message: Message, reply: object) -> None:
        """Void a hold that was granted after its caller had left."""
        if isinstance(message, Hold) and isinstance(reply, Granted):
            self.tell(_void_of(message))

    def _report(self, work: list[Work]) -> None:
        """Report messages as applied."""
        if not work:
            return
        now = self.clock.monotonic()
        settled: list[Settle] = []
        settlement_waits: list[float] = []
        hold_waits: list[float] = []
        written: list[Admitted] = []
        for envelope in work:
            message = envelope.message
            if type(message) is Settle:
                settled.append(message)
                settlement_waits.append(now - envelope.put_at)
                if message.span is not None:
                    message.span.end()
            elif isinstance(message, Hold):
                hold_waits.append(now - envelope.put_at)
            elif isinstance(message, Admitted):
                written.append(message)
            elif isinstance(message, Barrier):
                envelope.resolve(None)
        # Those admitted did not wait.
        hold_waits += [0.0] * (len(written) + sum(one.admitted is not None for one in settled))
        self.on_settled(settled)
        self.leases.written(written)
        self.leases.settled(settled)
        self.metrics.hold_latencies(hold_waits)
        self.metrics.settle_latencies(settlement_waits)
        self.metrics.mailbox(actor="ledger", depth=len(work), wait_seconds=now - work[0].put_at)

    def _look_for_late(self, batch: Batch, applied: Applied, *, is_repeat: bool) -> None:
        """Log which calls recovery had settled by mistake, or another process before."""
        if not applied.unsettled:
            return
        for settlement in batch.settlements:
            call_id = settlement.facts.call_id
            if call_id not in applied.unsettled or settlement.is_recovery:
                continue
            if isinstance(settlement, Void):
                continue
            if call_id in applied.corrected:
                self.metrics.recovery.corrected()
                self.log.warning("recovery_corrected", call=call_id.hex)
            elif settlement.facts.job_id is not None:
                continue  # several may end it at once, and the first one counts
            elif settlement.admitted and settlement.admitted.identity != self._identity.id:
                continue  # it had been written when the process died
            elif not is_repeat:  # else this batch may have settled it
                self.metrics.settle_noop()
                self.log.warning("settled_already", call=call_id.hex)

    def _give_up_holds(self, work: list[Work]) -> None:
        """Refuse holds that waited too long; void those already sent, which may be granted."""
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

    async def _set_aside(self, work: Work, error: str) -> None:
        """Take one message whose content the database refuses out of the way of the others.

        What a call costs, and a row, go to the quarantine. The slot of such a call in the flight
        recorder stays in use, and so does its hold in the ledger.
        """
        message = work.message
        self._numbers.unanswered = None
        self.log.error("ledger_message_refused", ledger_message=repr(message))
        if isinstance(message, Admitted):
            # Its settlement brings it again: without a hold that would move nothing.
            self._refused_holds[message.facts.call_id.int] = message
        elif isinstance(message, LeaseChange):
            self.leases.changed(self._identity.id, {}, [message])
        elif isinstance(message, NodeChange):
            self.leases.nodes_changed(self._identity.id, self.clock.monotonic(), (), [message])
        elif isinstance(message, Settle | Record) and message.outcome is not None:
            await self._quarantine(Quarantined.of(message, error))
        if isinstance(message, Settle):
            self.leases.settled([message])
            if message.span is not None:
                message.span.end(error_type="refused")
        work.fail(LedgerUnavailable())

    async def _quarantine(self, kept: Quarantined) -> None:
        """Keep a message in the quarantine, however long that takes."""
        while True:
            try:
                await keep(await self._writing_session(), kept, self._data_dir)
                break
            except StoreUnavailable as error:
                await self._drop_session()
                self.cut_off_by = error
                self.metrics.ledger_retry()
                self.log.warning("ledger_unreachable", error=str(error), waiting=1)
                await self.clock.sleep(BACKOFF_MAX_SECONDS)
        self.cut_off_by = None
        if not kept.is_recovery:  # else its hold is another process's, and is tried again
            self._quarantined.add(kept.facts.call_id.int)
        self.log.error(
            "settlement_quarantined",
            call=kept.facts.call_id.hex,
            account=kept.facts.account_id,
            cost_nano_usd=kept.outcome.cost_nano_usd,
            error=kept.error,
        )

    async def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _batch_of(work: Iterable[Work]) -> Batch:
    settlements: list[Settle] = []
    others: dict[type[Message], list[Any]] = defaultdict(list)
    for envelope in work:
        message = envelope.message
        if isinstance(message, Settle):
            settlements.append(message)
        else:
            others[type(message)].append(message)
    return Batch(
        settlements=settlements,
        admitted=others[Admitted],
        holds=others[Hold],
        changes=others[LeaseChange],
        nodes=others[NodeChange],
        records=others[Record],
    )


def _is_given_up(envelope: Envelope[Message]) -> bool:
    """Whether it is a hold whose caller has left or timed out."""
    reply = envelope.reply
    return reply is not None and reply.done() and isinstance(envelope.message, Hold)


def _void_of(hold: Hold) -> Message:
    return encode_void(hold.facts, has_claim=hold.claim is not None)
