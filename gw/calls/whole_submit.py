"""One call for what a media upstream makes while the client waits: speech, a voice, a script.

Hold, candidates, attempts, settlement, response, as with images (`sync_media.py`); requests and
responses of the upstream are the exchanges of `channels/media`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from actors.directory import ChannelDirectory
from actors.wallet.claims import KeptResponse
from actors.wallet.messages import CallFacts
from channels.media.requests import Submission as MediaSubmission
from channels.redact import Redactor
from channels.registry import ModelSpec
from gw.calls.billing import Billing
from gw.calls.call import Client, ResponseWriter
from gw.calls.exchange_upstream import ExchangeUpstream, Made
from gw.calls.job import Pin
from gw.calls.outcome import (
    SUCCESS,
)
from gw.calls.submit_attempts import SubmitAttempts
from gw.calls.unattended import Attendant, Nobody, Unattended
from gw.calls.unit_bill import UnitBill
from gw.idempotency.submission import Submission
from metrics.spans import CallSpan


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the client gets."""

    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCall:
    """A call that has passed every check except money and channels.

    `deliver` makes the client's response of the result, and keeps what is to be kept of it; should
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
    large: None = None
    submission: Submission | None = None
    detail: dict[str, Any] = field(default_factory=dict)


class WholeSubmit:
    """Runs calls of one kind. `unknown` gets the channel that may have made a lost result."""

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
        self._attempts: SubmitAttempts[WholeCall] = SubmitAttempts(
            channels=channels,
            upstream=upstream,
            unknown=unknown,
            redactor=redactor,
            total_seconds=total_seconds,
        )

    def __repr__(self) -> str:
        return f"<WholeSubmit {self._attempts!r}>"

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
        """Settle before the response is sent: a client that has it finds its balance changed."""
        order = self._attempts.order(call)
        async with await self._billing.hold(
            call,
            call.bill,
            client,
            amount_nano_usd=call.bill.hold_nano_usd,
            cheaper=call.cheaper,
            submission=call.submission,
        ) as settlement:
            made = await self._attempts.made(call, settlement, order)
            delivery = await call.deliver(made)
            settlement.attempts.finish("success", "ok")
            settlement.end(SUCCESS)
            settlement.first_byte()
            headers = (("Content-Type", delivery.content_type),)
            settlement.keep(KeptResponse(status=200, headers=headers, body=delivery.body))
            settlement.settle()
            await settlement.until_durable()
            return delivery
        raise AssertionError("a settlement swallows a client's leaving alone, and nothing is sent")


def _send(delivery: Delivery, writer: ResponseWriter) -> None:
    writer.begin(delivery.content_type, {})
    writer.send(delivery.body)
