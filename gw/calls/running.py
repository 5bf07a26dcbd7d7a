"""A call between its hold and its settlement: what it has delivered, tried and decided.

`settle` is the one way out for the money and does nothing the second time. Everything here is
synchronous, so that it can stand in a `finally` of a cancelled call; only `let_go`, which waits for
an upstream connection to become reusable, is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from actors.channel import Lease
from actors.clock import Clock
from actors.directory import ChannelDirectory
from actors.failover import Answered, FailedAttempt, NoAnswer, first_answer
from actors.health import Verdict
from actors.live import Delivered, LiveCalls
from actors.mailbox import ActorStopped
from actors.router import Candidate
from actors.wallet.claims import ClaimEnd, Keep
from actors.wallet.messages import LedgerUnavailable, Outcome
from actors.wallet.wallets import Wallets
from channels.errors import UpstreamError
from channels.families import UNIT_TYPES
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from channels.redact import Redactor
from gw.calls.bill import Bill, Charged
from gw.calls.call import PaidCall
from gw.calls.ending import CLIENT_GONE, NO_CHANNEL, STOPPING, Ending, attempt_row
from gw.calls.receipt import Receipt
from gw.errors.table import NO_CHANNEL_AVAILABLE, GatewayError
from gw.idempotency.submission import Submission
from metrics import genai
from metrics.prometheus import Metrics
from metrics.tracing import AttemptSpan

# How long an upstream may take to end its answer after the terminator before its connection is
# given up for reuse.
LET_GO_SECONDS = 0.5
# How long an answer may wait for its own settlement when the database hangs.
DURABLE_SECONDS = 5.0


B = TypeVar("B", bound=Bill)
T = TypeVar("T")


class Running(Generic[B]):
    """The state of one call under way."""

    def __init__(
        self,
        *,
        call: PaidCall,
        bill: B,
        wallets: Wallets,
        live: LiveCalls,
        clock: Clock,
        metrics: Metrics,
        redactor: Redactor,
        submission: Submission | None = None,
    ) -> None:
        self.call = call
        self.bill = bill
        self.receipt = Receipt(call.detail)
        self.ending: Ending | None = None
        self._wallets = wallets
        self._live = live
        self._clock = clock
        self._metrics = metrics
        self._redactor = redactor
        self._submission = submission
        self._kept: Keep | None = None
        self._failed: list[FailedAttempt] = []
        self._response: UpstreamResponse | None = None
        self._answered: Answered[Any] | None = None
        self._attempt_span: AttemptSpan | None = None
        self._attempt_channel = ""
        self._attempt_at = 0.0
        self._attempt_started = 0.0
        self._status: int | None = None  # of the last attempt's answer
        self._is_settled = False
        self._first_byte_seconds: float | None = None

    def __repr__(self) -> str:
        state = "settled" if self._is_settled else "open"
        return f"<Running {self.call.facts.call_id.hex} {state} {self.ending}>"

    def delivered(self) -> Delivered | None:
        """What has gone out so far, priced; for the heartbeat."""
        return None if self._first_byte_seconds is None else self.bill.delivered()

    # Attempts

    async def first_answer(
        self,
        order: Sequence[Candidate],
        channels: ChannelDirectory,
        attempt: Callable[[Candidate, Lease], Awaitable[T]],
    ) -> T:
        """Try channels in this order; the lease of the one that answers is ours from here on.

        Raises NoAnswer, or GatewayError when the channels' actors are gone.
        """
        try:
            answered = await first_answer(
                order, channels, attempt, clock=self._clock, on_failed=self._failed.append
            )
        except NoAnswer as failure:
            self.receipt.passed_over(failure.passed_over)
            raise
        except ActorStopped as error:
            raise GatewayError(NO_CHANNEL_AVAILABLE, NO_CHANNEL) from error
        self._answered = answered
        self.receipt.passed_over(answered.passed_over)
        return answered.answer

    def begin_attempt(self, candidate: Candidate) -> None:
        """A channel is being tried."""
        self._attempt_channel = candidate.channel_id
        self._attempt_at = self._clock.now()
        self._attempt_started = self._clock.monotonic()
        self._status = None
        if self.call.span.sampled:
            self._attempt_span = self.call.span.attempt(
                attributes={
                    "gw.channel": candidate.channel_id,
                    genai.REQUEST_MODEL: candidate.upstream_model,
                }
            )

    def traced(self, request: UpstreamRequest) -> UpstreamRequest:
        """The request with the attempt's `traceparent`, when the call is sampled."""
        parent = self.call.span.traceparent()
        if parent is None:
            return request
        return UpstreamRequest(
            method=request.method,
            url=request.url,
            headers=(*request.headers, ("traceparent", parent)),
            body=request.body,
        )

    def took_response(self, response: UpstreamResponse) -> None:
        """The attempt has a response, which is closed whatever happens."""
        self._response = response
        self._status = response.status

    def took_whole(self) -> None:
        """The response was read to its end: nothing of it is left to wait for."""
        if self._response is not None:
            self._response.close()
            self._response = None

    def drop_attempt(self, outcome: str) -> None:
        """The attempt gave no answer."""
        self.bill.discard()
        if self._response is not None:
            self._response.close()
            self._response = None
        self._end_attempt(outcome, is_ok=False)

    def finish_attempt(self, verdict: Verdict, outcome: str) -> None:
        """The answered attempt is over: the lease goes back with a verdict. Once."""
        answered, self._answered = self._answered, None
        if answered is not None:
            answered.lease.release(verdict)
            # A refusal says nothing against the channel; the try has still failed.
            self._end_attempt(outcome, is_ok=outcome == "ok")

    def _end_attempt(self, outcome: str, *, is_ok: bool) -> None:
        channel, seconds = self._attempt_channel, self._clock.monotonic() - self._attempt_started
        self._metrics.attempt(channel=channel, outcome=outcome, seconds=seconds)
        self.receipt.tried(channel, at=self._attempt_at, seconds=seconds, outcome=outcome)
        if self._attempt_span is not None:
            self._attempt_span.end(status_ok=is_ok, attributes={"gw.outcome": outcome})
            self._attempt_span = None

    # The way out

    def first_byte(self) -> None:
        """Something goes out to the client now."""
        if self._first_byte_seconds is None:
            seconds = self._first_byte_seconds = self._clock.monotonic() - self.call.started
            self._metrics.first_byte(
                protocol=self.call.facts.protocol, model=self.call.model.id, seconds=seconds
            )
            self.receipt.first_byte(seconds)

    def end(self, ending: Ending) -> None:
        """Say how the call ended. The first word counts."""
        if self.ending is None:
            self.ending = ending

    def keep(self, answer: Keep) -> None:
        """This is the whole answer, to be kept with the settlement if the call has a key."""
        self._kept = answer

    def fail(self, ending: Ending) -> NoReturn:
        """Say how the call ended, and raise what the client is told of it."""
        self.end(ending)
        assert ending.error is not None
        raise ending.error

    def settle(self) -> None:
        """End the call: lease back, hold released, cost taken, row written. Once."""
        if self._is_settled:
            return
        self._is_settled = True
        try:
            self.finish_attempt("abandoned", "cancelled")
            ending = self.ending or STOPPING
            charged = self.bill.charged(first_byte_seconds=self._first_byte_seconds)
            now = self._clock.now()
            seconds = self._clock.monotonic() - self.call.started
            outcome = self._outcome(ending, charged, now, seconds)
            self._wallets.settle(
                self.call.facts, outcome, claim_end=self._claim_end(ending, charged)
            )
            self._measure(ending, charged, seconds)
        finally:
            # Whatever went wrong above: a hold without a live call is found by recovery.
            self._live.leave(self.call.facts.call_id)

    async def until_durable(self) -> None:
        """Wait until a call with a key is settled: an answer is kept before anybody sees it.

        And whoever is told of an error finds the key free, in every process. A ledger that cannot
        be reached keeps nobody waiting for long; it is settled later.
        """
        if self._submission is not None:
            try:
                async with asyncio.timeout(DURABLE_SECONDS):
                    await self._wallets.settled(self.call.facts.account_id)
            except (TimeoutError, LedgerUnavailable):
                pass  # the writer goes on trying, and says so

    async def let_go(self) -> None:
        """Close the upstream response, after a moment for it to end by itself."""
        response, self._response = self._response, None
        if response is None:
            return
        try:
            if self.bill.is_complete and not response.has_ended:
                async with asyncio.timeout(LET_GO_SECONDS):
                    async for _ in response.chunks():
                        pass
        except (TimeoutError, UpstreamError):
            pass  # not reusable then; close() below ends it
        finally:
            response.close()

    def _claim_end(self, ending: Ending, charged: Charged) -> ClaimEnd:
        if self._submission is None:
            return None
        cost = charged.cost_nano_usd
        return self._submission.end(
            ending.status,
            client_left=ending == CLIENT_GONE,
            cost_nano_usd=cost,
            answer=self._kept,
        )

    def _outcome(self, ending: Ending, charged: Charged, now: float, seconds: float) -> Outcome:
        usage = charged.usage
        return Outcome(
            status=ending.status,
            cost_nano_usd=charged.cost_nano_usd,
            created_at=now,
            latency_ms=round(seconds * 1000),
            error_code=ending.code,
            error_message=ending.message,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            units=charged.units,
            result_urls=charged.result_urls,
            result_expires_at=charged.result_expires_at,
            attempts=[attempt_row(attempt, self._redactor) for attempt in self._failed],
            detail=self.receipt.finished(charged, self._status, self._redactor),
        )

    def _measure(self, ending: Ending, charged: Charged, seconds: float) -> None:
        metrics, call, usage = self._metrics, self.call, charged.usage
        model = call.model.id
        metrics.call_finished(
            protocol=call.facts.protocol,
            model=model,
            status=ending.status,
            code=ending.code or "ok",
            seconds=seconds,
        )
        if ending.fault is not None:
            metrics.call_failed(model=model, fault=ending.fault)
        if usage.input_tokens or usage.output_tokens:
            metrics.tokens(
                model=model,
                input_tokens=usage.input_tokens,
                cached_tokens=usage.cached_tokens,
                output_tokens=usage.output_tokens,
            )
        if charged.units:
            metrics.units(model=model, unit=UNIT_TYPES[call.facts.protocol], count=charged.units)
        if charged.cost_nano_usd:
            metrics.cost(model=model, nano_usd=charged.cost_nano_usd)
        if call.span.sampled:
            first_byte_seconds = self._first_byte_seconds
            call.span.end(
                status_ok=ending.status == "success",
                attributes={
                    "gw.cost_nano_usd": charged.cost_nano_usd,
                    "gw.status": ending.status,
                    "gw.error_code": ending.code or "",
                    **self.bill.attributes(charged, first_byte_seconds=first_byte_seconds),
                },
            )
