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

from msgspec.structs import replace

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
from channels.http.origin import address_of
from channels.registry import ChannelSpec
from gw.calls.call import PaidCall
from gw.calls.outcome import NO_CHANNEL
from gw.calls.receipt import Receipt
from gw.calls.results import UpstreamRefusal
from gw.calls.retries import Retry
from gw.calls.traces import operation_of
from gw.errors.table import NO_CHANNEL_AVAILABLE, GatewayError
from metrics import genai
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from metrics.spans import (
    FIRST_CHUNK,
    NO_ATTRIBUTES,
    RESPONSE_HEAD,
    Attributes,
    AttributeValue,
    ChildSpan,
)

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
        "_propagates",
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
        self._span: ChildSpan | None = None  # where the call is sampled
        self._channel_id = ""
        self._propagates = False
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
                began = call.span.now() if call.span.sampled else 0
                candidate, lease = await failover.lease()
                self._begin(candidate, lease.spec, began)
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
        """The request with what its upstream is told of the trace, where the call is of one."""
        span = self._call.span
        if span.trace_id is None:
            return request
        trace = span.request_trace(
            propagates=self._propagates,
            attributes=_server_of(request) if span.sampled else NO_ATTRIBUTES,
        )
        return request if trace is None else replace(request, trace=trace)

    def took_response(self, response: UpstreamResponse) -> None:
        """The attempt has a response, which is closed whatever happens."""
        self._response = response
        self.status = response.status
        if self._span is not None:
            self._span.event(RESPONSE_HEAD)

    def took_first_chunk(self) -> None:
        """A stream has begun: the first of it that is for the client is here."""
        if self._span is not None:
            self._span.event(FIRST_CHUNK)

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

    def has_next(self) -> bool:
        """Whether another channel is left to try should the present attempt fail."""
        return self._failover is not None and self._failover.has_next

    @property
    def has_response(self) -> bool:
        """Whether there is a response that is not closed."""
        return self._response is not None

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

    def _begin(self, candidate: Candidate, channel: ChannelSpec, began: int) -> None:
        """An attempt is under way, which began at `began` (`CallSpan.now`) with the wait for it."""
        call = self._call
        self._channel_id = candidate.channel_id
        self._propagates = channel.propagate_trace
        self._started_at = self._clock.now()
        self._started = self._clock.monotonic()
        self.status = None
        if call.span.sampled:
            operation = operation_of(call.facts.protocol)
            self._span = call.span.attempt(
                f"{operation} {candidate.upstream_model}",
                began=began,
                attributes={
                    genai.OPERATION_NAME: operation,
                    genai.PROVIDER_NAME: genai.provider_of(channel.kind, call.model.owned_by),
                    genai.REQUEST_MODEL: candidate.upstream_model,
                    "gw.channel": candidate.channel_id,
                    "gw.protocol": candidate.protocol,
                },
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
                **self._call.span.log_fields,
            )
        return retry == "next_channel"

    def _drop(self, outcome: str) -> float:
        """The attempt gave no response; its seconds."""
        self.took_whole()
        return self._end(outcome, is_ok=False)

    def _end(self, outcome: str, *, is_ok: bool) -> float:
        channel_id, seconds = self._channel_id, self._clock.monotonic() - self._started
        self._metrics.attempt(
            channel=channel_id,
            outcome=outcome,
            seconds=seconds,
            trace_id=self._call.span.exemplar,
        )
        self.receipt.tried(channel_id, at=self._started_at, seconds=seconds, outcome=outcome)
        if self._span is not None:
            self._span.end(
                error_type=None if is_ok else _error_type(outcome, self.status),
                attributes=_ended(outcome, self.status),
            )
            self._span = None
        return seconds


def _server_of(request: UpstreamRequest) -> Attributes:
    origin = address_of(request.url).origin
    return {genai.SERVER_ADDRESS: origin.host, genai.SERVER_PORT: origin.port}


def _ended(outcome: str, status: int | None) -> Attributes:
    attributes: dict[str, AttributeValue] = {"gw.outcome": outcome}
    if status is not None:
        attributes[genai.RESPONSE_STATUS_CODE] = status
    return attributes


def _error_type(outcome: str, status: int | None) -> str:
    """What went wrong: the status, where that alone says it."""
    is_status = status is not None and outcome == f"status_{status // 100}xx"
    return str(status) if is_status else outcome


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
