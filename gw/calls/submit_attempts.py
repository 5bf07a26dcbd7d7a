"""The channels that may make what a call asks for: in which order, and what comes of asking them.

The same for what begins a job (`job_submit.py`) and for what is made while the client waits
(`whole_submit.py`). Whether another channel is asked after a failure is the upstream's `retry`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from actors.directory import ChannelDirectory
from actors.failover import Failover, FailoverExhausted
from actors.router import Candidate, candidates
from channels.deadlines import TimeLimits
from channels.errors import UpstreamLost
from channels.redact import Redactor
from gw.calls.bill import Bill
from gw.calls.exchange_upstream import ExchangeUpstream, Made, SubmitCall, dialect_of
from gw.calls.job import Pin
from gw.calls.outcome import (
    Ending,
    ending_of_failure,
    ending_of_refusal,
    ending_of_unknown,
)
from gw.calls.results import UpstreamRefusal
from gw.calls.settlement import Settlement
from gw.errors.table import INVALID_REQUEST, GatewayError


class PinnedCall(SubmitCall, Protocol):
    """A call whose request may name what only one channel knows."""

    @property
    def pins(self) -> Sequence[Pin]: ...


B = TypeVar("B", bound=Bill)
C = TypeVar("C", bound=PinnedCall)


class SubmitAttempts(Generic[C]):
    """Asks channels. `unknown` is told of one that may have made what nobody got."""

    def __init__(
        self,
        *,
        channels: ChannelDirectory,
        upstream: ExchangeUpstream,
        unknown: Callable[[C, str], None],
        redactor: Callable[[], Redactor],
        total_seconds: float,
    ) -> None:
        self._channels = channels
        self._upstream = upstream
        self._unknown = unknown
        self._redactor = redactor
        self._limits = TimeLimits(total_seconds)

    def __repr__(self) -> str:
        return f"<SubmitAttempts {self._upstream!r} {self._limits!r}>"

    def order(self, call: C) -> list[Candidate]:
        """The channels to ask. Raises GatewayError where the request names another one's."""
        order = candidates(call.model, call.facts.protocol, self._channels)
        for pin in call.pins:
            order = [one for one in order if one.channel_id == pin.channel_id]
            if not order:
                raise GatewayError(
                    INVALID_REQUEST,
                    f"{pin.param}: the model `{call.model.id}` is not served where this was made.",
                    param=pin.param,
                )
        return [one for one in order if self._makes(call, one)]

    async def made(self, call: C, settlement: Settlement[B], order: Sequence[Candidate]) -> Made:
        """Have a channel make it, or take it. Raises GatewayError; the settlement knows why."""
        settlement.receipt.considered(order)
        attempts = settlement.attempts
        try:
            result = await attempts.first_result(
                self._upstream, call, Failover(order, self._channels), self._limits.begin()
            )
        except FailoverExhausted as failure:
            settlement.fail(self._ending_of(call, failure))
        except asyncio.CancelledError:
            channel_id = attempts.abandoned_on
            # As a connection that is lost with the request on it.
            if channel_id is not None and self._upstream.retry(UpstreamLost()) == "unknown":
                self._unknown(call, channel_id)
            raise
        if isinstance(result, UpstreamRefusal):
            settlement.fail(ending_of_refusal(result, self._redactor()))
        return result

    def _makes(self, call: C, candidate: Candidate) -> bool:
        spec = self._channels[candidate.channel_id].spec
        return dialect_of(candidate, spec).makes(call.request)

    def _ending_of(self, call: C, failure: FailoverExhausted) -> Ending:
        if failure.failed and self._upstream.retry(failure.failed[-1].error) == "unknown":
            self._unknown(call, failure.failed[-1].channel_id)
            return ending_of_unknown(failure, self._redactor())
        return ending_of_failure(failure, self._redactor())
