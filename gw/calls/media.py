"""One call for what is answered at once and sold by the piece, and the attempts to have it made.

An attempt is sent, read to its end, and counted. Nothing here knows Tornado.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace

from actors.clock import Clock
from actors.routing import Candidate, ChannelDirectory, Failover, FailoverExhausted, candidates
from actors.wallet.messages import CallFacts, KeptResponse
from channels.dialects.table import DIALECTS as CHAT_DIALECTS
from channels.errors import (
    ErrorBody,
    ErrorMembers,
    ErrorReported,
    UpstreamCut,
    UpstreamError,
    UpstreamFailed,
    UpstreamLost,
    UpstreamMalformed,
    UpstreamTimedOut,
)
from channels.http.interfaces import UpstreamRequest, UpstreamResponse, Wire
from channels.media.dialects import DIALECTS as MEDIA_DIALECTS
from channels.media.model import Exchange, MediaDialect, MediaRequest, MediaResponse
from channels.media.replies import Accepted, Done, Failed, Refused, SubmitReply
from channels.media.requests import AvatarRequest, Submission
from channels.media.send import perform, send
from channels.redaction import Redactor
from channels.registry import ChannelSpec, ModelSpec
from channels.resources import TimeLimits
from gw.calls.attempts import Attempts, BaseUpstream, Retry, retry_of_pieces, retry_of_submits
from gw.calls.bills import Bill
from gw.calls.call import PaidCall, ResponseWriter
from gw.calls.outcome import SUCCESS, Ending, ending_of_failure, ending_of_refusal, ending_of_report
from gw.calls.request import ClientRequest, LargeSubmission
from gw.calls.settlement import Billing, Settlement
from gw.calls.stream import UpstreamRefusal, is_success, unreadable
from gw.idempotency import Submission as IntentSubmission
from metrics.spans import CallSpan

# An error body is passed on whole. One that is longer is a page, and the client gets ours instead.
ERROR_BYTES_MAX = 1024 * 1024


class MediaBill(Bill, Protocol):
    """Counts the pieces of a response and prices them."""

    @property
    def hold_nano_usd(self) -> int:
        """What the call costs when it brings everything that was asked for."""

    def read(self, body: bytes, *, now: float) -> str | None:
        """Count a whole response of the upstream, which came at `now` (Unix seconds).

        Returns its message where it says that it failed all the same. Raises UpstreamMalformed.
        """


class SyncMediaRequest(ClientRequest):
    """A checked media request."""

    async def upstream_request(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamRequest:
        """What this channel is sent."""
        model = candidate.upstream_model
        body = await self.passthrough_body({"upstream_model": model})
        return CHAT_DIALECTS[self.protocol].address.request(
            channel, body, protocol=self.protocol, upstream_model=model, stream=False
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaCall:
    """A call that has passed every check except money and channels.

    `content_type` is the response's; None for the one that the upstream states. `cheaper` tells a
    client that is refused for its balance what would cost less. `submission` is there when the
    request has an idempotency key.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    bill: MediaBill
    cheaper: str
    span: CallSpan
    request: SyncMediaRequest
    started: float  # monotonic seconds
    content_type: str | None = "application/json"
    submission: IntentSubmission | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MediaResult:
    """A response, counted; `failed` is the upstream's message where it says that it failed."""

    http_status: int
    content_type: str
    body: bytes
    failed: str | None


