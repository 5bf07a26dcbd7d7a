"""The use-case of media calls: candidates, hold, attempts, response, settlement.

Results made while the client waits are settled before the response is sent, so that a client with a
response finds its balance changed. Later results are jobs (`jobs.py`). Images and their errors are
passed through byte for byte (spec: Images; contract §7); films, songs, recordings, voices and
scripts use the exchanges of `channels/media`. The bill of a call counts and prices the result.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.failover import Failover, FailoverExhausted
from actors.routing import Candidate, candidates
from actors.wallet.claims import KeptResponse
from channels.errors import (
    ErrorBody,
    ErrorMembers,
    ErrorReported,
    UpstreamCut,
    UpstreamError,
    UpstreamFailed,
    UpstreamLost,
    UpstreamMalformed,
    UpstreamRefusal,
    UpstreamTimedOut,
)
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.media.canonical import (
    Accepted,
    AvatarRequest,
    Done,
    Failed,
    Refused,
    Submission,
    SubmitReply,
)
from channels.media.dialects import DIALECTS as MEDIA_DIALECTS
from channels.media.model import Exchange, MediaDialect, MediaRequest, MediaResponse, perform, send
from channels.registry import ChannelSpec
from channels.resources import TimeLimits
from gw.calls.attempts import (
    Attempts,
    BaseUpstream,
    Retry,
    Upstream,
    confirm_key,
    is_success,
    retry_of_pieces,
    retry_of_submits,
)
from gw.calls.bills import Bill
from gw.calls.call import (
    SUCCESS,
    Call,
    Client,
    Ending,
    ResponseWriter,
    ending_of_failure,
    ending_of_refusal,
    ending_of_report,
    ending_of_unknown,
)
from gw.calls.request import LargeSubmission, PieceRequest
from gw.calls.settlement import Billing, Settlement
from gw.calls.stream import unreadable
from gw.config.live import LiveConfig
from gw.errors import INVALID_REQUEST, GatewayError

JSON = "application/json"


class Pin(Struct, frozen=True):
    """The only channel that knows an object named by the request; `param` is the naming field."""

    channel_id: str
    param: str


class SubmitResult(Struct, frozen=True):
    """The reply of the channel that accepted the request."""

    candidate: Candidate
    reply: Accepted | Done


class Delivery(Struct, frozen=True):
    """The response to the client; `failed` is the upstream's message if it reports a failure."""

    content_type: str
    body: bytes
    http_status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    failed: str | None = None

    def __repr__(self) -> str:
        return f"<Delivery {self.http_status} {self.content_type} {len(self.body)} bytes>"


class MediaCall(Call, frozen=True, kw_only=True):
    """A media call."""

    bill: Bill
    pins: tuple[Pin, ...] = ()


class PieceCall(MediaCall, frozen=True, kw_only=True):
    """A call that passes the upstream's response through; `content_type` None: the upstream's.

    `render` makes the client's response of one that was read, None: it is the same.
    """

    bill: PieceBill
    request: PieceRequest
    content_type: str | None = JSON
    render: Callable[[bytes], bytes] | None = None


class SubmitCall(MediaCall, frozen=True, kw_only=True):
    """A call whose result is made by the exchanges of a media dialect.

    `large` holds the client's body if `request` does not. `deliver` renders the client's response
    and stores the parts to be kept; if it fails, nothing is charged.
    """

    request: Submission
    deliver: Callable[[SubmitResult], Awaitable[Delivery]]
    large: LargeSubmission | None = None

    @property
    def upstream_key(self) -> str:
        """The idempotency key sent to the upstream: the id of the job or result, or the call's."""
        return self.facts.job_id or self.facts.made_id or self.facts.call_id.hex


C = TypeVar("C", bound=MediaCall)
C_contra = TypeVar("C_contra", bound=MediaCall, contravariant=True)
T = TypeVar("T")


