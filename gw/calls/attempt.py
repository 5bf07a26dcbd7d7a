"""One try on one channel: open the request and read far enough to know whether it is an answer.

What comes back is an answer (whole, or a stream whose first events are here) or a refusal (4xx);
everything that another channel may do better is raised as UpstreamError. Until a stream's first
event nothing has reached the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.clock import Clock
from actors.router import Candidate
from channels.dialects.dialect import Meter
from channels.dialects.error_body import error_members
from channels.errors import (
    ErrorMembers,
    ErrorReported,
    UpstreamError,
    UpstreamFailed,
    UpstreamMalformed,
)
from channels.http.interfaces import UpstreamResponse, Wire
from channels.json.lenient import read_loosely
from channels.masking import StreamMask
from channels.offload.jobs import metered
from channels.offload.pool import OffloadFailed, OffloadFull, OffloadPool
from channels.offload.weight import READ_VALUES_MAX, TRANSLATED_VALUES_MAX, weight_of
from channels.redact import Redactor
from channels.registry import ChannelSpec
from gw.calls.answers import (
    Answer,
    Refusal,
    StreamAnswer,
    WholeAnswer,
    is_success,
)
from gw.calls.attempts import Attempts
from gw.calls.blocks import EventBlocks
from gw.calls.call import ChatCall
from gw.calls.retries import Retry, retry_of_chat
from gw.calls.speech import Speech, TranslatedFraming
from gw.calls.unreadable import unreadable

# Of an error body only the message is used.
ERROR_BYTES_MAX = 256 * 1024


class ChatUpstream:
    """Makes the attempts of chat calls. One per process; holds no state of its own."""

    def __init__(
        self,
        *,
        wire: Wire,
        redactor: Callable[[], Redactor],
        clock: Clock,
        answer_bytes_max: int,
        offload: OffloadPool,
    ) -> None:
        self._offload = offload
        self._wire = wire
        self._redactor = redactor
        self._clock = clock
        self._answer_bytes_max = answer_bytes_max

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_chat(error)

    async def attempt(
        self, call: ChatCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Answer:
        """Try one channel. Raises UpstreamError."""
        spoken = call.speak(candidate, channel)
        speech = spoken if isinstance(spoken, Speech) else await spoken
        response = await self._wire.open(attempts.traced(speech.request))
        attempts.took_response(response)
        if not is_success(response.status):
            return await self._refusal(speech, response)
        meter = speech.dialect.new_meter()
        attempts.receipt.translated(speech)
        if not call.is_stream:
            body = await response.read(self._answer_bytes_max)
            attempts.took_whole()
            body = await self._redactor().answers.masked_whole(body)
            meter, body = await self._read_whole(call, body, meter, speech)
            return WholeAnswer(body, meter, speech.headers)
        framing = call.framing
        if speech.translated is not None:
            stream = speech.translated.stream(
                **self._names(call, meter), include_usage=call.forwards_usage
            )
            framing = TranslatedFraming(
                stream,
                framing,
                meter,
                has_terminator=speech.dialect.has_terminator,
                monotonic=self._clock.monotonic,
            )
        blocks = EventBlocks(meter, speech, framing, forwards_usage=call.forwards_usage)
        first = await _first_block(response, blocks, speech)
        return StreamAnswer(
            first,
            response,
            blocks,
            meter,
            speech.headers,
            framing,
            speech.dialect.has_terminator,
            StreamMask.of(channel, self._redactor().errors),
        )

    async def _read_whole(
        self, call: ChatCall, body: bytes, meter: Meter, speech: Speech
    ) -> tuple[Meter, bytes]:
        """Meter a whole answer; the client's bytes of it. Raises UpstreamError."""
        translated = speech.translated
        lightest = READ_VALUES_MAX if translated is None else TRANSLATED_VALUES_MAX
        try:
            if weight_of(body) > lightest:
                return await self._read_elsewhere(call, body, speech)
            meter.body(body)
            _refuse_unusable(body, meter, speech)
            if translated is not None:
                body = translated.answer(body, **self._names(call, meter))
        except UpstreamError:
            raise
        except Exception as error:  # whatever an upstream sends, it is no fault of the call's
            raise unreadable(error) from error
        return meter, body

    async def _read_elsewhere(
        self, call: ChatCall, body: bytes, speech: Speech
    ) -> tuple[Meter, bytes]:
        """The same for an answer that would hold up the loop."""
        translated, dialect = speech.translated, speech.dialect
        client = None if translated is None else translated.translation.client
        names = {} if translated is None else translated.names
        named = self._names(call, dialect.new_meter())
        try:
            read, written = await self._offload.run(
                metered, body, dialect.protocol, client, names, named
            )
        except (OffloadFull, OffloadFailed) as error:
            raise UpstreamMalformed(
                f"an answer that is too large to be read now: {error}"
            ) from error
        _refuse_unusable(body, read.meter, speech)
        if read.fault is not None:
            raise read.fault
        return read.meter, body if written is None else written

    def _names(self, call: ChatCall, meter: Meter) -> Any:
        """What a translated answer is called, unless its stream still says it."""
        return {
            "id": meter.response_id or call.facts.call_id.hex,
            "created": int(self._clock.now()),
            "model": meter.response_model or call.model.id,
        }

    async def _refusal(self, speech: Speech, response: UpstreamResponse) -> Refusal:
        try:
            told = _told(await response.read(ERROR_BYTES_MAX), speech)
        except UpstreamError:
            told = ErrorMembers()  # the status alone has to do
        retry_after = response.header("retry-after")
        if response.status >= 500:
            raise UpstreamFailed(response.status, told, retry_after=retry_after)
        return Refusal(response.status, told, retry_after, headers=speech.headers)


def _told(body: bytes, speech: Speech) -> ErrorMembers:
    """What the client is told of an error body."""
    told = error_members(body)
    if speech.translated is not None:
        return ErrorMembers(told.message)  # the rest is said in another protocol's words
    return told


def _refuse_unusable(body: bytes, meter: Meter, speech: Speech) -> None:
    """A body that was read and is no answer. Raises UpstreamError, with the upstream's words.

    That is an error where an answer was promised, in the dialect's form or in another: an answer
    says something, or states what it took, or why it says nothing, or at least what it is called.
    """
    if meter.characters:
        return
    if meter.error_seen is not None:
        raise ErrorReported(_told(body, speech))
    stated = (meter.usage, meter.partial_usage, meter.finish_reason, meter.response_id)
    if all(one is None for one in stated):
        raise _no_answer(body, speech)


def _no_answer(body: bytes, speech: Speech) -> UpstreamError:
    """What a body is that is no answer: an error in whatever form, or anything else."""
    value = read_loosely(body, mends=False) if len(body) <= ERROR_BYTES_MAX else None
    told = _told(body, speech) if isinstance(value, dict | list) else ErrorMembers()
    return UpstreamMalformed("no answer") if told.message is None else ErrorReported(told)


async def _first_block(response: UpstreamResponse, blocks: EventBlocks, speech: Speech) -> bytes:
    """Read until there is something for the client. Raises UpstreamError."""
    head: list[bytes] = []
    room = ERROR_BYTES_MAX
    async for piece in response.chunks():
        if block := blocks.take(piece):
            return block
        room -= len(piece)
        if room >= 0:
            head.append(piece)
    last = blocks.last()
    if last is None:
        raise _no_answer(b"".join(head), speech)
    return last
