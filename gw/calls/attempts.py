"""The attempts of one call: one channel after another until one responses, each of them measured.

Everything that is tried on an upstream goes through `Attempts.first_result`, whatever the call is:
what is sent and how the response is read is the `Upstream`'s (`chat_upstream.py`,
`media.py`), and so is the table that says when another channel may be asked
(`retries.py`). Nothing here knows money: `settlement.py` reads what was tried when it writes the
call's row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from actors.channel import Lease
from actors.clock import Clock
from actors.failover import FailedAttempt, Failover, FailoverExhausted
from actors.health import Verdict
from actors.mailbox import ActorStopped
from actors.router import Candidate
from channels.deadlines import TimeLimit
from channels.errors import (
    ErrorReported,
    UnexpectedStatus,
    UpstreamError,
    UpstreamFailed,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from channels.registry import ChannelSpec
from gw.calls.call import PaidCall
from gw.calls.outcome import NO_CHANNEL
from gw.calls.receipt import Receipt
from gw.calls.results import UpstreamRefusal
from gw.calls.retries import Retry
from gw.errors.table import NO_CHANNEL_AVAILABLE, GatewayError
from metrics import genai
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from metrics.tracing import AttemptSpan

# How long an upstream may take to end its response after the terminator before its connection is
# given up for reuse.
CLOSE_SECONDS = 0.5

C = TypeVar("C", bound=PaidCall)
C_contra = TypeVar("C_contra", bound=PaidCall, contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_LOG = EventLog("gw.calls")


class Upstream(Protocol[C_contra, R_co]):
    """One kind of call as its channels see it."""

    async def attempt(
        self, call: C_contra, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> R_co:
        """Send the call to one channel and read what comes of it: a response, or a refusal (4xx).

        Raises UpstreamError for what another channel may do better, and TimeoutError.
        """

    def retry(self, error: UpstreamError) -> Retry:
        """Whether another channel may be asked after this error."""


class Attempts:
    """What one call has tried, and the attempt that is under way.

    Synchronous but for `first_result` and `close`, so that it can stand in a `finally` of a
    cancelled call.
    """

    __slots__ = (
        "_call",
        "_channel_id",
        "_clock",
        "_failover",
        "_lease",
        "_metrics",
        "_response",
        "_span",
        "_started",
        "_started_at",
        "abandoned_on",
        "receipt",
        "status",
    )

    def __init__(self, call: PaidCall, receipt: Receipt, *, clock: Clock, metrics: Metrics) -> None:
        self.status: int | None = None  # of the last attempt's response
        self.abandoned_on: str | None = None  # the channel that was asked as it was cancelled
        self._call = call
        self.receipt = receipt
        self._clock = clock
        self._metrics = metrics
        self._failover: Failover | None = None
        self._lease: Lease | None = None  # of the attempt that gave the response
        self._response: UpstreamResponse | None = None
        self._span: AttemptSpan | None = None
        self._channel_id = ""
        self._started_at = 0.0  # Unix seconds
        self._started = 0.0  # monotonic seconds

    def __repr__(self) -> str:
        return f"<Attempts {self._channel_id or 'none'} {self._failover}>"

    @property
    def failed(self) -> Sequence[FailedAttempt]:
        """Those that gave no response."""
        return () if self._failover is None else self._failover.failed

    async def first_result(
        self, upstream: Upstream[C, R], call: C, failover: Failover, limit: TimeLimit
    ) -> R:
        """Try channels until one gives a result, within a limit that ends with this.

        The lease and the response of that channel are kept for `finish`, unless it refuses: then
        its attempt is over. Raises FailoverExhausted, and GatewayError when the channels' actors
        are gone. A cancelled attempt gives its lease back and says nothing of the channel's health.
        """
        self._failover = failover
        try:
            while True:
                candidate, lease = await failover.lease()
                self._begin(candidate)
                try:
                    with limit:
                        result = await upstream.attempt(call, candidate, lease.spec, self)
                except (UpstreamError, TimeoutError) as error:
                    self._fail(candidate, lease, error)
                    if not self._may_go_on(upstream, candidate):
                        raise failover.exhausted() from error
                except BaseException:
                    self.abandoned_on = candidate.channel_id
                    self._drop("cancelled")
                    lease.release("abandoned")
                    raise
                else:
                    self._lease = lease
                    self.receipt.passed_over(failover.passed_over)
                    if isinstance(result, UpstreamRefusal):
                        self.finish("success", f"status_{result.status // 100}xx")
                    return result
        except FailoverExhausted:
            self.receipt.passed_over(failover.passed_over)
            raise
        except ActorStopped as error:
            raise GatewayError(NO_CHANNEL_AVAILABLE, NO_CHANNEL) from error
        finally:
            limit.end()

    def traced(self, request: UpstreamRequest) -> UpstreamRequest:
        """The request with the attempt's `traceparent`, when the call is sampled."""
        parent = self._call.span.traceparent()
        if parent is None:
            return request
        return UpstreamRequest(
            method=request.method,
            url=request.url,
            headers=(*request.headers, ("traceparent", parent)),
            body=request.body,
            transport=request.transport,
            key=request.key,
            authorizer=request.authorizer,
        )

    def took_response(self, response: UpstreamResponse) -> None:
        """The attempt has a response, which is closed whatever happens."""
        self._response = response
        self.status = response.status

    def took_whole(self) -> None:
        """The response was read to its end: nothing of it is left to wait for."""
        if self._response is not None:
            self._response.close()
            self._response = None

    def finish(self, verdict: Verdict, outcome: str) -> None:
        """The answered attempt is over: the lease goes back with a verdict. Once."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release(verdict)
            # A refusal says nothing against the channel; the try has still failed.
            self._end(outcome, is_ok=outcome == "ok")

    async def close(self, *, is_complete: bool) -> None:
        """Close the response; one that is complete gets a moment to end by itself."""
        response, self._response = self._response, None
        if response is None:
            return
        try:
            if is_complete and not response.has_ended:
                async with asyncio.timeout(CLOSE_SECONDS):
                    async for _ in response.chunks():
                        pass
        except (TimeoutError, UpstreamError):
            pass  # not reusable then; close() below ends it
        finally:
            response.close()

    def _begin(self, candidate: Candidate) -> None:
        self._channel_id = candidate.channel_id
        self._started_at = self._clock.now()
        self._started = self._clock.monotonic()
        self.status = None
        if self._call.span.sampled:
            self._span = self._call.span.attempt(
                attributes={
                    "gw.channel": candidate.channel_id,
                    genai.REQUEST_MODEL: candidate.upstream_model,
                }
            )

    def _fail(self, candidate: Candidate, lease: Lease, raised: Exception) -> None:
        """The attempt has failed, which counts against the channel."""
        error = raised if isinstance(raised, UpstreamError) else UpstreamTimedOut()
        seconds = self._drop(_outcome(error))
        lease.release("failure")
        assert self._failover is not None
        self._failover.add_failed(candidate, error, started_at=self._started_at, seconds=seconds)

    def _may_go_on(self, upstream: Upstream[Any, Any], candidate: Candidate) -> bool:
        """Whether another channel may be asked after the last failure."""
        error = self.failed[-1].error
        retry = upstream.retry(error)
        if retry == "unknown":
            _LOG.warning(
                "answer_unusable",
                channel=candidate.channel_id,
                request_id=self._call.facts.call_id.hex,
                reason=error.detail or str(error),
            )
        return retry == "next_channel"

    def _drop(self, outcome: str) -> float:
        """The attempt gave no response; its seconds."""
        self.took_whole()
        return self._end(outcome, is_ok=False)

    def _end(self, outcome: str, *, is_ok: bool) -> float:
        channel_id, seconds = self._channel_id, self._clock.monotonic() - self._started
        self._metrics.attempt(channel=channel_id, outcome=outcome, seconds=seconds)
        self.receipt.tried(channel_id, at=self._started_at, seconds=seconds, outcome=outcome)
        if self._span is not None:
            self._span.end(status_ok=is_ok, attributes={"gw.outcome": outcome})
            self._span = None
        return seconds


def _outcome(error: UpstreamError) -> str:
    """The attempt's outcome as the metrics name it."""
    if isinstance(error, UpstreamTimedOut):
        return "timeout"
    if isinstance(error, UpstreamFailed):
        return "status_5xx"
    if isinstance(error, UnexpectedStatus):
        return "status_3xx" if error.status >= 300 else "malformed"
    if isinstance(error, ErrorReported):
        return "error_event"
    if isinstance(error, UpstreamUnreachable):
        return "unreachable"
    return "malformed" if isinstance(error, UpstreamMalformed) else "cut"