class MediaUpstream(Upstream[C_contra, Delivery | SubmitResult | UpstreamRefusal], Protocol):
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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._upstream!r} {self._limits!r}>"

    async def run(self, call: C, writer: ResponseWriter) -> None:
        """Serve a call to its end; a disconnect of the client cancels it.

        Raises GatewayError, and KeyTaken when the idempotency key of the call is not free.
        """
        _send(await self._serve(call, writer), writer)

    async def run_detached(self, call: C, writer: DetachedWriter) -> None:
        """Serve a call to its end, even if its client disconnects. Raises like `run`."""
        _send(await self._detached.run(self._serve(call, Staying(writer)), writer), writer)

    async def _serve(self, call: C, client: Client) -> Delivery:
        order = self._order(call)
        async with self._billing.hold(call, call.bill, client) as settlement:
            settlement.observer.considered(order)
            attempts = settlement.attempts
            try:
                result = await attempts.first_result(
                    self._upstream, call, Failover(order, self._channels), self._limits.begin()
                )
            except FailoverExhausted as failure:
                last = failure.failed[-1].error if failure.failed else None
                passed_body = last.error_body if isinstance(last, UpstreamFailed) else None
                return await self._refuse(settlement, self._ending_of(call, failure), passed_body)
            except asyncio.CancelledError:
                if attempts.is_sent and attempts.candidate is not None:
                    attempts.note_unknown()
                    self._abandon(call, attempts.candidate.channel_id)
                raise
            if isinstance(result, UpstreamRefusal):
                ending = ending_of_refusal(result, self._current.redactor)
                return await self._refuse(settlement, ending, result.error_body)
            return await self._finish(call, settlement, result)
        raise AssertionError("a settlement swallows a client's leaving alone, and nothing is sent")

    async def _finish(
        self, call: C, settlement: Settlement[Bill], result: Delivery | SubmitResult
    ) -> Delivery:
        """Settle a call with a result."""
        delivery = await self._delivery_of(call, result)
        if delivery.failed is not None:
            # E.g. a refusal of this prompt, which is no failure of the channel.
            settlement.attempts.finish("success", "error_event")
            settlement.fail(ending_of_report(delivery.failed, self._current.redactor))
        settlement.attempts.finish("success", "ok")
        settlement.end(SUCCESS)
        settlement.note_delivery()
        settlement.keep(kept(delivery))
        settlement.settle()
        await settlement.until_durable()
        return delivery

    async def _delivery_of(self, call: C, result: Delivery | SubmitResult) -> Delivery:
        if isinstance(result, Delivery):
            return result
        assert isinstance(call, SubmitCall), call
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
        self, settlement: Settlement[Bill], ending: Ending, passed_body: ErrorBody | None
    ) -> Delivery:
        """Pass the upstream's error through; it is redacted already."""
        if passed_body is None:
            settlement.fail(ending)
        settlement.end(ending)
        settlement.settle()
        await settlement.until_durable()
        error = ending.error
        assert error is not None
        return Delivery(
            passed_body.content_type, passed_body.body, error.http_status, error.headers
        )

    def _abandon(self, call: C, channel_id: str) -> None:
        """Report a result of this channel, or a possible one, that no client will receive."""
        # Retried like a connection lost during the request.
        if self._unknown is not None and self._upstream.retry(UpstreamLost()) == "unknown":
            self._unknown(call, channel_id)

    def _ending_of(self, call: C, failure: FailoverExhausted) -> Ending:
        if self._unknown is not None and failure.failed:
            last = failure.failed[-1]
            if self._upstream.retry(last.error) == "unknown":
                self._unknown(call, last.channel_id)
                return ending_of_unknown(failure, self._current.redactor)
        return ending_of_failure(failure, self._current.redactor)


def kept(delivery: Delivery) -> KeptResponse:
    """Return the response in the form kept for an idempotency key."""
    headers = (("Content-Type", delivery.content_type),)
    return KeptResponse(status=delivery.http_status, headers=headers, body=delivery.body)


def _send(delivery: Delivery, writer: ResponseWriter) -> None:
    writer.begin(delivery.content_type, delivery.headers, http_status=delivery.http_status)
    writer.send(delivery.body)


# Work that continues after its client has disconnected (contract for media §2.7).
#
# It runs in a task of its own. While the client is connected, its request counts as in flight;
# afterwards the work itself does, so that a draining process waits for it.


