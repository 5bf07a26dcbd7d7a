"""A call from its hold to its settlement: the one way out for its money.

    async with billing.hold(call, bill, writer) as settlement:
        …                                  # attempts, answer; `settle` before the last bytes

`settle` takes the cost, releases the hold and writes the row; it does nothing the second time. It
is called before the client is given the last bytes or, failing that, on the way out of the block,
whatever has happened in it. It waits for nothing, so no cancellation can come between. The other
way out is `hand_over`: the call ends, and what it began settles it (`actors/jobs`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

from msgspec import Struct

from actors.clock import Clock
from actors.routing import Candidate
from actors.wallet.claims import ClaimEnd, KeptResponse
from actors.wallet.flight_recorder.recorder import Recorder
from actors.wallet.live_calls import Delivered, LiveCalls
from actors.wallet.messages import LedgerUnavailable, NodeHold, Outcome
from actors.wallet.storable import encode_detail
from actors.wallet.wallets import KeyTaken, Wallets
from channels.dialects.meter import Meter
from channels.dialects.token_counts import Usage
from channels.redaction import Redactor
from gw.budgets import refusal
from gw.budgets.matching import LiveNodes
from gw.calls import call_spans, endings
from gw.calls.attempts import Attempts
from gw.calls.bills import NO_TOKENS, NOTHING, Bill, Charged
from gw.calls.call import Call, Client, ClientGone
from gw.calls.holding import Holding
from gw.calls.observer import CallObserver
from gw.calls.token_charge import tokens_of_bytes
from gw.calls.upstream_prices import UpstreamPrices
from gw.config.live import LiveConfig
from gw.errors import GatewayError
from metrics.prometheus import Metrics
from metrics.spans import UNSAMPLED_CHILD, ChildSpan

# How long a response may wait for its own settlement when the database hangs.
DURABLE_SECONDS = 5.0

B = TypeVar("B", bound=Bill)


class StreamRecord(Struct, eq=False):
    """Notes each chunk of one stream that is sent: its progress, in the flight recorder.

    Thousands of streams take turns, so that a chunk finds none of their objects in the caches of
    the CPU: from the first content on it needs this one and the meter alone.
    """

    _settlement: Settlement[Any]
    _recorder: Recorder
    _meter: Meter
    _is_begun: bool = False
    _slot: int | None = None

    def take(self) -> None:
        """Record a chunk that is about to be sent; see `Settlement.note_delivery`."""
        if self._slot is not None:
            self._recorder.counts(self._slot, tokens_of_bytes(self._meter.characters))
        elif not self._is_begun:
            self._begin()

    def _begin(self) -> None:
        """Record the first content; chunks before it are not charged."""
        settlement = self._settlement
        settlement.note_delivery()
        delivered = settlement.bill.delivered()
        if delivered is not None:
            self._is_begun = True
            call_id = settlement.call.facts.call_id
            self._slot = self._recorder.delivers(call_id, delivered.to_json())


class Settlement(Struct, Generic[B], eq=False):
    """The money of one call under way, with its attempts."""

    call: Call
    bill: B
    observer: CallObserver
    attempts: Attempts
    _client: Client
    _billing: Billing
    _redactor: Redactor
    ending: endings.Ending | None = None
    _kept: KeptResponse | None = None
    _is_settled: bool = False
    exceeds_hold: bool = False  # it was settled for more than it held
    _held: Sequence[NodeHold] = ()  # on budgets

    def __repr__(self) -> str:
        state = "settled" if self._is_settled else "open"
        return f"<Settlement {self.call.facts.call_id.hex} {state} {self.ending}>"

    async def __aenter__(self) -> Settlement[B]:
        """Hold the most that the call may cost, with its idempotency claim and its job.

        Raises GatewayError, and KeyTaken when the idempotency key is not free. Nothing waits
        between the granted hold and the block.
        """
        call, billing, amount_nano_usd = self.call, self._billing, self.bill.hold_nano_usd
        span, facts = call.span, call.facts
        terms = self.bill.terms
        terms["hold"] = amount_nano_usd
        if span.trace_id is not None:
            terms["trace_id"] = span.trace_id
        call.detail.update(terms)
        holding = Holding(
            call,
            self.bill,
            terms,
            billing.wallets,
            billing.nodes,
            billing.clock,
            billing.metrics,
        )
        step = span.child(call_spans.HOLD) if span.sampled else UNSAMPLED_CHILD
        try:
            waiting = holding.take()
            if waiting is not None:
                await self._admit(waiting)
        except BaseException as error:
            self._refused(error, step)
            raise
        if span.sampled:
            step.end(attributes={"gw.hold_nano_usd": amount_nano_usd})
        self._held = holding.held
        if holding.warned:
            self._client.keep_header(refusal.WARNING_HEADER, ", ".join(holding.warned))
        self._client.hold_decided()
        billing.live.enter(facts.call_id, self.delivered)
        billing.metrics.call_started(facts.protocol)
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Settle in every case. ClientGone is suppressed."""
        try:
            if error is not None:
                self.set_ending(self._ending_of(error))
            if isinstance(error, GatewayError):
                self.settle()
                await self.until_durable()
        finally:
            self.settle()
            if self.attempts.has_response:
                await self.attempts.close(is_complete=self.bill.is_complete)
        return isinstance(error, ClientGone)

    def delivered(self) -> Delivered | None:
        """Return the content sent so far, priced, for the heartbeat."""
        return None if self.observer.first_byte_seconds is None else self.bill.delivered()

    def note_delivery(self) -> None:
        """A chunk is about to be sent to the client: from the first one on, the call is charged."""
        if self.observer.first_byte_seconds is None:
            self.observer.first_byte()

    def record_of(self, meter: Meter) -> StreamRecord:
        """Return what notes the chunks of a stream that is read by this meter."""
        return StreamRecord(self, self._billing.wallets.recorder, meter)

    def set_ending(self, ending: endings.Ending) -> None:
        """Set the ending of the call, unless it is set already."""
        if self.ending is None:
            self.ending = ending

    def keep(self, response: KeptResponse) -> None:
        """Keep the whole response with the settlement if the call has an idempotency key."""
        self._kept = response

    def fail(self, ending: endings.Ending) -> NoReturn:
        """Set the ending of the call, and raise the client's error."""
        self.set_ending(ending)
        assert ending.error is not None
        raise ending.error

    def settle(self) -> None:
        """End the call once: release the channel's lease and the hold, charge it, write its row."""
        if self._is_settled:
            return
        self._is_settled = True
        try:
            self.attempts.finish_attempt("abandoned", "cancelled")
            call, attempts, observer = self.call, self.attempts, self.observer
            ending, candidate, failed = (
                self.ending or endings.STOPPING,
                attempts.candidate,
                attempts.failed,
            )
            charged = self.bill.charged(first_byte_seconds=observer.first_byte_seconds)
            usage, upstream_cost = charged.usage, self._upstream_cost(charged)
            seconds = observer.clock.monotonic() - call.started
            # At most 15 arguments by name: with more, Python makes a dict of them first.
            outcome = Outcome(
                ending.status,
                charged.cost_nano_usd,
                observer.clock.now(),
                round(seconds * 1000),
                error_code=ending.code,
                error_message=ending.message,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                units=charged.units,
                result_urls=charged.result_urls,
                result_expires_at=charged.result_expires_at,
                attempts=[endings.attempt_row(one, self._redactor) for one in failed]
                if failed
                else (),
                upstream_cost_nano_usd=upstream_cost,
                channel_id=None if candidate is None else candidate.channel_id,
                detail=encode_detail(observer.receipt(charged, attempts.status, self._redactor)),
                served=self._served(),
            )
            held_nano_usd = self.bill.hold_nano_usd
            self.exceeds_hold = charged.cost_nano_usd > held_nano_usd
            self._billing.wallets.settle(
                call.facts,
                outcome,
                claim_end=self._claim_end(ending, charged),
                span=call.span.child(call_spans.SETTLE) if call.span.sampled else None,
                held_nano_usd=held_nano_usd,
                nodes=self._held,
            )
            observer.call_ended(ending, self.bill, charged, seconds, upstream_cost)
        finally:
            # Also after an exception: recovery finds a hold without a live call.
            self._billing.live.leave(self.call.facts.call_id)

    async def hand_over(
        self, accept: Callable[[ClaimEnd], Awaitable[bool]], response: KeptResponse
    ) -> bool:
        """End the call with this response, and leave its hold to the job that it has begun.

        `accept` stores that the job was accepted upstream, and the end of the idempotency claim.
        Returns False when another process has settled the call, because this one was declared dead;
        the call then ends like a failed one.
        """
        # If this is cancelled, recovery finds out whether the acceptance was stored.
        self._is_settled = True
        self._kept = response
        try:
            self.attempts.finish_attempt("success", "ok")
            span = self.call.span
            step = span.child(call_spans.ACCEPT_JOB) if span.sampled else None
            is_accepted = await accept(self._claim_end(endings.SUCCESS, NOTHING))
            if step is not None:
                step.end(error_type=None if is_accepted else "taken_for_dead")
            if is_accepted:
                self.set_ending(endings.SUCCESS)
                seconds = self._billing.clock.monotonic() - self.call.started
                self.observer.call_ended(endings.SUCCESS, self.bill, NOTHING, seconds, 0)
            else:
                self._is_settled = False
            return is_accepted
        finally:
            if self._is_settled:
                self._billing.live.leave(self.call.facts.call_id)

    async def until_durable(self) -> None:
        """Wait until a call with an idempotency key is settled, and until one that took more than
        hold and lease cover is counted in every process.

        So a response is kept before its client sees it, after an error the key is free in every
        process, and what the balance does not cover any more is admitted by none. The wait is short
        when the ledger is unreachable; the call is settled later.
        """
        if self.call.idempotency is not None:
            try:
                async with asyncio.timeout(DURABLE_SECONDS):
                    await self._billing.wallets.settled(self.call.facts.account_id)
            except (TimeoutError, LedgerUnavailable):
                pass  # the writer retries and logs it
        if self.exceeds_hold:
            await self._billing.wallets.covered(self.call.facts.account_id)

    async def _admit(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for the ledger's hold. Raises GatewayError and KeyTaken.

        A call cancelled before the ledger's reply holds nothing and has a row.
        """
        try:
            await waiting
        except asyncio.CancelledError:
            self._client.hold_decided()
            self._record_cancelled()
            raise

    def _refused(self, error: BaseException, step: ChildSpan) -> None:
        """End the spans of a call without a hold: refused, or cancelled before."""
        span = self.call.span
        if isinstance(error, KeyTaken):
            step.end()
            span.end(attributes={"gw.status": "not_executed", "gw.idempotency": error.state})
            return
        ending = (
            endings.shown("rejected", error) if isinstance(error, GatewayError) else self._left()
        )
        step.end(error_type=ending.code)
        call_spans.end_call(span, ending)

    def _record_cancelled(self) -> None:
        """Write the row of a call that was cancelled before its hold was granted."""
        call, clock, metrics = self.call, self._billing.clock, self._billing.metrics
        ending, seconds = self._left(), clock.monotonic() - call.started
        self._billing.wallets.record(
            call.facts,
            Outcome(
                status=ending.status,
                cost_nano_usd=0,
                created_at=clock.now(),
                latency_ms=round(seconds * 1000),
                error_code=ending.code,
                error_message=ending.message,
                detail=call.detail,
            ),
        )
        metrics.call_started(call.facts.protocol)
        metrics.call_finished(
            protocol=call.facts.protocol,
            model=call.model.id,
            status=ending.status,
            code=ending.code or "ok",
            seconds=seconds,
        )

    def _left(self) -> endings.Ending:
        """Return the ending of a call that was cancelled."""
        return endings.CLIENT_GONE if self._client.client_gone else endings.STOPPING

    def _ending_of(self, error: BaseException) -> endings.Ending:
        """Return the ending of a call that this error ended."""
        if isinstance(error, ClientGone):
            return endings.CLIENT_GONE
        if isinstance(error, asyncio.CancelledError):
            return self._left()
        if isinstance(error, GatewayError):
            return endings.shown("rejected", error)
        if isinstance(error, Exception):
            return endings.Ending("error", "internal_error", f"{type(error).__name__}")
        return endings.STOPPING

    def _served(self) -> str:
        """Return the model that has served a chain's call, where budgets of its models are held."""
        served = self.bill.served
        return served if served and any(one.model for one in self._held) else ""

    def _claim_end(self, ending: endings.Ending, charged: Charged) -> ClaimEnd:
        if self.call.idempotency is None:
            return None
        cost = charged.cost_nano_usd
        return self.call.idempotency.end(
            ending.status,
            client_left=ending == endings.CLIENT_GONE,
            cost_nano_usd=cost,
            response=self._kept,
        )

    def _upstream_cost(self, charged: Charged) -> int | None:
        """Return the operator's cost of all attempts in nano-USD; None if one is unknown.

        Where failed ones may be billed, the detail has the cost of each.
        """
        attempts, sold_as = self.attempts, self.call.sold_as
        if attempts.candidate is None:
            return 0
        price_of, last = self._billing.upstream_prices.of, attempts.candidate
        cost = self.bill.upstream_cost(price_of(sold_as(last), last), charged)
        if not attempts.unused:
            return cost
        costs: list[int | None] = []
        bought = self.call.detail["bought"] = []
        for candidate, usage in attempts.unused:
            price = price_of(sold_as(candidate), candidate)
            known = None if usage is None or price is None else price.cost_nano_usd(usage)
            costs.append(known)
            bought.append(_bought(candidate, False, usage, known))
        if cost != 0 or charged.usage != NO_TOKENS:
            costs.append(cost)
            bought.append(_bought(last, True, charged.usage, cost))
        return None if None in costs else sum(one or 0 for one in costs)


def _bought(
    candidate: Candidate, is_used: bool, usage: Usage | None, cost_nano_usd: int | None
) -> list[Any]:
    """Return an attempt that may be billed as the detail has it; of a chain, with its model."""
    bought = [candidate.channel_id, is_used, _counts(usage), cost_nano_usd]
    return [*bought, candidate.step] if candidate.step else bought


def _counts(usage: Usage | None) -> list[int] | None:
    """Return the counts of a usage as the detail has them."""
    if usage is None:
        return None
    return [
        usage.input_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
    ]


class Billing:
    """Makes the holds of billed calls (reference 5.3).

    One per process, stateless. The use-case knows the amount, the wallet decides whether the
    balance covers it.
    """

    def __init__(
        self,
        *,
        wallets: Wallets,
        nodes: LiveNodes,
        live: LiveCalls,
        current: LiveConfig,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self.wallets = wallets
        self.nodes = nodes
        self.live = live
        self.current = current
        self.upstream_prices = UpstreamPrices(current)
        self.clock = clock
        self.metrics = metrics

    def hold(self, call: Call, bill: B, client: Client) -> Settlement[B]:
        """Return the settlement of a call, to be entered: that holds the most it may cost."""
        observer = CallObserver(call, self.clock, self.metrics)
        attempts = Attempts(call, observer)
        return Settlement(call, bill, observer, attempts, client, self, self.current.redactor)
