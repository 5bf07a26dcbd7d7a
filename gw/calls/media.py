"""The use-case of media calls: candidates, hold, attempts, response, settlement.

Results made while the client waits are settled before the response is sent, so that a client with a
response finds its balance changed. Later results are jobs (`jobs.py`). Images and their errors are
passed through byte for byte (reference 7.9); films, songs, recordings, voices and
scripts use the exchanges of `channels/media`. The bill of a call counts and prices the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from actors.channel_directory import ChannelDirectory
from actors.failover import Failover, FailoverExhausted
from actors.routing import Candidate, candidates
from actors.wallet.claims import KeptResponse
from channels import errors
from channels.deadlines import TimeLimits
from channels.registry import ChannelSpec
from gw.calls import endings, media_calls
from gw.calls.attempts import Upstream
from gw.calls.bills import Bill
from gw.calls.call import Client, ResponseWriter
from gw.calls.data_demand import refuse_unkept
from gw.calls.detached import DetachedTasks, DetachedWriter, StayingClient
from gw.calls.settlement import Billing, Settlement
from gw.config.live import LiveConfig
from gw.errors import INVALID_REQUEST, GatewayError

C = TypeVar("C", bound=media_calls.MediaCall)
C_contra = TypeVar("C_contra", bound=media_calls.MediaCall, contravariant=True)


class MediaUpstream(
    Upstream[C_contra, media_calls.Delivery | media_calls.SubmitResult | errors.UpstreamRefusal],
    Protocol,
):
    """The attempts of one kind of media call."""

    def makes(self, call: C_contra, candidate: Candidate, channel: ChannelSpec) -> bool:
        """Whether a channel supports the call's request."""


class Media(Generic[C]):
    """Runs media calls of one kind, within `total_seconds`.

    `unknown` is called with a channel that may have made a result that no client received; without
    it such results are assumed to be unpaid.
    """

    def __init__(
        self,
        *,
        billing: Billing,
        channels: ChannelDirectory,
        upstream: MediaUpstream[C],
        current: LiveConfig,
        total_seconds: float,
        detached: DetachedTasks,
        unknown: Callable[[C, str], None] | None = None,
    ) -> None:
        self._billing = billing
        self._channels = channels
        self._upstream = upstream
        self._current = current
        self._limits = TimeLimits(total_seconds)
        self._detached = detached
        self._unknown = unknown

    async def run_call(self, call: C, writer: ResponseWriter) -> None:
        """Serve a call to its end; a disconnect of the client cancels it.

        Raises GatewayError, and KeyTaken when the idempotency key of the call is not free.
        """
        _send(await self._serve(call, writer), writer)

    async def run_detached(self, call: C, writer: DetachedWriter) -> None:
        """Serve a call to its end, even if its client disconnects. Raises like `run`."""
        _send(await self._detached.run(self._serve(call, StayingClient(writer)), writer), writer)

    async def _serve(self, call: C, client: Client) -> media_calls.Delivery:
        order = self._order(call)
        if call.demand is not None:
            refuse_unkept(call.demand, order, self._channels)
        async with self._billing.hold(call, call.bill, client) as settlement:
            settlement.observer.considered(order)
            attempts = settlement.attempts
            try:
                result = await attempts.first_result(
                    self._upstream,
                    call,
                    Failover(order, self._channels, call.demand),
                    self._limits.begin(),
                )
            except FailoverExhausted as failure:
                last = failure.failed[-1].error if failure.failed else None
                passed_body = last.error_body if isinstance(last, errors.UpstreamFailed) else None
                return await self._refuse(settlement, self._ending_of(call, failure), passed_body)
            except asyncio.CancelledError:
                if attempts.is_sent and attempts.candidate is not None:
                    attempts.note_unknown()
                    self._abandon(call, attempts.candidate.channel_id)
                raise
            if isinstance(result, errors.UpstreamRefusal):
                ending = endings.ending_of_refusal(result, self._current.redactor)
                return await self._refuse(settlement, ending, result.error_body)
            return await self._finish(call, settlement, result)
        raise AssertionError("a settlement swallows a client's leaving alone, and nothing is sent")

    async def _finish(
        self,
        call: C,
        settlement: Settlement[Bill],
        result: media_calls.Delivery | media_calls.SubmitResult,
    ) -> media_calls.Delivery:
        """Settle a call with a result."""
        delivery = await self._delivery_of(call, result)
        if delivery.failed is not None:
            # E.g. a refusal of this prompt, which is no failure of the channel.
            settlement.attempts.finish_attempt("success", "error_event")
            settlement.fail(endings.ending_of_report(delivery.failed, self._current.redactor))
        settlement.attempts.finish_attempt("success", "ok")
        settlement.set_ending(endings.SUCCESS)
        settlement.note_delivery()
        settlement.keep(kept(delivery))
        settlement.settle()
        await settlement.until_durable()
        return delivery

    async def _delivery_of(
        self, call: C, result: media_calls.Delivery | media_calls.SubmitResult
    ) -> media_calls.Delivery:
        if isinstance(result, media_calls.Delivery):
            return result
        assert isinstance(call, media_calls.SubmitCall), call
        try:
            return await call.deliver(result)
        except BaseException:  # also cancelled, when the process ends before the result is stored
            self._abandon(call, result.candidate.channel_id)
            raise

    def _order(self, call: C) -> list[Candidate]:
        """Return the candidates. Raises GatewayError if none of them knows the pinned objects."""
        order = candidates(call.model, call.facts.protocol, self._channels)
        for pin in call.pins:
            order = [one for one in order if one.channel_id == pin.channel_id]
            if not order:
                raise GatewayError(
                    INVALID_REQUEST,
                    f"{pin.param}: the model `{call.model.id}` is not served where this was made.",
                    param=pin.param,
                )
        specs = {one.channel_id: self._channels[one.channel_id].spec for one in order}
        return [one for one in order if self._upstream.makes(call, one, specs[one.channel_id])]

    async def _refuse(
        self,
        settlement: Settlement[Bill],
        ending: endings.Ending,
        passed_body: errors.ErrorBody | None,
    ) -> media_calls.Delivery:
        """Pass the upstream's error through; it is redacted already."""
        if passed_body is None:
            settlement.fail(ending)
        settlement.set_ending(ending)
        settlement.settle()
        await settlement.until_durable()
        error = ending.error
        assert error is not None
        return media_calls.Delivery(
            passed_body.content_type, passed_body.body, error.http_status, error.headers
        )

    def _abandon(self, call: C, channel_id: str) -> None:
        """Report a result of this channel, or a possible one, that no client will receive."""
        # Retried like a connection lost during the request.
        if self._unknown is not None and self._upstream.retry(errors.UpstreamLost()) == "unknown":
            self._unknown(call, channel_id)

    def _ending_of(self, call: C, failure: FailoverExhausted) -> endings.Ending:
        if self._unknown is not None and failure.failed:
            last = failure.failed[-1]
            if self._upstream.retry(last.error) == "unknown":
                self._unknown(call, last.channel_id)
                return endings.ending_of_unknown(failure, self._current.redactor)
        return endings.ending_of_failure(failure, self._current.redactor)


def kept(delivery: media_calls.Delivery) -> KeptResponse:
    """Return the response in the form kept for an idempotency key."""
    headers = (("Content-Type", delivery.content_type),)
    return KeptResponse(status=delivery.http_status, headers=headers, body=delivery.body)


def _send(delivery: media_calls.Delivery, writer: ResponseWriter) -> None:
    writer.begin(delivery.content_type, delivery.headers, http_status=delivery.http_status)
    writer.send(delivery.body)
