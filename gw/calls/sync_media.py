"""One media call that is answered at once: hold, candidates, attempts, answer, settlement.

The answer is the upstream's, byte for byte, and so are its errors (spec: Images; contract §7). The
money on the way in and out is `billing.py`, what is counted and priced is the call's own bill.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.directory import ChannelDirectory
from actors.failover import NoAnswer
from actors.router import candidates
from actors.wallet.claims import Keep
from channels.redact import Redactor
from gw.calls.answers import ErrorBody, Refusal, UpstreamFailed
from gw.calls.billing import Billing
from gw.calls.call import AnswerWriter
from gw.calls.ending import (
    SUCCESS,
    Ending,
    ending_of_failure,
    ending_of_refusal,
    ending_of_report,
)
from gw.calls.media import MediaBill, MediaCall
from gw.calls.media_attempt import MediaAnswer, MediaUpstream
from gw.calls.running import Running


class SyncMedia:
    """Runs media calls that are answered at once. One per process; holds no state of its own."""

    def __init__(
        self,
        *,
        billing: Billing,
        channels: ChannelDirectory,
        upstream: MediaUpstream,
        redactor: Callable[[], Redactor],
    ) -> None:
        self._billing = billing
        self._channels = channels
        self._upstream = upstream
        self._redactor = redactor

    async def run(self, call: MediaCall, writer: AnswerWriter) -> None:
        """Serve one call to its end.

        Raises GatewayError while nothing has been sent, KeyTaken when its key is not free.
        """
        await self._billing.run(
            call,
            call.bill,
            lambda running: self._serve(call, running, writer),
            writer,
            hold_nano_usd=call.bill.hold_nano_usd,
            cheaper=call.cheaper,
            submission=call.submission,
        )

    async def _serve(
        self, call: MediaCall, running: Running[MediaBill], writer: AnswerWriter
    ) -> None:
        deadline = asyncio.get_running_loop().time() + call.total_seconds
        order = candidates(call.model, call.facts.protocol, self._channels)
        running.receipt.considered(order)
        try:
            answer = await running.first_answer(
                order,
                self._channels,
                lambda candidate, lease: self._upstream.attempt(
                    call, candidate, lease, deadline=deadline, running=running
                ),
            )
        except NoAnswer as failure:
            ending = ending_of_failure(failure, self._redactor())
            last = failure.failed[-1].error if failure.failed else None
            told = last.error_body if isinstance(last, UpstreamFailed) else None
            await self._pass_on(running, ending, told, writer)
        else:
            if isinstance(answer, Refusal):
                running.finish_attempt("success", f"status_{answer.status // 100}xx")
                ending = ending_of_refusal(answer, self._redactor())
                await self._pass_on(running, ending, answer.error_body, writer)
            else:
                await self._answer(running, answer, writer)

    async def _answer(
        self, running: Running[MediaBill], answer: MediaAnswer, writer: AnswerWriter
    ) -> None:
        """Settled before the answer goes out: whoever reads it finds the balance moved."""
        if answer.failed is not None:
            # Its way of refusing this prompt, say: no sign that the channel is ill.
            running.finish_attempt("success", "error_event")
            running.fail(ending_of_report(answer.failed, self._redactor()))
        running.finish_attempt("success", "ok")
        running.end(SUCCESS)
        running.first_byte()
        headers = (("Content-Type", answer.content_type),)
        running.keep(Keep(status=answer.http_status, headers=headers, body=answer.body))
        running.settle()
        await running.until_durable()
        writer.begin(answer.content_type, {}, http_status=answer.http_status)
        writer.send(answer.body)

    async def _pass_on(
        self,
        running: Running[MediaBill],
        ending: Ending,
        told: ErrorBody | None,
        writer: AnswerWriter,
    ) -> None:
        """An upstream's error goes to the client as it came: what names ours is masked already."""
        if told is None:
            running.fail(ending)
        running.end(ending)
        running.settle()
        await running.until_durable()
        assert ending.error is not None
        writer.begin(told.content_type, ending.error.headers, http_status=ending.error.http_status)
        writer.send(told.body)