class MediaUpstream(BaseUpstream):
    """Makes the attempts of media calls of one kind. Of its own it has their time."""

    def __init__(
        self,
        *,
        wire: Wire,
        redactor: Callable[[], Redactor],
        clock: Clock,
        attempt_seconds: float,
        response_bytes_max: int,
    ) -> None:
        super().__init__(
            wire=wire, redactor=redactor, clock=clock, response_bytes_max=response_bytes_max
        )
        self._limits = TimeLimits(attempt_seconds)

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: MediaCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> MediaResult | UpstreamRefusal:
        """Try one channel, for as long as one attempt may take. Raises UpstreamError."""
        limit = self._limits.begin()
        try:
            with limit:
                return await self._attempt(call, candidate, channel, attempts)
        finally:
            limit.end()

    async def _attempt(
        self, call: MediaCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> MediaResult | UpstreamRefusal:
        request = await call.request.upstream_request(candidate, channel)
        response = await self._open(request, attempts)
        if not is_success(response.status):
            return await self._refusal(
                request, response, bytes_max=ERROR_BYTES_MAX, passes_body=True
            )
        body = await self._whole(response, attempts)
        body = await self._redactor().responses.redact_whole(body, keeps_links=True)
        failed = self._read(call, body)
        request.took_response()
        content_type = call.content_type or self._content_type(response)
        return MediaResult(response.status, content_type, body, failed)

    def _read(self, call: MediaCall, body: bytes) -> str | None:
        try:
            return call.bill.read(body, now=self._clock.now())
        except UpstreamError:
            raise
        except Exception as error:  # whatever an upstream sends, it is no fault of the call's
            raise unreadable(error) from error


# One media call that is answered at once: hold, candidates, attempts, response, settlement.
#
# The response is the upstream's, byte for byte, and so are its errors (spec: Images; contract §7).
# The money on the way in and out is `settlement.py`, what is counted and priced is the call's own
# bill.


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


# One attempt to have something made by a media upstream: the exchanges of its dialect, to the end.
#
# What it takes to ask for a film, a song, a voice or a script is the dialect's (`channels/media`);
# what the reply means for the call is `attempts.py` and `outcome.py`.


class SubmitCall(PaidCall, Protocol):
    """A call that has something made."""

    @property
    def request(self) -> Submission:
        """What is asked for."""

    @property
    def large(self) -> LargeSubmission | None:
        """The client's body, where `request` is without it."""

    @property
    def upstream_key(self) -> str:
        """The idempotency key that the upstream gets: the job's id, or the call's."""


@dataclass(frozen=True, slots=True)
class Made:
    """The reply of the channel that took the request."""

    candidate: Candidate
    reply: Accepted | Done


def dialect_of(candidate: Candidate, channel: ChannelSpec) -> MediaDialect:
    """The dialect of a candidate's channel."""
    return MEDIA_DIALECTS[channel.dialect_of(candidate.protocol)]


class ExchangeUpstream:
    """Makes the attempts. Holds no state of its own."""

    def __init__(self, *, wire: Wire, body_bytes_max: int, clock: Clock) -> None:
        self._wire = wire
        self._body_bytes_max = body_bytes_max
        self._clock = clock

    def __repr__(self) -> str:
        return f"<ExchangeUpstream {self._wire!r}>"

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_submits(error)

    async def attempt(
        self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Made | UpstreamRefusal:
        """Ask one channel. Raises UpstreamError."""
        wire = _WatchedWire(self._wire, attempts)

        async def sent(request: MediaRequest, response_bytes_max: int) -> MediaResponse:
            response = await send(wire, channel, request, response_bytes_max, now=self._clock.now)
            attempts.took_whole()
            return response

        exchange = await _exchange(call, candidate, dialect_of(candidate, channel))
        reply = await perform(
            exchange, sent, self._clock.sleep, body_bytes_max=self._body_bytes_max
        )
        if isinstance(reply, Accepted | Done):
            return Made(candidate, reply)
        if isinstance(reply, Refused):
            error = ErrorMembers(reply.message)
            rejected = reply.is_rejected
            return UpstreamRefusal(reply.status, error, reply.retry_after, is_rejected=rejected)
        if isinstance(reply, Failed):
            error = ErrorMembers(reply.message)
            if reply.is_final:
                raise ErrorReported(error)
            raise UpstreamFailed(reply.status, error, retry_after=reply.retry_after)
        raise (UpstreamTimedOut if reply.status == 504 else UpstreamMalformed)(reply.reason)


class _WatchedWire(Wire):
    """Sends the requests of one attempt, and reports them to it."""

    def __init__(self, wire: Wire, attempts: Attempts) -> None:
        self._wire = wire
        self._attempts = attempts

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        response = await self._wire.open(self._attempts.traced(request))
        self._attempts.took_response(response)
        return response


async def _exchange(
    call: SubmitCall, candidate: Candidate, dialect: MediaDialect
) -> Exchange[SubmitReply]:
    key, model = call.upstream_key, candidate.upstream_model
    exchange = dialect.submit(_asked_of(call.request, candidate), idempotency_key=key)
    if call.large is None:
        return exchange
    body = await call.large.body_for(dialect.name, model, idempotency_key=key)
    return dataclasses.replace(exchange, request=replace(exchange.request, body=body))


def _asked_of(request: Submission, candidate: Candidate) -> Submission:
    """The request, with the upstream's name of the model."""
    if isinstance(request, AvatarRequest):
        return request
    return replace(request, model=candidate.upstream_model)


# One attempt for a recording, which fails over as pictures do (contract for media §5, Speech).
#
# A recording is read whole before anything is answered and costs its upstream little: so a
# connection that is lost within it is one that was lost before it, and a 504 is a failure like any
# other.


class SpeechUpstream(ExchangeUpstream):
    """Makes the attempts of synchronous speech."""

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Made | UpstreamRefusal:
        """Ask one channel. Raises UpstreamError, and TimeoutError when its time is over."""
        try:
            return await super().attempt(call, candidate, channel, attempts)
        except UpstreamCut as error:
            raise UpstreamLost(error.detail) from error
        except UpstreamTimedOut as error:  # said by the upstream: ours is a TimeoutError
            raise UpstreamFailed(504, ErrorMembers()) from error
