"""One chat call, in order: estimate, hold, candidates, attempts, response, settlement.

The same for every chat protocol. The money of a call is `settlement.py`; calls of other kinds are
`media.py`.
"""

from __future__ import annotations

from functools import partial

from actors.channel_directory import ChannelDirectory
from actors.circuit_breaker import Verdict
from actors.clock import Clock
from actors.failover import Failover, FailoverExhausted
from actors.routing import serving_protocols
from actors.wallet.bounds import bounds_of
from actors.wallet.pricing import Billable, TokenPrice
from actors.wallet.sheets import price_of
from channels.deadlines import TimeLimit, TimeLimits
from channels.dialects.dialect import ParsedChatRequest
from channels.dialects.meter import Meter
from channels.errors import UpstreamError, UpstreamRefusal
from channels.http.interfaces import UpstreamClient
from channels.offload.pool import OffloadPool
from channels.registry import ModelSpec
from gw.calls import endings
from gw.calls.attempts import Attempts
from gw.calls.billable import choices_of
from gw.calls.builtin_tools import channels_for
from gw.calls.call import ResponseWriter
from gw.calls.chat_request import ChatCall
from gw.calls.chat_upstream import ChatUpstream, CompleteResponse
from gw.calls.counting import TokenCounter
from gw.calls.data_demand import refuse_unkept
from gw.calls.keep_alive import EarlyHead, KeepAlives, sign_of_life
from gw.calls.relay import Relay, StreamedResponse
from gw.calls.served_models import ServedModels
from gw.calls.settlement import Billing, Settlement
from gw.calls.token_bill import TokenBill, estimate
from gw.config.config import Precharge
from gw.config.live import LiveConfig
from metrics.prometheus import Metrics


