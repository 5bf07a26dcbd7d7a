"""The attempts of one call: one channel after another until one responds, each of them measured.

Everything that is tried on an upstream goes through `Attempts.first_result`, whatever the call is:
what is sent and how the response is read is the `Upstream`'s (`chat_upstream.py`, …), and so is
the choice of a row in the table of retries (`retry.py`). What is noted of an attempt is the
`CallObserver`'s (`observer.py`). Nothing here knows money: `settlement.py` reads what was tried
when it writes the call's row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from actors.channel import ChannelLease
from actors.circuit_breaker import Verdict
from actors.failover import FailedAttempt, Failover, FailoverExhausted
from actors.mailbox import ActorStopped
from actors.routing import Candidate
from actors.wallet.bounds import Bounds
from channels import errors
from channels.deadlines import TimeLimit
from channels.dialects.meter import Meter
from channels.dialects.token_counts import Usage
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from channels.key_ring import THROTTLED
from channels.registry import ChannelSpec
from gw.calls.call import Call
from gw.calls.endings import NO_CHANNEL
from gw.calls.observer import CallObserver, status_outcome
from gw.calls.retry import LOST_RESPONSES, Retry
from gw.calls.stream import StreamPipeline
from gw.calls.token_charge import stated_usage
from gw.errors import NO_CHANNEL_AVAILABLE, GatewayError
from metrics.logs import EventLog

# How long an upstream may take to end its response after the terminator; after that its connection
# is not reused.
CLOSE_SECONDS = 0.5
# How long a trial may take until the first event of a stream, or for another whole response. The
# client waits for this before the next channel is tried. Of a shorter time limit the next one has
# half.
TRIAL_SECONDS = 10.0

C = TypeVar("C", bound=Call)
C_contra = TypeVar("C_contra", bound=Call, contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_LOG = EventLog("gw.calls")


class Upstream(Protocol[C_contra, R_co]):
    """Makes the attempts of one kind of call."""

    def attempt(
        self, call: C_contra, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Coroutine[Any, Any, R_co]:
        """Send the call to one channel; return its response, or its refusal (4xx).

        Raises UpstreamError for a failure that another channel may not have, and TimeoutError.
        """

    def retry(self, error: errors.UpstreamError) -> Retry:
        """Whether another channel may be tried after this error."""


class Attempts(Struct, eq=False):
    """The attempts of one call, including the one under way.

    Synchronous except `first_result` and `close`, so that a `finally` of a cancelled call can use
    it.
    """

    _call: Call
    observer: CallObserver
    candidate: Candidate | None = None  # of the last attempt
    status: int | None = None  # of its response
    meter: Meter | None = None  # of its response
    bounds: Bounds | None = None  # of what a meter may state
    is_sent: bool = False  # a request of it was sent
    # Failed attempts that may be billed, with the usage that they stated; None: it is unknown.
    unused: list[tuple[Candidate, Usage | None]] = msgspec.field(default_factory=list)
    _failover: Failover | None = None
    _limit: TimeLimit | None = None  # of the call
    _lease: ChannelLease | None = None  # of the attempt that gave the response
    _response: UpstreamResponse | None = None
    _silence: asyncio.Timeout | None = None  # where `first_event_seconds` is set
    stream: StreamPipeline | None = None  # of the attempt under way, until it has begun
    headers: Mapping[str, str] | None = None  # of the response, by the attempt under way
    _tried: Candidate | None = None  # of the last failed attempt
    _is_committed: bool = False  # the head of the response is sent: no other channel is tried

    def __repr__(self) -> str:
        return f"<Attempts {self._failover} of {self._call.facts.call_id.hex}>"

    @property
    def failed(self) -> Sequence[FailedAttempt]:
        """The failed attempts."""
        return () if self._failover is None else self._failover.failed

    async def first_result(
        self, upstream: Upstream[C, R], call: C, failover: Failover, limit: TimeLimit
    ) -> R:
        """Try channels until one gives a result, within a time limit.

        The limit ends here, or with the response of a stream (`close`). Lease and response of that
        channel are kept for `finish_attempt`; a refusal ends its attempt at once. Raises
        FailoverExhausted, and GatewayError when the channels' actors have stopped. A cancelled
        attempt releases its lease and does not count for the channel's health.
        """
        self._failover, self._limit = failover, limit
        try:
            while True:
                candidate, lease = failover.lease()
                try:
                    self._begin(candidate, lease.spec)
                    if failover.is_trial:
                        result = await self._trial(upstream, call, candidate, lease.spec, limit)
                    else:
                        with limit:
                            result = await self._attempt(upstream, call, candidate, lease.spec)
                        if lease.spec.hops_when_throttled:
                            self._leave_throttled(upstream, failover, result)
                    break
                except (errors.UpstreamError, TimeoutError) as error:
                    if not self._failed(upstream, failover, candidate, lease, error):
                        raise failover.exhausted() from error
                except BaseException as error:
                    self._note_unused(candidate, error)
                    self._drop("cancelled")
                    lease.release("abandoned")
                    raise
            self._lease = lease
            if failover.passed_over:
                self.observer.passed_over(failover.passed_over)
            if isinstance(result, errors.UpstreamRefusal):
                self._note_unused(candidate)
                self.finish_attempt("success", status_outcome(result.status))
            return result
        except FailoverExhausted:
            self.observer.passed_over(failover.passed_over)
            raise
        except ActorStopped as error:
            raise GatewayError(NO_CHANNEL_AVAILABLE, NO_CHANNEL) from error
        finally:
            if self._response is None:
                limit.end()

    def _begin(self, candidate: Candidate, channel: ChannelSpec) -> None:
        """An attempt on this channel begins."""
        span = self._call.span
        self.candidate, self.status, self.meter = candidate, None, None
        self.is_sent, self.headers = False, None
        self.observer.attempt_begins(candidate, channel, span.now() if span.sampled else 0)

    def _failed(
        self,
        upstream: Upstream[C, R],
        failover: Failover,
        candidate: Candidate,
        lease: ChannelLease,
        error: errors.UpstreamError | TimeoutError,
    ) -> bool:
        """End an attempt that gave no response; whether another channel may be tried."""
        if isinstance(error, errors.StepUnfit):
            self._skip(failover, candidate, lease, error)
            return True
        failure = error if isinstance(error, errors.UpstreamError) else errors.UpstreamTimedOut()
        self._fail(failover, candidate, lease, failure)
        may_go_on = failover.is_trial or self._may_go_on(upstream, candidate, failure)
        return may_go_on and not self._is_committed

    async def _trial(
        self,
        upstream: Upstream[C, R],
        call: C,
        candidate: Candidate,
        channel: ChannelSpec,
        limit: TimeLimit,
    ) -> R:
        """Make a trial attempt, within the time limit of the call (reference 10.5).

        A refusal is not passed to the client, because the next channel may serve the request.
        Raises UpstreamError and TimeoutError.
        """
        self.observer.tries_first(candidate.channel_id)
        try:
            async with asyncio.timeout(min(TRIAL_SECONDS, limit.seconds_left() / 2)):
                result = await self._attempt(upstream, call, candidate, channel)
        except GatewayError as error:  # the request cannot be expressed to this channel
            raise errors.TrialRefused(
                error.http_status, errors.ErrorMembers(error.message)
            ) from error
        if isinstance(result, errors.UpstreamRefusal):
            raise errors.TrialRefused(result.status, result.members, retry_after=result.retry_after)
        return result

    def _leave_throttled(
        self, upstream: Upstream[C, R], failover: Failover, result: R | errors.UpstreamRefusal
    ) -> None:
        """Raise Throttled for a 429 after which one more channel may be tried (reference 10.2)."""
        if not isinstance(result, errors.UpstreamRefusal):
            return
        if result.status == THROTTLED and not failover.has_hopped:
            error = errors.Throttled(result)
            if upstream.retry(error) == "next_channel":
                raise error

    def _attempt(
        self, upstream: Upstream[C, R], call: C, candidate: Candidate, channel: ChannelSpec
    ) -> Coroutine[Any, Any, R]:
        attempt = upstream.attempt(call, candidate, channel, self)
        if candidate.first_event_seconds is None:
            return attempt
        return self._unless_silent(attempt)

    async def _unless_silent(self, attempt: Coroutine[Any, Any, R]) -> R:
        """Make an attempt unless the upstream stays silent. Raises UpstreamSilent."""
        try:
            async with asyncio.timeout(None) as self._silence:
                return await attempt
        except TimeoutError:
            if self._silence is not None and self._silence.expired():
                raise errors.UpstreamSilent from None
            raise
        finally:
            self._silence = None

    def watch(self, request: UpstreamRequest) -> UpstreamRequest:
        """Give a request its trace; note that it is sent; start the time until the first event."""
        request.sender = self
        if self._call.span.trace_id is not None:
            request.trace = self.observer.request_trace(request)
        if self._silence is not None:
            assert self.candidate is not None
            assert self.candidate.first_event_seconds is not None
            now = asyncio.get_running_loop().time()
            self._silence.reschedule(now + self.candidate.first_event_seconds)
        return request

    def took_response(self, response: UpstreamResponse, *, is_stream: bool = False) -> None:
        """Keep the response of the attempt, so that it is closed in every case.

        The rest of one that is no stream, or of an error, may take long.
        """
        self._response = response
        self.status = response.status
        if self._call.span.sampled:
            self.observer.response_head()
        if self._silence is not None and not (is_stream and response.status < 400):
            self._silence.reschedule(None)

    def took_whole(self) -> None:
        """The response was read to its end: close it."""
        if self._response is not None:
            self._response.close()
            self._response = None

    def finish_attempt(self, verdict: Verdict, outcome: str) -> None:
        """End the attempt that gave a response: release its lease with a verdict. Once."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release(verdict)
            # A refusal is no failure of the channel, but the attempt has failed.
            self.observer.attempt_ended(outcome, self.status, is_ok=outcome == "ok")

    def note_unknown(self) -> None:
        """The last attempt may be billed for something of which nothing is known."""
        candidate = self.candidate
        if candidate is not None and (not self.unused or self.unused[-1][0] is not candidate):
            self.unused.append((candidate, None))

    @property
    def takes_losses(self) -> bool:
        """Whether every model of the chain would lose something of the request."""
        return self._failover is not None and self._failover.takes_losses

    def has_next(self) -> bool:
        """Whether another channel could be tried after the present attempt."""
        failover = self._failover
        return failover is not None and failover.has_next and not self._is_committed

    def commit(self) -> Mapping[str, str] | None:
        """Try no other channel from now on; return the headers of the response.

        The channel then has all the time of the call. None, and nothing changes, while no attempt
        has got so far, and during a trial, which is left for the next channel soon.
        """
        if self.headers is None or (self._failover is not None and self._failover.is_trial):
            return None
        self._is_committed = True
        if self._silence is not None:
            self._silence.reschedule(None)
        return self.headers

    @property
    def has_response(self) -> bool:
        """Whether a response is open."""
        return self._response is not None

    async def close(self, *, is_complete: bool) -> None:
        """Close the response; a complete one may end first, so that its connection is kept."""
        response, self._response = self._response, None
        if response is None:
            return
        if self._limit is not None:
            self._limit.end()
        try:
            if is_complete and not response.has_ended:
                async with asyncio.timeout(CLOSE_SECONDS):
                    async for _ in response.chunks():
                        pass
        except (TimeoutError, errors.UpstreamError):
            pass  # its connection cannot be reused, and is closed below
        finally:
            response.close()

    def _fail(
        self,
        failover: Failover,
        candidate: Candidate,
        lease: ChannelLease,
        error: errors.UpstreamError,
    ) -> None:
        """End a failed attempt, which counts against the channel, its key alone, or neither."""
        self._note_unused(candidate, error)
        self._tried = candidate
        seconds = self._drop(_outcome(error))
        lease.release(_verdict(error))
        started_at = self.observer.started_at
        failover.add_failed(candidate, error, started_at=started_at, seconds=seconds)

    def _skip(
        self,
        failover: Failover,
        candidate: Candidate,
        lease: ChannelLease,
        error: errors.StepUnfit,
    ) -> None:
        """Pass over a chain's model that was not called: no attempt of it is noted."""
        lease.release("abandoned")
        failover.skip(candidate)
        self.candidate = self._tried
        channel_id = "" if self._tried is None else self._tried.channel_id
        self.observer.attempt_skipped(channel_id, error.lost)

    def _note_unused(self, candidate: Candidate, error: BaseException | None = None) -> None:
        """Keep the usage that the upstream of an unused response stated: it is billed for that.

        A response that was lost to this error without one may be billed, too, once its request was
        sent.
        """
        usage = None
        if self.meter is not None and self.bounds is not None:
            usage = stated_usage(self.meter, self.bounds)
        if usage is not None:
            self.unused.append((candidate, usage))
        elif self.meter is None or self.meter.error_seen is None:
            is_refused = self.status is not None and not 200 <= self.status < 300
            is_late = isinstance(error, errors.UpstreamTimedOut)
            is_lost = self.is_sent and not is_refused and isinstance(error, LOST_RESPONSES)
            if is_late or is_lost:
                self.note_unknown()

    def _may_go_on(
        self, upstream: Upstream[Any, Any], candidate: Candidate, error: errors.UpstreamError
    ) -> bool:
        """Whether another channel may be tried after this failure."""
        retry = upstream.retry(error)
        if retry == "unknown":
            self.note_unknown()
            _LOG.warning(
                "answer_unusable",
                channel=candidate.channel_id,
                request_id=self._call.facts.call_id.hex,
                reason=error.detail or str(error),
                **self._call.span.log_fields,
            )
        return retry == "next_channel"

    def _drop(self, outcome: str) -> float:
        """End an attempt without a response; return its duration in seconds."""
        self.took_whole()
        return self.observer.attempt_ended(outcome, self.status, is_ok=False)


def _verdict(error: errors.UpstreamError) -> Verdict:
    """Return how a failed attempt counts for the channel's health."""
    # A lack of descriptors is ours; a refused trial is repeated; a limit says nothing of health.
    if isinstance(error, errors.NoFileLeft | errors.TrialRefused | errors.Throttled):
        return "abandoned"
    # The refused key alone is set aside: the upstream works.
    return "success" if isinstance(error, errors.CredentialsRefused) else "failure"


def _outcome(error: errors.UpstreamError) -> str:
    """Return the outcome of a failed attempt as the metrics name it."""
    if isinstance(error, errors.UpstreamTimedOut):
        return "timeout"
    if isinstance(error, errors.UpstreamFailed):
        return status_outcome(error.status)
    if isinstance(error, errors.UnexpectedStatus):
        return "status_3xx" if error.status >= 300 else "malformed"
    if isinstance(error, errors.ErrorReported):
        return "error_event"
    if isinstance(error, errors.UpstreamUnreachable):
        return "silent" if isinstance(error, errors.UpstreamSilent) else "unreachable"
    return "malformed" if isinstance(error, errors.UpstreamMalformed) else "cut"
