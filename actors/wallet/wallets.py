"""All wallets of this process by account, and the gateway's messages to them.

`hold` and `available` wait for a reply. `settle` and `record` return at once, and the writer makes
sure that they are applied.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from actors.clock import Clock
from actors.limits.idle_sweep import IdleSweep
from actors.mailbox import MailboxFull
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.store.waits import in_time
from actors.wallet import messages
from actors.wallet.claims import ClaimEnd, ClaimState
from actors.wallet.flight_recorder.recorder import Recorder
from actors.wallet.ledger import Spending, read_balance, read_spending
from actors.wallet.rows import encode_settlement
from actors.wallet.writer import LedgerWriter, Wallet
from channels.deadlines import FutureTimeouts
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from metrics.spans import ChildSpan

# Limit of waiting holds and records, for a database that does not keep up; the rest is refused.
# Settlements do not count; there are never more of them than holds.
WAITING_MAX = 50_000
# An account idle for so long has no key in the cache either: reading a key reads the balance.
IDLE_SECONDS = 60.0
# How long a call waits for its hold, whether the database is unreachable or hangs, which blocks the
# writer too. A hold takes milliseconds, a restart of the database seconds.
HOLD_SECONDS = 5.0
# Between two tries of a hold that only the leases of silent processes refuse; doubled each time.
LEASED_FIRST_SECONDS, LEASED_MAX_SECONDS = 0.1, 1.0
# How long the end of the response of a call that costs more than hold and lease cover waits until
# it counts in every process, so that the next request, in whatever process, finds no lease beyond
# the balance.
COVER_SECONDS = 1.0
# Nodes of a call that is admitted in memory. More, as a call of a chain may have, might not fit
# into its slot of the flight recorder.
NODES_ADMITTED_MAX = 16


_LOG = EventLog("actors.wallet")

T = TypeVar("T")


class HoldRefused(Exception):
    """The balance, the key's spend cap or a budget does not cover the estimate.

    `budget`: the one that does not.
    """

    def __init__(
        self, reason: messages.RefusalReason, budget: messages.BudgetRefusal | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.budget = budget


class BalanceLeased(messages.LedgerUnavailable):
    """The balance covers the estimate, but for leases that their processes have not returned."""


class KeyTaken(Exception):
    """The idempotency key of a hold is in use; nothing was held."""

    def __init__(self, state: ClaimState) -> None:
        super().__init__(state)
        self.state = state


class Wallets:
    """Finds or makes the wallet of an account and sends its messages to the writer."""

    def __init__(
        self,
        *,
        writer: LedgerWriter,
        database: Database,
        clock: Clock,
        metrics: Metrics,
        recorder: Recorder | None = None,
    ) -> None:
        self.recorder = Recorder(metrics) if recorder is None else recorder
        self._writer = writer
        self._database = database
        self._clock = clock
        self._wallets = writer.wallets
        self._sweep = IdleSweep(self._wallets)
        self._leases = writer.leases
        self._metrics = metrics
        self._call_backs: dict[str, Future[None]] = {}
        self._covers: dict[str, Future[None]] = {}  # the last one of each account
        # Makes every process return its lease of an account (`Neighbours`).
        self.call_back: Callable[[str], Awaitable[None]] = self.give_back
        self._reads: dict[str, Future[int]] = {}
        self._waiting = 0
        self._timeouts = FutureTimeouts(HOLD_SECONDS, messages.LedgerUnavailable)
        writer.on_settled = self.recorder.forget

    def __repr__(self) -> str:
        return f"<Wallets {len(self._wallets)} accounts {self._waiting} waiting>"

    def hold(self, hold: messages.Hold) -> Coroutine[Any, Any, messages.Granted] | None:
        """Hold a call's estimate out of the leases of its account and its nodes; else return
        `ask_ledger`.
        """
        if hold.facts.account_id not in self._wallets:
            self._wallet(hold.facts.account_id)
        is_plain = hold.cap_nano_usd is None and hold.claim is None and hold.job is None
        if is_plain and len(hold.nodes) <= NODES_ADMITTED_MAX:
            admitted = self._leases.admit(hold)
            if admitted is not None:
                self.recorder.admitted(admitted)
                return None
        return self.ask_ledger(hold)

    def warned(self, hold: messages.Hold) -> tuple[str, ...]:
        """Return the `warn` nodes at their limit of a call that was held out of leases."""
        return self._leases.warned(hold)

    async def ask_ledger(self, hold: messages.Hold) -> messages.Granted:
        """Hold a call's estimate in the ledger, exactly and in order.

        Raises HoldRefused, KeyTaken, BalanceLeased, or LedgerUnavailable when the database is
        unreachable for too long. If a hold is granted after its caller was refused or cancelled, it
        is voided.
        """
        self._wallet(hold.facts.account_id)
        if self._waiting >= WAITING_MAX:
            raise messages.LedgerUnavailable
        self._waiting += 1
        try:
            reply = await self._writer.ask(hold, timeouts=self._timeouts)
            if isinstance(reply, messages.Refused) and reply.reason == "leased":
                reply = await self._hold_again(hold)
        except MailboxFull:
            raise messages.LedgerUnavailable from None
        finally:
            self._waiting -= 1
        if isinstance(reply, messages.Refused):
            if reply.budget is not None and _would_fit(reply.budget):
                self._metrics.budgets.refused_for_nothing()
                _LOG.error("budget_phantom_refusal", call=hold.facts.call_id.hex)
            raise HoldRefused(reply.reason, reply.budget)
        if isinstance(reply, messages.Taken):
            raise KeyTaken(reply.state)
        assert isinstance(reply, messages.Granted), reply
        return reply

    async def _hold_again(self, hold: messages.Hold) -> object:
        """Call back the leases that refuse a hold and try it again, as long as a hold may take.

        A process that is dead or stands still does not return its lease; it is taken from it
        later (`actors/recovery.py`). Raises BalanceLeased.
        """
        monotonic, pause = self._clock.monotonic, 0.0
        until = monotonic() + HOLD_SECONDS
        while True:
            await self._called_back(hold.facts.account_id)
            reply = await self._writer.ask(hold, timeouts=self._timeouts)
            if not (isinstance(reply, messages.Refused) and reply.reason == "leased"):
                return reply
            pause = min(max(2 * pause, LEASED_FIRST_SECONDS), LEASED_MAX_SECONDS)
            if monotonic() + pause >= until:
                raise BalanceLeased
            await self._clock.sleep(pause)

    def settle(
        self,
        facts: messages.CallFacts,
        outcome: messages.Outcome,
        *,
        claim_end: ClaimEnd = None,
        job_end: messages.JobEnd | None = None,
        span: ChildSpan | None = None,
        held_nano_usd: int | None = None,
        nodes: Sequence[messages.NodeHold] = (),
    ) -> None:
        """Settle a call that holds money: entry, row, release, claim and job in one commit.

        `held_nano_usd`: what it holds; None: unknown; `nodes`: what it holds on budgets. What it
        costs beyond that is not there for the next call, in this process at once, in the others by
        the call back of their leases.
        """
        cost = outcome.cost_nano_usd
        admitted = self._leases.end(facts, cost, outcome.served)
        excess = 0 if held_nano_usd is None or cost <= held_nano_usd else cost - held_nano_usd
        exceeding = 0
        if excess and admitted is None:
            exceeding = self._leases.exceed(facts.account_id, excess)
        message = encode_settlement(
            facts,
            outcome,
            admitted,
            claim_end=claim_end,
            job_end=job_end,
            span=span,
            exceeding=exceeding,
        )
        self.recorder.settled(message, outcome)
        self._post(message)
        is_passed = bool(nodes) and self._leases.is_passed(
            facts.account_id, nodes, cost, outcome.served
        )
        if is_passed:
            self._leases.call_back(facts.account_id)
        if is_passed or (excess and not self._leases.absorbs(facts.account_id)):
            self._cover_soon(facts.account_id, is_passed=is_passed)

    def _cover_soon(self, account_id: str, *, is_passed: bool) -> None:
        """Begin what `covered` waits for."""

        def end(done: Future[None]) -> None:
            if self._covers.get(account_id) is done:
                del self._covers[account_id]
            if not done.cancelled() and (error := done.exception()) is not None:
                _LOG.info("leases_not_called_back", account=account_id, error=str(error))

        covering = asyncio.ensure_future(self._cover(account_id, is_passed=is_passed))
        self._covers[account_id] = covering
        covering.add_done_callback(end)

    async def _cover(self, account_id: str, *, is_passed: bool) -> None:
        """Write what was settled, and have every process return its lease if the balance does not
        cover them any more, or a node of a budget was passed.

        The database calls those leases back in the settlement's transaction; processes hear of it
        a moment later, and may have admitted from them by then.
        """
        try:
            await self.settled(account_id)
        finally:
            wallet = self._wallets.get(account_id)
            if is_passed or wallet is None or wallet.is_overleased:
                await self._called_back(account_id)

    async def covered(self, account_id: str) -> None:
        """Wait until a call that cost more than hold and lease cover counts in every process;
        usually there is none. A database or a process that does not reply is waited for no longer
        than a moment.
        """
        covering = self._covers.get(account_id)
        if covering is not None:
            await asyncio.wait([covering], timeout=COVER_SECONDS)

    async def settle_job(
        self, facts: messages.CallFacts, outcome: messages.Outcome, job_end: messages.JobEnd
    ) -> None:
        """Settle the call of a job that has ended, and wait until the settlement is durable."""
        self.settle(facts, outcome, job_end=job_end)
        await self.settled(facts.account_id)

    def recover(self, facts: messages.CallFacts, outcome: messages.Outcome) -> None:
        """Settle a call of a process declared dead, until that process settles it itself."""
        self._post(encode_settlement(facts, outcome, is_recovery=True))

    def settle_unwritten(
        self,
        hold: messages.Hold,
        identity: str,
        outcome: messages.Outcome,
        *,
        is_recovery: bool,
        budgets: tuple[messages.HeldNode, ...] = (),
    ) -> None:
        """Settle a call that a dead process admitted under this identity but had not written."""
        paying = tuple(one for one in budgets if messages.pays(one, outcome.served))
        admitted = messages.Admitted(hold, identity, 0.0, None, paying)
        self._post(encode_settlement(hold.facts, outcome, admitted, is_recovery=is_recovery))

    def record(self, facts: messages.CallFacts, outcome: messages.Outcome) -> None:
        """Write the row of a call without a hold. Under overload it is dropped and logged."""
        assert outcome.cost_nano_usd == 0
        if self._writer.mailbox.length_of(facts.account_id) >= WAITING_MAX:
            _LOG.error("row_dropped", call=facts.call_id.hex, code=outcome.error_code)
            return
        self._post(messages.Record(facts=facts, outcome=outcome))

    def available(self, account_id: str) -> int | Coroutine[Any, Any, int]:
        """Return balance minus open holds in nano-USD: from memory if positive, else what reads it.

        Only the database may cause a refusal (reference 5.3). The read raises StoreUnavailable.
        """
        wallet = self._wallets.get(account_id)
        known = None if wallet is None else wallet.available_nano_usd
        if known is not None and known > 0:
            return known
        self._wallet(account_id)
        return _once(self._reads, account_id, self._read)

    def note_balance(self, account_id: str, available_nano_usd: int) -> None:
        """Note the available balance that was read along with other data of an account.

        Only for a wallet without a balance: what the ledger has reported is newer.
        """
        wallet = self._wallets.get(account_id)
        if available_nano_usd > 0 and (wallet is None or wallet.available_nano_usd is None):
            self._wallet(account_id).available_nano_usd = available_nano_usd

    async def settled(self, account_id: str) -> None:
        """Wait until all earlier messages of this account have been applied."""
        if account_id in self._wallets:
            self._wallet(account_id)
            try:
                await self._writer.ask(messages.Barrier(account_id))
            except MailboxFull:
                raise messages.LedgerUnavailable from None

    async def give_back(self, account_id: str) -> None:
        """Return the lease of an account, and lease nothing for a while."""
        self._leases.call_back(account_id)
        try:
            await self.settled(account_id)  # what was admitted is written, and no longer counts
        finally:
            self._leases.give_back(account_id)
        await self.settled(account_id)

    def stop_leasing(self, account_id: str) -> None:
        """Admit nothing from the lease of an account until it is returned."""
        self._leases.call_back(account_id)

    async def _called_back(self, account_id: str) -> None:
        """Call back the leases of all processes on an account, once for all waiting holds."""
        try:
            await _once(self._call_backs, account_id, self.call_back)
        except StoreUnavailable as error:
            raise messages.LedgerUnavailable from error

    async def spending(self, key_id: str, account_id: str) -> Spending:
        """Read the money of an account and its key's part of it. Raises StoreUnavailable."""
        return await in_time(read_spending(self._database, account_id=account_id, key_id=key_id))

    def forget_idle(self) -> None:
        """Drop some of the wallets that were not used for a while; called every second."""
        limit = self._clock.monotonic() - IDLE_SECONDS
        length_of = self._writer.mailbox.length_of
        self._sweep.round(lambda w: w.last_used < limit and not length_of(w.account_id))
        self._leases.look_for_silent()

    def _post(self, message: messages.Settle | messages.Record) -> None:
        if message.facts.account_id not in self._wallets:
            self._wallet(message.facts.account_id)
        self._writer.mailbox.put(message)

    def _wallet(self, account_id: str) -> Wallet:
        """Return the wallet of an account and mark it as used."""
        wallet = self._wallets.get(account_id)
        if wallet is None:
            wallet = self._wallets[account_id] = Wallet(account_id)
            self._sweep.add(account_id)
        wallet.last_used = self._clock.monotonic()
        return wallet

    async def _read(self, account_id: str) -> int:
        found = await in_time(read_balance(self._database, account_id))
        available = found[0] - found[1] if found is not None else 0
        wallet = self._wallets.get(account_id)
        if wallet is not None:
            wallet.available_nano_usd = available
        return available


def _would_fit(refused: messages.BudgetRefusal) -> bool:
    """Whether the figures of a refusal would have admitted its call, which must not be."""
    taken = refused.spent_nano_usd + refused.held_nano_usd
    return taken + refused.needed_nano_usd <= refused.limit_nano_usd


async def _once(
    under_way: dict[str, Future[T]], account_id: str, begin: Callable[[str], Awaitable[T]]
) -> T:
    """Do something for an account once for all that wait for it."""

    def end(done: Future[T]) -> None:
        del under_way[account_id]
        if not done.cancelled():
            done.exception()  # raised in each that waits; there may be none left to retrieve it

    found = under_way.get(account_id)
    if found is None:
        found = under_way[account_id] = asyncio.ensure_future(begin(account_id))
        found.add_done_callback(end)
    await asyncio.wait([found])
    return found.result()
