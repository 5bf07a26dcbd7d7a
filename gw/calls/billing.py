"""The hold of a call that costs money, whatever is sold; its way out is `settlement.py`.

How much is held, the use-case knows; whether the balance covers it is the wallet's word (spec:
Limits: pre-charge, holds).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from actors.clock import Clock
from actors.live import LiveCalls
from actors.wallet.claims import Claim
from actors.wallet.jobs import NewJob
from actors.wallet.messages import Hold, LedgerUnavailable, Outcome
from actors.wallet.money import MAX_NANO_USD
from actors.wallet.wallets import HoldRefused, KeyTaken, Wallets
from channels.redact import Redactor
from gw.calls.bill import Bill
from gw.calls.call import Client, PaidCall
from gw.calls.outcome import CLIENT_GONE, STOPPING, shown
from gw.calls.settlement import Settlement
from gw.calls.traces import HOLD, end_call
from gw.errors import table as errors
from gw.errors.table import GatewayError
from gw.idempotency.submission import Submission
from metrics.prometheus import Metrics
from metrics.spans import UNSAMPLED_CHILD, CallSpan, ChildSpan

B = TypeVar("B", bound=Bill)


class Billing:
    """Holds what calls may cost. One per process; holds no state of its own."""

    def __init__(
        self,
        *,
        wallets: Wallets,
        live: LiveCalls,
        redactor: Callable[[], Redactor],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._wallets = wallets
        self._live = live
        self._redactor = redactor
        self._clock = clock
        self._metrics = metrics

    async def hold(
        self,
        call: PaidCall,
        bill: B,
        client: Client,
        *,
        amount_nano_usd: int,
        cheaper: str,
        submission: Submission | None = None,
        job: NewJob | None = None,
    ) -> Settlement[B]:
        """Hold what a call may cost; what comes back settles it, once it is entered.

        `cheaper` tells a client that is refused what would cost less, `job` is what the call
        begins. Raises GatewayError, and KeyTaken when the idempotency key of the submission is not
        free. Nothing waits between the granted hold and the return.
        """
        span = call.span
        terms = {**bill.terms, "hold": amount_nano_usd}
        if span.trace_id is not None:
            terms["trace_id"] = span.trace_id
        call.detail.update(terms)
        step = span.child(HOLD) if span.sampled else UNSAMPLED_CHILD
        try:
            await self._admit(
                call,
                amount_nano_usd,
                client,
                terms=terms,
                cheaper=cheaper,
                claim=submission.claim if submission is not None else None,
                job=job,
            )
        except BaseException as error:
            self._refused(error, span, step, client)
            raise
        if span.sampled:
            step.end(attributes={"gw.hold_nano_usd": amount_nano_usd})
        client.owns_row()
        settlement = Settlement(
            call=call,
            bill=bill,
            client=client,
            wallets=self._wallets,
            live=self._live,
            clock=self._clock,
            metrics=self._metrics,
            redactor=self._redactor(),
            submission=submission,
        )
        self._live.enter(call.facts.call_id, settlement.delivered)
        self._metrics.call_started(call.facts.protocol)
        return settlement

    async def _admit(
        self,
        call: PaidCall,
        amount_nano_usd: int,
        client: Client,
        *,
        terms: Mapping[str, Any],
        cheaper: str,
        claim: Claim | None = None,
        job: NewJob | None = None,
    ) -> None:
        """Hold the amount, with the idempotency key that the call claims and the job it begins.

        `terms` stay with the hold, for the row that recovery may have to write. A call that is
        cancelled before the ledger's reply holds nothing and has its row. Raises as `hold` does.
        """
        if amount_nano_usd > MAX_NANO_USD:
            # An absurd maximum asks for more than any balance can cover.
            raise GatewayError(errors.QUOTA_EXCEEDED, f"{_NOT_COVERED} {cheaper}")
        try:
            await self._wallets.hold(
                Hold(
                    facts=call.facts,
                    amount_nano_usd=amount_nano_usd,
                    cap_nano_usd=call.cap_nano_usd,
                    detail=terms,
                    claim=claim,
                    job=job,
                )
            )
        except HoldRefused as refused:
            why = _SPEND_CAP if refused.reason == "spend_cap" else _NOT_COVERED
            raise GatewayError(errors.QUOTA_EXCEEDED, f"{why} {cheaper}") from refused
        except LedgerUnavailable as error:
            raise GatewayError(errors.NO_CHANNEL_AVAILABLE, _LEDGER_AWAY) from error
        except asyncio.CancelledError:
            client.owns_row()
            self._record_cancelled(call, is_client_gone=client.client_gone)
            raise

    def _refused(
        self, error: BaseException, span: CallSpan, step: ChildSpan, client: Client
    ) -> None:
        """End the spans of a call that held nothing: refused, or left before its hold."""
        if isinstance(error, KeyTaken):
            step.end()
            span.end(attributes={"gw.status": "not_executed", "gw.idempotency": error.state})
            return
        if isinstance(error, GatewayError):
            ending = shown("rejected", error)
        else:
            ending = CLIENT_GONE if client.client_gone else STOPPING
        step.end(error_type=ending.code)
        end_call(span, ending)

    def _record_cancelled(self, call: PaidCall, *, is_client_gone: bool) -> None:
        """Write the row of a call that ended before its hold was granted: nothing to settle."""
        ending = CLIENT_GONE if is_client_gone else STOPPING
        now = self._clock.now()
        seconds = self._clock.monotonic() - call.started
        self._wallets.record(
            call.facts,
            Outcome(
                status=ending.status,
                cost_nano_usd=0,
                created_at=now,
                latency_ms=round(seconds * 1000),
                error_code=ending.code,
                error_message=ending.message,
                detail=call.detail,
            ),
        )
        protocol = call.facts.protocol
        self._metrics.call_started(protocol)
        self._metrics.call_finished(
            protocol=protocol,
            model=call.model.id,
            status=ending.status,
            code=ending.code or "ok",
            seconds=seconds,
        )


_NOT_COVERED = "The balance does not cover the estimated cost of this request. Top up the account,"
_SPEND_CAP = "This key has reached its spend cap. Raise the cap,"
_LEDGER_AWAY = "The gateway cannot reach its ledger at the moment. Nothing was charged; try again."
