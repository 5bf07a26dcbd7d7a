"""One attempt of a chat call: the request is sent, and its response read as far as an attempt may
fail: the whole of it, or the first events of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from actors.clock import Clock
from actors.routing import Candidate
from channels import errors
from channels.dialects.error_body import error_reported, try_error_reported
from channels.dialects.hosting import Hosting
from channels.dialects.meter import Meter
from channels.http.event_stream import EventStreamResponse
from channels.http.interfaces import Sink, UpstreamClient, UpstreamResponse
from channels.json.lenient import BYTE_ORDER_MARK
from channels.json.weight import READ_VALUES_MAX, TRANSLATED_VALUES_MAX, weight_of
from channels.offload.jobs import Metered, metered
from channels.offload.pool import OffloadFailed, OffloadFull, OffloadPool
from channels.offload.process import JobTooLong
from channels.redaction import redaction_of
from channels.registry import ChannelSpec
from gw.calls.attempts import Attempts
from gw.calls.base_upstream import BaseUpstream, confirm_key, is_success, of_request
from gw.calls.chain import Chain, lost_of
from gw.calls.chat_request import ChatCall, UpstreamPlan
from gw.calls.relay import StreamedResponse
from gw.calls.retry import Retry, retry_of_chat
from gw.calls.stream import StreamPipeline, unreadable
from gw.calls.stream_events import TranslatedEvents
from gw.config.live import LiveConfig
from gw.errors import INVALID_REQUEST, GatewayError

# Only the message of an error body is used.
ERROR_BYTES_MAX = 256 * 1024


class CompleteResponse(Struct, frozen=True):
    """A complete response, not streamed."""

    body: bytes
    meter: Meter
    headers: Mapping[str, str]


ChatResult = errors.UpstreamRefusal | CompleteResponse | StreamedResponse


class ChatUpstream(BaseUpstream):
    """Makes the attempts of chat calls. One per process, stateless."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        current: LiveConfig,
        clock: Clock,
        response_bytes_max: int,
        offload: OffloadPool,
    ) -> None:
        super().__init__(
            http=http, current=current, clock=clock, response_bytes_max=response_bytes_max
        )
        self._offload = offload

    def retry(self, error: errors.UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_chat(error)

    async def attempt(
        self, call: ChatCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> ChatResult:
        """Try one channel. Raises UpstreamError."""
        if call.chain is None:
            plan = await call.request.plan_for(candidate, channel, call.pin)
        else:
            plan = await self._plan_in_chain(call, call.chain, candidate, channel, attempts)
        is_stream = call.request.parsed.stream
        headers = attempts.headers = plan.headers
        response = await self._http.open(attempts.watch(plan.request))
        attempts.took_response(response, is_stream=is_stream)
        if not is_success(response.status):
            refusal = await self._refusal(
                plan.request,
                response,
                bytes_max=ERROR_BYTES_MAX,
                headers=headers,
                is_translated=plan.translated is not None,
            )
            return of_request(refusal)
        if plan.translated is not None:
            attempts.observer.translated(plan.translated)
        result: ChatResult
        try:
            if is_stream:
                result = await self._begin_stream(call, plan, headers, response, channel, attempts)
            else:
                result = await self._read_whole(call, plan, headers, response, attempts)
            confirm_key(plan.request)
            return result
        except errors.ErrorReported as error:
            if error.status >= 500:
                raise
            attempts.took_whole()
            plan.request.took_status(error.status)
            is_of_key = plan.request.took_refusal(error.status, error.members)
            return of_request(
                errors.UpstreamRefusal(
                    error.status, error.members, None, headers=headers, is_of_key=is_of_key
                )
            )

    async def _plan_in_chain(
        self,
        call: ChatCall,
        chain: Chain,
        candidate: Candidate,
        channel: ChannelSpec,
        attempts: Attempts,
    ) -> UpstreamPlan:
        """Return the plan for a channel of a chain's model.

        Raises StepUnfit where something of the request would be lost, unless every model would lose
        something; then GatewayError like `plan_for`.
        """
        bill = chain.steps[candidate.step].bill
        attempts.bounds = None if bill is None else bill.bounds
        lost: Sequence[str] = ()
        try:
            plan = await call.request.plan_for(candidate, channel, call.pin, chain)
        except GatewayError as error:
            if attempts.takes_losses or error.http_status != INVALID_REQUEST.http_status:
                raise
            lost = lost_of(error)
        else:
            if plan.translated is not None and not attempts.takes_losses:
                lost = plan.translated.report.shortened().lost
        if lost:
            chain.skipped[candidate.step] = lost
            raise errors.StepUnfit(lost)
        chain.skipped.pop(candidate.step, None)
        return plan

    async def _begin_stream(
        self,
        call: ChatCall,
        plan: UpstreamPlan,
        headers: Mapping[str, str],
        response: UpstreamResponse,
        channel: ChannelSpec,
        attempts: Attempts,
    ) -> StreamedResponse:
        """Read a stream up to its first events. Raises UpstreamError."""
        if plan.hosting is not None and plan.hosting.new_render is not None:
            render = plan.hosting.new_render(
                call.facts.call_id.hex, plan.served or call.model.id, plan.served_tier(response)
            )
            response = EventStreamResponse(response, render)
        dialect, framing = plan.dialect, call.framing
        meter = attempts.meter = dialect.new_meter()
        if plan.translated is not None:
            stream = plan.translated.stream(
                meter,
                **self._names(call, plan),
                include_usage=call.forwards_usage,
                redact=call.request.redact,
            )
            framing = TranslatedEvents(
                stream,
                framing,
                meter,
                has_terminator=dialect.has_terminator,
            )
        pipeline = attempts.stream = StreamPipeline(
            meter,
            dialect,
            framing,
            forwards_usage=call.forwards_usage,
            has_next=attempts.has_next,
            redaction=redaction_of(channel),
        )
        try:
            first = await _first_chunk(response, pipeline, plan)
        finally:
            attempts.stream = None  # it has the attempts: a cycle would wait for the collector
        attempts.observer.first_chunk()
        return StreamedResponse(
            first,
            response,
            pipeline,
            meter,
            headers,
            framing,
            dialect.has_terminator,
            self._current.redactor.errors,
        )

    async def _read_whole(
        self,
        call: ChatCall,
        plan: UpstreamPlan,
        headers: Mapping[str, str],
        response: UpstreamResponse,
        attempts: Attempts,
    ) -> CompleteResponse:
        """Read a whole response: redact, meter and perhaps translate it. Raises UpstreamError."""
        body = (await response.read(self._response_bytes_max)).removeprefix(BYTE_ORDER_MARK)
        attempts.took_whole()
        if plan.hosting is not None:
            body = _of_host(
                plan.hosting, body, plan.served or call.model.id, plan.served_tier(response)
            )
        redaction = self._current.redactor.responses
        if not redaction.is_clear(body):  # rare, so the coroutine is made only then
            body = await redaction.redact_whole(body)
        fault, written = None, None
        try:
            if plan.translated is None and weight_of(body) <= READ_VALUES_MAX:
                meter = plan.dialect.new_meter()
                meter.take_body(body)
            else:
                read, written = await self._metered(call, plan, body)
                meter, fault = read.meter, read.fault
            attempts.meter = meter
            if not meter.characters:
                _refuse_unusable(body, meter, plan)
        except errors.UpstreamError:
            raise
        except Exception as error:  # an upstream's bytes must not fail the call with a 500
            raise unreadable(error) from error
        if fault is not None:
            raise fault
        return CompleteResponse(body if written is None else written, meter, headers)

    async def _metered(
        self, call: ChatCall, plan: UpstreamPlan, body: bytes
    ) -> tuple[Metered, bytes | None]:
        """Meter a response that is translated, or read in a helper process because it is heavy."""
        protocol, translated = plan.dialect.protocol, plan.translated
        arguments: tuple[Any, ...] = (protocol, None, {}, {})
        if translated is not None:
            names = self._names(call, plan)
            client = translated.translation.client
            arguments = (protocol, client, translated.names, names, translated.called)
            if weight_of(body) <= TRANSLATED_VALUES_MAX:
                return metered(body, *arguments)
        try:
            read: tuple[Metered, bytes | None]
            read = await self._offload.of(call.facts.account_id).run(metered, body, *arguments)
            return read
        except JobTooLong as error:
            raise errors.UpstreamMalformed("an answer that takes too long to be read") from error
        except (OffloadFull, OffloadFailed) as error:
            raise errors.UpstreamMalformed(
                f"an answer that is too large to be read now: {error}"
            ) from error

    def _names(self, call: ChatCall, plan: UpstreamPlan) -> Any:
        """Return id, time and model of a translated response, where the upstream states none."""
        return {
            "id": call.facts.call_id.hex,
            "created": int(self._clock.now()),
            "model": plan.served or call.model.id,
        }


def _for_client(found: errors.ErrorReported, plan: UpstreamPlan) -> errors.ErrorReported:
    """Return the error that a body consists of, for the client."""
    if plan.translated is not None:  # its other members belong to the upstream's protocol
        return errors.ErrorReported(errors.ErrorMembers(found.members.message), status=found.status)
    return found


def _of_host(hosting: Hosting, body: bytes, model_id: str, served_tier: str) -> bytes:
    """Return a host's response as the dialect has it. Raises UpstreamMalformed."""
    if hosting.whole is not None:
        if weight_of(body) > READ_VALUES_MAX:
            raise errors.UpstreamMalformed("an answer of too many values")
        body = hosting.whole(body, model_id)
    return body if hosting.tier is None else hosting.tier.stated(body, served_tier)


def _refuse_unusable(body: bytes, meter: Meter, plan: UpstreamPlan) -> None:
    """Raise UpstreamError, with the upstream's message, for a body without characters that is not
    a response.

    A response has a choice, a candidate or content, which may be empty, or says why it stopped;
    anything else is an error in the dialect's form or in another.
    """
    if meter.error_seen is not None:
        raise _for_client(error_reported(body), plan)
    if not meter.has_answer:
        raise _unusable(body, plan)


def _unusable(body: bytes, plan: UpstreamPlan) -> errors.UpstreamError:
    """Return the error for a body that is not a response."""
    found = try_error_reported(body) if len(body) <= ERROR_BYTES_MAX else None
    return errors.UpstreamMalformed("no answer") if found is None else _for_client(found, plan)


class _FirstEvents(Sink):
    """Reads until there are bytes for the client: `block`.

    `head` are the first bytes of the stream, as many as an error body may have.
    """

    __slots__ = ("_pipeline", "_room", "block", "head")

    def __init__(self, pipeline: StreamPipeline) -> None:
        self._pipeline = pipeline
        self._room = ERROR_BYTES_MAX
        self.block = b""
        self.head: list[bytes] = []

    @property
    def is_over(self) -> bool:
        """See Sink."""
        return bool(self.block)

    def take(self, piece: bytes) -> None:
        """See Sink. Raises UpstreamError."""
        self.block = self._pipeline.take_piece(piece)
        if not self.block:
            self._room -= len(piece)
            if self._room >= 0:
                self.head.append(piece)


async def _first_chunk(
    response: UpstreamResponse, pipeline: StreamPipeline, plan: UpstreamPlan
) -> bytes:
    """Read until there are bytes for the client. Raises UpstreamError."""
    first = _FirstEvents(pipeline)
    await response.pour(first)
    if first.block:
        return first.block
    last = pipeline.last(has_proven_end=response.has_proven_end)
    if last is None:
        raise _unusable(b"".join(first.head), plan)
    return last