class DetachedWriter(ResponseWriter, Protocol):
    """The client's side of detachable work."""

    def detached(self) -> None:
        """Called when the client has disconnected and the work continues."""

    def ended_detached(self, error: Exception | None) -> None:
        """Called at the end of detached work, with its error if it failed."""


class WorkInFlight(Protocol):
    """The work in flight, for which a draining process waits."""

    def enter(self, request: Work) -> None: ...

    def leave(self, request: Work) -> None: ...


class Staying:
    """A client whose disconnect is ignored."""

    client_gone = False

    def __init__(self, client: Client) -> None:
        self._client = client

    def hold_decided(self) -> None:
        self._client.hold_decided()


class Work:
    """Detached work; `cut` cancels it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"<Work {self._task.get_name()}>"

    def cut(self) -> None:
        """Cancel the work, because the process ends."""
        self._task.cancel()


class DetachedTasks:
    """Runs work that survives its client's disconnect. One per process."""

    def __init__(self, in_flight: WorkInFlight) -> None:
        self._in_flight = in_flight

    async def run(self, work: Coroutine[Any, Any, T], writer: DetachedWriter) -> T:
        """Run the work and return its result, or raise its error, while the client is connected.

        A cancellation for any other reason than a disconnect cancels the work too, and waits for
        its end.
        """
        task = asyncio.create_task(work, name="detached")
        try:
            await asyncio.wait([task])  # unlike shield(), it reports no error of a task left alone
            return task.result()
        except asyncio.CancelledError:
            if not writer.client_gone:
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.exception()  # marked as retrieved: the process ends
            elif task.done():
                _ended(task, writer)
            else:
                self._detach(task, writer)
            raise

    def _detach(self, task: asyncio.Task[Any], writer: DetachedWriter) -> None:
        work = Work(task)
        self._in_flight.enter(work)
        writer.detached()

        def ended(task: asyncio.Task[Any]) -> None:
            try:
                _ended(task, writer)
            finally:
                self._in_flight.leave(work)

        task.add_done_callback(ended)


def _ended(task: asyncio.Task[Any], writer: DetachedWriter) -> None:
    error = None if task.cancelled() else task.exception()
    writer.ended_detached(error if isinstance(error, Exception) else None)


# One attempt of a passthrough call: the client's bytes are sent, and the response is counted.

# Bound of error bodies passed through; longer ones are web pages, replaced by our error.
ERROR_BYTES_MAX = 1024 * 1024


class PieceBill(Bill, Protocol):
    """Counts the pieces of a response and prices them."""

    def read(self, body: bytes, *, now: float) -> str | None:
        """Count the whole response of an upstream, received at `now` (Unix seconds).

        Returns its message if it reports a failure nevertheless. Raises UpstreamMalformed.
        """


class PieceUpstream(BaseUpstream):
    """Makes the attempts of media calls of one kind, each within `attempt_seconds`."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        current: LiveConfig,
        clock: Clock,
        attempt_seconds: float,
        response_bytes_max: int,
    ) -> None:
        super().__init__(
            http=http, current=current, clock=clock, response_bytes_max=response_bytes_max
        )
        self._limits = TimeLimits(attempt_seconds)

    def makes(self, call: PieceCall, candidate: Candidate, channel: ChannelSpec) -> bool:
        """See `MediaUpstream`; channels of the protocol support every request."""
        return True

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: PieceCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Delivery | UpstreamRefusal:
        """Try one channel within the time of one attempt. Raises UpstreamError."""
        limit = self._limits.begin()
        try:
            with limit:
                return await self._attempt(call, candidate, channel, attempts)
        finally:
            limit.end()

    async def _attempt(
        self, call: PieceCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Delivery | UpstreamRefusal:
        request = await call.request.upstream_request(candidate, channel)
        response = await self._http.open(attempts.watch(request))
        attempts.took_response(response)
        if not is_success(response.status):
            return await self._refusal(
                request, response, bytes_max=ERROR_BYTES_MAX, passes_body=True
            )
        body = await response.read(self._response_bytes_max)
        attempts.took_whole()
        body = await self._current.redactor.responses.redact_whole(body, keeps_links=True)
        failed = self._read(call, body)
        confirm_key(request)
        content_type = call.content_type or self._content_type(response)
        if call.render is not None and failed is None:
            body = call.render(body)
        return Delivery(content_type, body, response.status, failed=failed)

    def _read(self, call: PieceCall, body: bytes) -> str | None:
        try:
            return call.bill.read(body, now=self._clock.now())
        except UpstreamError:
            raise
        except Exception as error:  # an unreadable response is the upstream's fault
            raise unreadable(error) from error


# One attempt by the exchanges of a media dialect.
#
# The dialect builds the requests for a film, a song, a voice or a script (`channels/media`);
# `attempts.py` and `call.py` decide the consequences of its reply.


def dialect_of(candidate: Candidate, channel: ChannelSpec) -> MediaDialect:
    """Return the media dialect of a candidate's channel."""
    return MEDIA_DIALECTS[channel.dialect_of(candidate.protocol)]


