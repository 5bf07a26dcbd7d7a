"""One attempt of a chat call: sent, and read far enough to know whether it is a response.

That is a whole response, or a stream whose first events are here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.clock import Clock
from actors.router import Candidate
from channels.dialects.dialect import Meter
from channels.dialects.error_body import error_reported, try_error_reported
from channels.errors import ErrorMembers, ErrorReported, UpstreamError, UpstreamMalformed
from channels.exact_redaction import StreamRedaction
from channels.http.event_stream import EventStreamResponse
from channels.http.interfaces import UpstreamResponse, Wire
from channels.offload.jobs import Metered, metered
from channels.offload.pool import OffloadFailed, OffloadFull, OffloadPool
from channels.offload.weight import READ_VALUES_MAX, TRANSLATED_VALUES_MAX, weight_of
from channels.redact import Redactor
from channels.registry import ChannelSpec
from gw.calls.attempt import BaseUpstream
from gw.calls.attempts import Attempts
from gw.calls.call import ChatCall
from gw.calls.framing import TranslatedFraming
from gw.calls.pipeline import StreamPipeline
from gw.calls.plan import UpstreamPlan
from gw.calls.read_faults import unreadable
from gw.calls.results import (
    ChatResult,
    CompleteResponse,
    StreamedResponse,
    UpstreamRefusal,
    is_success,
)
from gw.calls.retries import Retry, retry_of_chat

# Of an error body only the message is used.
ERROR_BYTES_MAX = 256 * 1024


class ChatUpstream(BaseUpstream):
    """Makes the attempts of chat calls. One per process; holds no state of its own."""

    def __init__(
        self,
        *,
        wire: Wire,
        redactor: Callable[[], Redactor],
        clock: Clock,
        response_bytes_max: int,
        offload: OffloadPool,
    ) -> None:
        super().__init__(
            wire=wire, redactor=redactor, clock=clock, response_bytes_max=response_bytes_max
        )
        self._offload = offload

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_chat(error)

    async def attempt(
        self, call: ChatCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> ChatResult:
        """Try one channel. Raises UpstreamError."""
        plan = await call.request.plan_for(candidate, channel)
        response = await self._open(plan.request, attempts)
        if not is_success(response.status):
            return await self._refusal(
                plan.request,
                response,
                bytes_max=ERROR_BYTES_MAX,
                headers=plan.headers,
                is_translated=plan.translated is not None,
            )
        attempts.receipt.translated(plan)
        try:
            if call.is_stream:
                if plan.hosting is not None and plan.hosting.new_render is not None:
                    render = plan.hosting.new_render(call.facts.call_id.hex, call.model.id)
                    response = EventStreamResponse(response, render)
                stream = await self._begin_stream(call, plan, response, channel, attempts)
                attempts.took_first_chunk()
                return stream
            body = await self._whole(response, attempts)
            if plan.hosting is not None and plan.hosting.whole is not None:
                if weight_of(body) > READ_VALUES_MAX:
                    raise UpstreamMalformed("an answer of too many values")
                body = plan.hosting.whole(body, call.model.id)
            redaction = self._redactor().responses
            if not redaction.is_clear(body):  # hardly ever, so no coroutine else
                body = await redaction.redact_whole(body)
            return await self._read_whole(call, plan, body)
        except ErrorReported as error:
            if error.status >= 500:
                raise
            attempts.took_whole()
            plan.request.took_status(error.status)
            return UpstreamRefusal(error.status, error.members, None, headers=plan.headers)

    async def _begin_stream(
        self,
        call: ChatCall,
        plan: UpstreamPlan,
        response: UpstreamResponse,
        channel: ChannelSpec,
        attempts: Attempts,
    ) -> StreamedResponse:
        """Read a stream as far as its first events. Raises UpstreamError."""
        dialect, framing = plan.dialect, call.framing
        meter = dialect.new_meter()
        if plan.translated is not None:
            stream = plan.translated.stream(
                **self._names(call, meter), include_usage=call.forwards_usage
            )
            framing = TranslatedFraming(
                stream,
                framing,
                meter,
                has_terminator=dialect.has_terminator,
                monotonic=self._clock.monotonic,
            )
        pipeline = StreamPipeline(
            meter,
            dialect,
            framing,
            forwards_usage=call.forwards_usage,
            has_next=attempts.has_next,
        )
        first = await _first_chunk(response, pipeline, plan)
        return StreamedResponse(
            first,
            response,
            pipeline,
            meter,
            plan.headers,
            framing,
            dialect.has_terminator,
            StreamRedaction.of(channel, self._redactor().errors),
        )

    async def _read_whole(
        self, call: ChatCall, plan: UpstreamPlan, body: bytes
    ) -> CompleteResponse:
        """Meter a whole response, and translate it where that is due. Raises UpstreamError."""
        try:
            read, written = await self._metered(call, plan, body)
            _refuse_unusable(body, read.meter, plan)
        except UpstreamError:
            raise
        except Exception as error:  # whatever an upstream sends, it is no fault of the call's
            raise unreadable(error) from error
        if read.fault is not None:
            raise read.fault
        return CompleteResponse(body if written is None else written, read.meter, plan.headers)

    async def _metered(
        self, call: ChatCall, plan: UpstreamPlan, body: bytes
    ) -> tuple[Metered, bytes | None]:
        """A response as it was read, here or, where that would hold up the loop, elsewhere."""
        protocol, translated = plan.dialect.protocol, plan.translated
        arguments: tuple[Any, ...] = (protocol, None, {}, {})
        if translated is None:
            values_max = READ_VALUES_MAX
        else:
            names = self._names(call, plan.dialect.new_meter())
            client = translated.translation.client
            values_max = TRANSLATED_VALUES_MAX
            arguments = (protocol, client, translated.names, names)
        if weight_of(body) <= values_max:
            return metered(body, *arguments)
        try:
            return await self._offload.run(metered, body, *arguments)
        except (OffloadFull, OffloadFailed) as error:
            raise UpstreamMalformed(
                f"an answer that is too large to be read now: {error}"
            ) from error

    def _names(self, call: ChatCall, meter: Meter) -> Any:
        """What a translated response is called, unless its stream still says it."""
        return {
            "id": meter.response_id or call.facts.call_id.hex,
            "created": int(self._clock.now()),
            "model": meter.response_model or call.model.id,
        }


def _for_client(found: ErrorReported, plan: UpstreamPlan) -> ErrorReported:
    """The error that a body consists of, as the client is told of it."""
    if plan.translated is not None:  # the rest is said in another protocol's words
        return ErrorReported(ErrorMembers(found.members.message), status=found.status)
    return found


def _refuse_unusable(body: bytes, meter: Meter, plan: UpstreamPlan) -> None:
    """A body that was read and is no response. Raises UpstreamError, with the upstream's words.

    That is an error where a response was promised, in the dialect's form or in another: a response
    says something, or states what it took, or why it says nothing, or at least what it is called.
    """
    if meter.characters:
        return
    if meter.error_seen is not None:
        raise _for_client(error_reported(body), plan)
    stated = (meter.usage, meter.partial_usage, meter.finish_reason, meter.response_id)
    if all(one is None for one in stated):
        raise _unusable(body, plan)


def _unusable(body: bytes, plan: UpstreamPlan) -> UpstreamError:
    """What a body is that is no response: an error in whatever form, or anything else."""
    found = try_error_reported(body) if len(body) <= ERROR_BYTES_MAX else None
    return UpstreamMalformed("no answer") if found is None else _for_client(found, plan)


async def _first_chunk(
    response: UpstreamResponse, pipeline: StreamPipeline, plan: UpstreamPlan
) -> bytes:
    """Read until there is something for the client. Raises UpstreamError."""
    head: list[bytes] = []
    room = ERROR_BYTES_MAX
    async for piece in response.chunks():
        if block := pipeline.take(piece):
            return block
        room -= len(piece)
        if room >= 0:
            head.append(piece)
    last = pipeline.last()
    if last is None:
        raise _unusable(b"".join(head), plan)
    return last
