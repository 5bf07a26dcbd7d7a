"""The hold of a call that costs money, whatever is sold; its way out is `settlement.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from actors.clock import Clock
from actors.live import LiveCalls
from actors.wallet.jobs import NewJob
from actors.wallet.wallets import KeyTaken, Wallets
from channels.redact import Redactor
from gw.calls.admission import HoldAdmission
from gw.calls.bill import Bill
from gw.calls.call import Client, PaidCall
from gw.calls.settlement import Settlement
from gw.errors.table import GatewayError
from gw.idempotency.submission import Submission
from metrics.prometheus import Metrics
from metrics.spans import Attributes

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
        self._admission = HoldAdmission(wallets=wallets, clock=clock, metrics=metrics)
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
        terms = {**bill.terms, "hold": amount_nano_usd}
        call.detail.update(terms)
        try:
            await self._admission.hold(
                call,
                amount_nano_usd,
                client,
                terms=terms,
                cheaper=cheaper,
                claim=submission.claim if submission is not None else None,
                job=job,
            )
        except BaseException as error:
            call.span.end(status_ok=False, attributes=_not_admitted(error))
            raise
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


def _not_admitted(error: BaseException) -> Attributes:
    """What the span of a call says that held nothing: refused, or left before its hold."""
    if isinstance(error, GatewayError):
        return {"gw.status": "rejected", "gw.error_code": error.kind.code}
    if isinstance(error, KeyTaken):
        return {"gw.status": "not_executed", "gw.idempotency": error.state}
    return {"gw.status": "interrupted"}
