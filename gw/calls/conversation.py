"""One chat call, in order: estimate, hold, candidates, attempts, response, settlement.

The heart of the gateway, and the same for every chat protocol. The money on the way in and out is
`billing.py`; a call of another kind than chat is `sync_media.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.clock import Clock
from actors.directory import ChannelDirectory
from actors.failover import Failover, FailoverExhausted
from actors.health import Verdict
from actors.wallet.pricing import TokenPrice
from channels.deadlines import TimeLimits
from channels.dialects.dialect import Meter
from channels.errors import UpstreamError
from channels.http.interfaces import Wire
from channels.offload.pool import OffloadPool
from channels.redact import Redactor
from channels.registry import ModelSpec
from gw.calls.billing import Billing
from gw.calls.call import ChatCall, ResponseWriter
from gw.calls.charge import estimate
from gw.calls.chat_upstream import ChatUpstream
from gw.calls.outcome import SUCCESS, Ending, ending_of_failure, ending_of_refusal
from gw.calls.results import CompleteResponse, StreamedResponse, UpstreamRefusal
from gw.calls.settlement import Settlement
from gw.calls.stream_relay import Relay
from gw.calls.tokens import TokenBill
from gw.calls.tools import channels_for
from gw.config.config import Precharge
from metrics.prometheus import Metrics


class Conversation:
    """Runs chat calls. One per process; of its own it has the time of its calls."""

    def __init__(
        self,
        *,
        billing: Billing,
        channels: ChannelDirectory,
        wire: Wire,
        redactor: Callable[[], Redactor],
        price_of: Callable[[ModelSpec], TokenPrice],
        clock: Clock,
        timeout_seconds: float,
        response_bytes_max: int,
        offload: OffloadPool,
        precharge: Precharge,
        metrics: Metrics,
    ) -> None:
        self._billing = billing
        self._channels = channels
        self._upstream = ChatUpstream(
            wire=wire,
            redactor=redactor,
            clock=clock,
            response_bytes_max=response_bytes_max,
            offload=offload,
        )
        self._redactor = redactor
        self._price_of = price_of
        self._precharge = precharge
        self._metrics = metrics
        self._limits = TimeLimits(timeout_seconds)

    async def run(self, call: ChatCall, writer: ResponseWriter) -> None:
        """Serve one call to its end.

        Raises GatewayError while nothing has been sent. Once something has been, a failure ends
        the stream early, without a terminator (spec: Stream failure behaviour).
        """
        price = self._price_of(call.model)
        is_whole = self._precharge == "whole_body"
        expected = estimate(
            content_bytes=call.body_bytes if is_whole else call.content_bytes,
            max_tokens=call.max_tokens,
            model_max_output_tokens=call.model.max_output_tokens,
            price=price,
        )
        async with await self._billing.hold(
            call,
            TokenBill(price=price, expected=expected, is_stream=call.is_stream),
            writer,
            amount_nano_usd=expected.amount_nano_usd,
            cheaper="or send a smaller max_tokens.",
        ) as settlement:
            await self._serve(call, settlement, writer)

    async def _serve(
        self, call: ChatCall, settlement: Settlement[TokenBill], writer: ResponseWriter
    ) -> None:
        if self._precharge == "messages":
            self._metrics.bytes_not_held_for(
                model=call.model.id, count=call.body_bytes - call.content_bytes
            )
        order, able = channels_for(call, self._channels)
        receipt, attempts = settlement.receipt, settlement.attempts
        receipt.considered(order, is_pinned=call.pin is not None)
        if able is not order:
            receipt.passed_over({c.channel_id: "tool" for c in order if c not in able})
        limit = self._limits.begin()
        try:
            result = await attempts.first_result(
                self._upstream, call, Failover(able, self._channels), limit
            )
        except FailoverExhausted as failure:
            settlement.fail(ending_of_failure(failure, self._redactor()))
        if isinstance(result, UpstreamRefusal):
            settlement.fail(ending_of_refusal(result, self._redactor()))
        settlement.bill.meter = result.meter
        if isinstance(result, CompleteResponse):
            self._end_complete(settlement, result.meter)
            settlement.first_byte()
            settlement.settle()
            writer.begin("application/json", result.headers)
            writer.send(result.body)
        else:
            call.request.forget()  # it may be megabytes, and a stream lasts for minutes
            writer.forget_request()
            await self._relay(settlement, result, writer, limit.deadline)

    async def _relay(
        self,
        settlement: Settlement[TokenBill],
        result: StreamedResponse,
        writer: ResponseWriter,
        deadline: float,
    ) -> None:
        """Pass events on as they come; from the first on there is no failover."""
        meter = result.meter
        writer.begin(result.framing.content_type, result.headers)
        relay = Relay(result, settlement, writer, deadline=deadline)
        try:
            await relay.run()
        except UpstreamError:
            pass  # cut, unless the end had been seen
        except TimeoutError:
            if not meter.finished:
                # Who kept us waiting? A client that does not read says nothing of the channel.
                verdict: Verdict = "abandoned" if relay.is_held_up else "failure"
                settlement.attempts.finish(verdict, "timeout")
                settlement.end(
                    Ending(
                        "interrupted",
                        "upstream_timeout",
                        TIMED_OUT,
                        is_clients=relay.is_held_up,
                    )
                )
                relay.last.append(result.framing.broken(TIMED_OUT))
        last = relay.last
        if settlement.ending is not None:
            pass
        elif meter.finished:
            self._end_complete(settlement, meter)
            last.append(result.framing.end())
        else:
            settlement.attempts.finish("failure", "cut")
            settlement.end(Ending("error", "upstream_error", _CUT))
            last.append(result.framing.broken(_CUT))
        # Settled before the last bytes go out: a client that reads to the end finds the balance
        # moved.
        if writer.sends_at_once or settlement.ending is SUCCESS:
            settlement.first_byte()
        settlement.settle()
        await relay.finish()

    def _end_complete(self, settlement: Settlement[TokenBill], meter: Meter) -> None:
        """The response came to its end, but it may say that it is an error."""
        if meter.error_seen is not None:
            settlement.attempts.finish("failure", "error_event")
            settlement.end(Ending("error", "upstream_error", _ERROR_EVENT))
        else:
            settlement.attempts.finish("success", "ok")
            settlement.end(SUCCESS)


_CUT = "The upstream ended the stream before it was complete."
_ERROR_EVENT = "The upstream reported an error within its answer."
TIMED_OUT = "The call took longer than the gateway allows."
