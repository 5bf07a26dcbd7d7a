"""One media call that is answered at once: hold, candidates, attempts, response, settlement.

The response is the upstream's, byte for byte, and so are its errors (spec: Images; contract §7).
The money on the way in and out is `billing.py`, what is counted and priced is the call's own bill.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.directory import ChannelDirectory
from actors.failover import Failover, FailoverExhausted
from actors.router import candidates
from actors.wallet.claims import KeptResponse
from channels.deadlines import TimeLimits
from channels.errors import ErrorBody, UpstreamFailed
from channels.redact import Redactor
from gw.calls.billing import Billing
from gw.calls.call import ResponseWriter
from gw.calls.media import MediaBill, MediaCall, MediaResult, MediaUpstream
from gw.calls.outcome import SUCCESS, Ending, ending_of_failure, ending_of_refusal, ending_of_report
from gw.calls.results import UpstreamRefusal
from gw.calls.settlement import Settlement


class SyncMedia:
    """Runs media calls of one kind, which are answered at once. Of its own it has their time."""

    def __init__(
        self,
        *,
        billing: Billing,
        channels: ChannelDirectory,
        upstream: MediaUpstream,
        redactor: Callable[[], Redactor],
        total_seconds: float,
    ) -> None:
        self._billing = billing
        self._channels = channels
        self._upstream = upstream
        self._redactor = redactor
        self._limits = TimeLimits(total_seconds)

    async def run(self, call: MediaCall, writer: ResponseWriter) -> None:
        """Serve one call to its end.

        Raises GatewayError while nothing has been sent, KeyTaken when its key is not free.
        """
        async with await self._billing.hold(
            call,
            call.bill,
            writer,
            amount_nano_usd=call.bill.hold_nano_usd,
            cheaper=call.cheaper,
            submission=call.submission,
        ) as settlement:
            await self._serve(call, settlement, writer)

    async def _serve(
        self, call: MediaCall, settlement: Settlement[MediaBill], writer: ResponseWriter
    ) -> None:
        order = candidates(call.model, call.facts.protocol, self._channels)
        settlement.receipt.considered(order)
        attempts = settlement.attempts
        try:
            result = await attempts.first_result(
                self._upstream, call, Failover(order, self._channels), self._limits.begin()
            )
        except FailoverExhausted as failure:
            ending = ending_of_failure(failure, self._redactor())
            last = failure.failed[-1].error if failure.failed else None
            passed_body = last.error_body if isinstance(last, UpstreamFailed) else None
            await self._pass_on(settlement, ending, passed_body, writer)
            return
        if isinstance(result, UpstreamRefusal):
            ending = ending_of_refusal(result, self._redactor())
            await self._pass_on(settlement, ending, result.error_body, writer)
        else:
            await self._deliver(settlement, result, writer)

    async def _deliver(
        self, settlement: Settlement[MediaBill], result: MediaResult, writer: ResponseWriter
    ) -> None:
        """Settle before the response goes out: a client that reads it finds the balance moved."""
        if result.failed is not None:
            # Its way of refusing this prompt, say: no sign that the channel is ill.
            settlement.attempts.finish("success", "error_event")
            settlement.fail(ending_of_report(result.failed, self._redactor()))
        settlement.attempts.finish("success", "ok")
        settlement.end(SUCCESS)
        settlement.first_byte()
        headers = (("Content-Type", result.content_type),)
        settlement.keep(KeptResponse(status=result.http_status, headers=headers, body=result.body))
        settlement.settle()
        await settlement.until_durable()
        writer.begin(result.content_type, {}, http_status=result.http_status)
        writer.send(result.body)

    async def _pass_on(
        self,
        settlement: Settlement[MediaBill],
        ending: Ending,
        passed_body: ErrorBody | None,
        writer: ResponseWriter,
    ) -> None:
        """Pass an upstream's error on as it came: what names ours is redacted already."""
        if passed_body is None:
            settlement.fail(ending)
        settlement.end(ending)
        settlement.settle()
        await settlement.until_durable()
        assert ending.error is not None
        writer.begin(
            passed_body.content_type, ending.error.headers, http_status=ending.error.http_status
        )
        writer.send(passed_body.body)