class ChatCalls:
    """Runs chat calls. One per process.

    `counter` serves requests that only count tokens; `served_models` are those that conversations
    with chains stay with.
    """

    def __init__(
        self,
        *,
        billing: Billing,
        channels: ChannelDirectory,
        http: UpstreamClient,
        current: LiveConfig,
        clock: Clock,
        timeout_seconds: float,
        response_bytes_max: int,
        offload: OffloadPool,
        precharge: Precharge,
        served_models: ServedModels,
        metrics: Metrics,
    ) -> None:
        self._billing = billing
        self._channels = channels
        self._upstream = ChatUpstream(
            http=http,
            current=current,
            clock=clock,
            response_bytes_max=response_bytes_max,
            offload=offload,
        )
        self._current = current
        self._precharge = precharge
        self._metrics = metrics
        self._limits = TimeLimits(timeout_seconds)
        self._keep_alives = KeepAlives()
        self.served_models = served_models
        self.counter = TokenCounter(channels=channels, http=http, current=current, clock=clock)

    def serving(self, model: ModelSpec) -> list[str]:
        """Return the public names of the protocols that reach a model without translation."""
        return serving_protocols(model, self._channels)

    async def run_call(self, call: ChatCall, writer: ResponseWriter) -> None:
        """Serve one call to its end.

        Raises GatewayError until the first byte is sent. After that a failure ends the stream
        early, without a terminator (reference 2.6).
        """
        if call.chain is None:
            bill = self._bill(call, call.model, call.billable)
        else:
            bill = call.chain.hold(partial(self._bill, call))
        if call.demand is not None:
            refuse_unkept(call.demand, channels_for(call, self._channels)[1], self._channels)
        async with self._billing.hold(call, bill, writer) as settlement:
            if self._precharge != "whole_body":
                left_out = len(call.request.body) - call.request.parsed.content_bytes
                self._metrics.bytes_not_held_for(model=call.model.id, count=left_out)
            order, able = channels_for(call, self._channels)
            observer, attempts = settlement.observer, settlement.attempts
            attempts.bounds = bill.bounds
            observer.considered(order, is_pinned=call.pin is not None)
            if able is not order:
                observer.passed_over({c.channel_id: "tool" for c in order if c not in able})
            limit = self._limits.begin()
            early = self._early_head(call, attempts, writer)
            try:
                result = await attempts.first_result(
                    self._upstream,
                    call,
                    # A trial would lose a conversation's cache, and tools are sold per use.
                    Failover(
                        able,
                        self._channels,
                        call.demand,
                        may_try=not (call.is_named or call.tools),
                    ),
                    limit,
                )
            except FailoverExhausted as failure:
                serving = self.serving(call.model)
                settlement.fail(
                    endings.ending_of_failure(failure, self._current.redactor, serving=serving)
                )
            finally:
                if early is not None:
                    self._keep_alives.forget_stream(early)
            if isinstance(result, UpstreamRefusal):
                settlement.fail(endings.ending_of_refusal(result, self._current.redactor))
            if call.chain is not None:
                self._serve(settlement, call)
            settlement.bill.served_by(observer.channel_id, result.meter)
            if isinstance(result, CompleteResponse):
                self._end_complete(settlement, result.meter)
                settlement.note_delivery()
                settlement.settle()
                if settlement.exceeds_hold:
                    await settlement.until_durable()
                writer.begin("application/json", result.headers)
                writer.send(result.body)
            else:
                call.request.forget()  # it may be megabytes, and a stream lasts for minutes
                writer.forget_request()
                if early is None or not early.has_begun:
                    writer.begin(result.framing.content_type, result.headers)
                await self._relay(settlement, result, writer, limit)

    def _bill(self, call: ChatCall, model: ModelSpec, billable: Billable | None) -> TokenBill:
        """Return the bill of a call for a model, held for its request."""
        price: TokenPrice = model.derived.get(TokenPrice) or price_of(model)
        parsed: ParsedChatRequest = call.request.parsed
        body_bytes = len(call.request.body)
        is_whole = self._precharge == "whole_body"
        return estimate(
            content_bytes=body_bytes if is_whole else parsed.content_bytes,
            body_bytes=body_bytes,
            max_tokens=parsed.max_tokens,
            model_max_output_tokens=model.max_output_tokens,
            price=price,
            bounds=bounds_of(
                model,
                body_bytes=body_bytes,
                max_tokens=parsed.max_tokens,
                choices=choices_of(parsed.parameters),
                runs_tools=bool(call.tools),
            ),
            billable=billable,
            is_stream=parsed.stream,
        )

    def _serve(self, settlement: Settlement[TokenBill], call: ChatCall) -> None:
        """Charge a chain's call for the model that responded; its conversation stays with it."""
        chain, candidate = call.chain, settlement.attempts.candidate
        assert chain is not None
        assert candidate is not None
        step = chain.steps[candidate.step]
        assert step.bill is not None
        step.bill.served, step.bill.is_repriced = candidate.step, True
        settlement.bill = step.bill
        if step.agreed is not None:
            call.detail["account_price"] = step.agreed
        settlement.observer.served()
        if call.pin is not None:
            now = settlement.observer.clock.monotonic()
            self.served_models.keep(chain.model, call.pin, candidate.step, now)

    def _early_head(
        self, call: ChatCall, attempts: Attempts, writer: ResponseWriter
    ) -> EarlyHead | None:
        """Let a stream whose answer is late begin before it, as is configured."""
        config = self._current.config
        if not call.request.parsed.stream:
            return None
        sign = sign_of_life(call.facts.protocol, call.framing)
        if not (sign and writer.sends_at_once):
            return None
        early = EarlyHead(
            attempts,
            writer,
            call.framing.content_type,
            sign,
            precedes_events=config.keep_alive_before_first_event,
        )
        self._keep_alives.watch_stream(early, config.keep_alive_seconds)
        return early

    async def _relay(
        self,
        settlement: Settlement[TokenBill],
        result: StreamedResponse,
        writer: ResponseWriter,
        limit: TimeLimit,
    ) -> None:
        """Send the stream; after its first event there is no failover."""
        meter, protocol = result.meter, settlement.call.facts.protocol
        relay = Relay(
            result,
            writer,
            note_delivery=settlement.record_of(meter).take,
            limit=limit,
            sign=sign_of_life(protocol, result.framing),
        )
        if writer.sends_at_once:
            self._keep_alives.watch_stream(relay, self._current.config.keep_alive_seconds)
        try:
            await relay.run_relay()
        except UpstreamError:
            pass  # cut, unless the terminator was read
        except TimeoutError:
            if not meter.finished:
                # A client that does not read is no evidence of the channel's health.
                verdict: Verdict = "abandoned" if relay.waits_for_client else "failure"
                settlement.attempts.finish_attempt(verdict, "timeout")
                settlement.set_ending(
                    endings.Ending(
                        "interrupted",
                        "upstream_timeout",
                        TIMED_OUT,
                        is_clients=relay.waits_for_client,
                    )
                )
                relay.broken_off(TIMED_OUT)
        finally:
            self._keep_alives.forget_stream(relay)
        last = relay.last
        if settlement.ending is not None:
            pass
        elif meter.finished:
            self._end_complete(settlement, meter)
            last.append(result.framing.end())
        else:
            settlement.attempts.finish_attempt("failure", "cut")
            settlement.set_ending(endings.Ending("error", "upstream_error", _CUT))
            relay.broken_off(_CUT)
        # Settled before the last bytes are sent, so that a client that has read the whole response
        # sees the new balance.
        if writer.sends_at_once or settlement.ending is endings.SUCCESS:
            settlement.note_delivery()
        settlement.settle()
        if settlement.exceeds_hold:
            await settlement.until_durable()
        await relay.finish_response()

    def _end_complete(self, settlement: Settlement[TokenBill], meter: Meter) -> None:
        """End the attempt of a complete response, which may be an error."""
        if meter.error_seen is not None:
            settlement.attempts.finish_attempt("failure", "error_event")
            settlement.set_ending(endings.Ending("error", "upstream_error", _ERROR_EVENT))
        else:
            settlement.attempts.finish_attempt("success", "ok")
            settlement.set_ending(endings.SUCCESS)


_CUT = "The upstream ended the stream before it was complete."
_ERROR_EVENT = "The upstream reported an error within its answer."
TIMED_OUT = "The call took longer than the gateway allows."
