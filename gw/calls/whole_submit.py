"""One call for what a media upstream makes while the client waits: speech, a voice, a script.

Hold, candidates, attempts, settlement, answer, as pictures are sold (`sync_media.py`); what is
asked for and what comes back are the exchanges of `channels/media`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from actors.directory import ChannelDirectory
from actors.failover import Failover, FailoverExhausted
from actors.router import Candidate
from actors.wallet.claims import KeptResponse
from actors.wallet.messages import CallFacts
from channels.deadlines import TimeLimits
from channels.media.requests import Submission as MediaSubmission
from channels.redact import Redactor
from channels.registry import ModelSpec
from gw.calls.billing import Billing
from gw.calls.call import Client, ResponseWriter
from gw.calls.exchange_upstream import ExchangeUpstream, Made
from gw.calls.job import Pin
from gw.calls.outcome import (
    SUCCESS,
    Ending,
    ending_of_failure,
    ending_of_refusal,
    ending_of_unknown,
)
from gw.calls.results import UpstreamRefusal
from gw.calls.settlement import Settlement
from gw.calls.submit_order import order_of
from gw.calls.unattended import Attendant, Nobody, Unattended
from gw.calls.unit_bill import UnitBill
from gw.idempotency.submission import Submission
from metrics.tracing import CallSpan


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the client gets."""

    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCall:
    """A call that has passed every check except money and channels.

    `deliver` makes the client's answer of what was made, and keeps what is to be kept of it; should
    it fail, nothing is charged. The rest is as in `JobCall`.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    bill: UnitBill
    cheaper: str
    request: MediaSubmission
    upstream_key: str
    deliver: Callable[[Made], Awaitable[Delivery]]
    span: CallSpan
    started: float  # monotonic seconds
    pins: tuple[Pin, ...] = ()
    submission: Submission | None = None
    detail: dict[str, Any] = field(default_factory=dict)


class WholeSubmit:
    """Runs calls of one kind. `unknown` is told of a channel that may have made what nobody got."""

    def __init__(
        self,
        *,
        billing: Billing,
        channels: ChannelDirectory,
        upstream: ExchangeUpstream,
        unknown: Callable[[WholeCall, str], None],
        redactor: Callable[[], Redactor],
        total_seconds: float,
    ) -> None:
        self._billing = billing
        self._channels = channels
        self._upstream = upstream
        self._unknown = unknown
        self._redactor = redactor
        self._limits = TimeLimits(total_seconds)

    def __repr__(self) -> str:
        return f"<WholeSubmit {self._upstream!r}>"

    async def run(self, call: WholeCall, writer: ResponseWriter) -> None:
        """Serve a call to its end; a client that leaves stops it.

        Raises GatewayError, and KeyTaken when the idempotency key of the call is not free.
        """
        _send(await self._serve(call, writer), writer)

    async def run_unattended(
        self, call: WholeCall, writer: Attendant, unattended: Unattended
    ) -> None:
        """The same, but that a client who leaves stops nothing."""
        delivered: list[Delivery] = []

        async def serve() -> None:
            delivered.append(await self._serve(call, Nobody(writer)))

        await unattended.run(serve(), writer)
        _send(delivered[0], writer)

    async def _serve(self, call: WholeCall, client: Client) -> Delivery:
        """Settled before the answer goes out: whoever reads it finds the balance moved."""
        order = order_of(call, self._channels)
        async with await self._billing.hold(
            call,
            call.bill,
            client,
            amount_nano_usd=call.bill.hold_nano_usd,
            cheaper=call.cheaper,
            submission=call.submission,
        ) as settlement:
            settlement.receipt.considered(order)
            delivery = await call.deliver(await self._made(call, settlement, order))
            settlement.attempts.finish("success", "ok")
            settlement.end(SUCCESS)
            settlement.first_byte()
            headers = (("Content-Type", delivery.content_type),)
            settlement.keep(KeptResponse(status=200, headers=headers, body=delivery.body))
            settlement.settle()
            await settlement.until_durable()
            return delivery
        raise AssertionError("a settlement swallows a client's leaving alone, and nothing is sent")

    async def _made(
        self, call: WholeCall, settlement: Settlement[UnitBill], order: list[Candidate]
    ) -> Made:
        """Have a channel make it. Raises GatewayError."""
        attempts, redactor = settlement.attempts, self._redactor()
        limit = self._limits.begin()
        try:
            made = await attempts.first_result(
                self._upstream, call, Failover(order, self._channels), limit
            )
        except FailoverExhausted as failure:
            settlement.fail(self._ending_of(call, failure, redactor))
        finally:
            limit.end()
        if isinstance(made, UpstreamRefusal):
            attempts.finish("success", f"status_{made.status // 100}xx")
            settlement.fail(ending_of_refusal(made, redactor))
        return made

    def _ending_of(self, call: WholeCall, failure: FailoverExhausted, redactor: Redactor) -> Ending:
        if failure.failed and self._upstream.retry(failure.failed[-1].error) == "unknown":
            self._unknown(call, failure.failed[-1].channel_id)
            return ending_of_unknown(failure, redactor)
        return ending_of_failure(failure, redactor)


def _send(delivery: Delivery, writer: ResponseWriter) -> None:
    writer.begin(delivery.content_type, {})
    writer.send(delivery.body)