class ExchangeUpstream:
    """Makes the attempts of calls by exchanges. Stateless."""

    def __init__(self, *, http: UpstreamClient, body_bytes_max: int, clock: Clock) -> None:
        self._http = http
        self._body_bytes_max = body_bytes_max
        self._clock = clock

    def __repr__(self) -> str:
        return f"<ExchangeUpstream {self._http!r}>"

    def makes(self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec) -> bool:
        """See `MediaUpstream`."""
        return dialect_of(candidate, channel).makes(call.request)

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_submits(error)

    async def attempt(
        self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> SubmitResult | UpstreamRefusal:
        """Try one channel. Raises UpstreamError."""
        http = _WatchedClient(self._http, attempts)

        async def sent(request: MediaRequest, response_bytes_max: int) -> MediaResponse:
            response = await send(http, channel, request, response_bytes_max, now=self._clock.now)
            attempts.took_whole()
            return response

        exchange = await _exchange(call, candidate, dialect_of(candidate, channel))
        reply = await perform(
            exchange, sent, self._clock.sleep, body_bytes_max=self._body_bytes_max
        )
        if isinstance(reply, Accepted | Done):
            return SubmitResult(candidate, reply)
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


class _WatchedClient(UpstreamClient):
    """Sends the requests of one attempt, and reports their responses to it."""

    def __init__(self, http: UpstreamClient, attempts: Attempts) -> None:
        self._http = http
        self._attempts = attempts

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        response = await self._http.open(self._attempts.watch(request))
        self._attempts.took_response(response)
        return response


async def _exchange(
    call: SubmitCall, candidate: Candidate, dialect: MediaDialect
) -> Exchange[SubmitReply]:
    key, model = call.upstream_key, candidate.upstream_model
    exchange = dialect.submit(_submission_for(call.request, candidate), idempotency_key=key)
    if call.large is None:
        return exchange
    body = await call.large.body_for(dialect.name, model, idempotency_key=key)
    return dataclasses.replace(exchange, request=replace(exchange.request, body=body))


def _submission_for(request: Submission, candidate: Candidate) -> Submission:
    """Return the request with the upstream's name of the model."""
    if isinstance(request, AvatarRequest):
        return request
    return replace(request, model=candidate.upstream_model)


# One attempt of synchronous speech, which fails over like images (contract for media §5, Speech).
#
# A recording is read whole before the response begins and costs its upstream little, so a
# connection lost during it is retried like one lost before it, and a 504 is an ordinary failure.


class SpeechUpstream(ExchangeUpstream):
    """Makes the attempts of synchronous speech."""

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> SubmitResult | UpstreamRefusal:
        """Try one channel. Raises UpstreamError, and TimeoutError after its time."""
        try:
            return await super().attempt(call, candidate, channel, attempts)
        except UpstreamCut as error:
            raise UpstreamLost(error.detail) from error
        except UpstreamTimedOut as error:  # stated by the upstream; our own is a TimeoutError
            raise UpstreamFailed(504, ErrorMembers()) from error
