"""A stream that has begun, and its relay.

No task runs between the first event and the last: the upstream's connection calls `Relay.take`
with each read, which writes to the client at once. Only a client that reads slowly is waited for;
meanwhile the upstream is not read.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct

from channels.deadlines import TimeLimit
from channels.dialects.meter import Meter
from channels.errors import UpstreamError
from channels.exact_redaction import ExactRedaction, LinesRedaction
from channels.http.interfaces import UpstreamResponse
from gw.calls.call import ClientGone, ResponseWriter
from gw.calls.stream import StreamPipeline
from gw.calls.stream_events import Framing


class StreamedResponse(Struct, frozen=True):
    """A stream that has begun: the chunk of its first events, and the rest of the response."""

    first_chunk: bytes
    response: UpstreamResponse
    pipeline: StreamPipeline
    meter: Meter
    headers: Mapping[str, str]
    framing: Framing
    has_terminator: bool
    errors: ExactRedaction  # of all channels, for error events and what follows the terminator


# How long a stream without a terminator may stay open after its last event. More events may follow,
# but an upstream that does not close must not withhold the last events from the client.
ENDING_SECONDS = 5.0
# How long an upstream may take to end its stream after the terminator. Bytes received until then
# are sent to the client, who has the terminator already and is not charged for them.
REST_SECONDS = 0.5


class Relay:
    """Sends one stream to its client, from the first event on. A `Sink`.

    `last` are the blocks from the end of the response on, kept until the call is settled. `is_cut`:
    the response is incomplete and says so nowhere; an error event of the upstream does.
    """

    __slots__ = (
        "_ending",
        "_has_terminator",
        "_keeps_up",
        "_limit",
        "_meter",
        "_note_delivery",
        "_pipeline",
        "_sign",
        "_stream",
        "_writer",
        "is_cut",
        "is_over",
        "last",
        "quiet_ticks",
    )

    def __init__(
        self,
        stream: StreamedResponse,
        writer: ResponseWriter,
        *,
        note_delivery: Callable[[], None],
        limit: TimeLimit,
        sign: bytes = b"",
    ) -> None:
        """`limit` is the call's. `note_delivery` is called before each block that is sent.

        `sign` is sent while the upstream is silent (`keep_alive.py`).
        """
        self.last: list[bytes] = []
        self.quiet_ticks = 0
        self._sign = sign
        self.is_cut = False
        self._stream = stream
        self._pipeline = stream.pipeline
        self._meter = stream.meter
        self._has_terminator = stream.has_terminator
        self._note_delivery = note_delivery if writer.sends_at_once else _nothing_is_out
        self._writer = writer
        self._limit = limit
        self._ending: asyncio.TimerHandle | None = None  # of a stream that may have ended
        self._keeps_up: Future[None] | None = None
        self.is_over = stream.pipeline.is_over  # see Sink

    @property
    def waits_for_client(self) -> bool:
        """Whether the relay waits for the client, or did at the timeout."""
        keeps_up = self._keeps_up
        return keeps_up is not None and (keeps_up.cancelled() or not keeps_up.done())

    async def run_relay(self) -> None:
        """Send the stream. Raises UpstreamError, TimeoutError and ClientGone."""
        stream = self._stream
        if self.is_over:  # the first read was the whole stream
            self._pass_on(stream.first_chunk)
            return
        try:
            with self._limit:
                keeps_up = self._pass_on(stream.first_chunk)
                if keeps_up is not None:
                    await keeps_up
                await stream.response.pour(self)
                if not self.is_over:
                    await self._pass_last_on(stream.response.has_proven_end)
        finally:
            self._goes_on()

    async def _pass_last_on(self, has_proven_end: bool) -> None:
        """Send what the end of the response completes."""
        block = self._pipeline.last(has_proven_end=has_proven_end)
        if block:
            keeps_up = self._pass_on(block)
            if keeps_up is not None:
                await keeps_up

    def broken_off(self, message: str) -> None:
        """End a response that is incomplete because of `message`."""
        closing = self._stream.errors.redacted(self._stream.framing.broken(message))
        self.is_cut = not closing and self._meter.error_seen is None
        self.last.append(closing)

    async def finish_response(self) -> None:
        """Send the blocks kept, and end the response.

        A passthrough also sends the bytes after the terminator. The call is settled. Raises
        ClientGone.
        """
        if self.is_cut:
            self._writer.break_off(b"".join(self.last))
            return
        if self._pipeline.is_over and self._pipeline.passes_rest_on:
            await self._take_rest()
        self._writer.finish(b"".join(self.last))

    async def _take_rest(self) -> None:
        """Add the bytes after the terminator to the last blocks; usually there are none."""
        response, received, errors = self._stream.response, self._pipeline.rest, self._stream.errors
        if response.has_ended:
            with suppress(UpstreamError):
                received += b"".join([piece async for piece in response.chunks()])
            if received:
                self.last.append(errors.redacted(received))
            return
        rest = LinesRedaction(errors)
        self.last.append(rest.take(received))
        try:
            await self._pass_rest_on(rest)
        except (TimeoutError, UpstreamError):
            response.close()
        self.last.append(rest.end())

    async def _pass_rest_on(self, rest: LinesRedaction) -> None:
        """Send the terminator and the bytes after it. Raises TimeoutError."""
        async with asyncio.timeout(min(self._limit.seconds_left(), REST_SECONDS)):
            terminator, self.last = b"".join(self.last), []
            keeps_up = self._writer.write(terminator)
            if keeps_up is not None:
                await keeps_up
            async for piece in self._stream.response.chunks():
                if shown := rest.take(piece):
                    keeps_up = self._writer.write(shown)
                    if keeps_up is not None:
                        await keeps_up

    def take(self, piece: bytes) -> Future[None] | None:
        """See Sink."""
        block = self._pipeline.take_piece(piece)
        if block:
            return self._pass_on(block)
        self.is_over = self._pipeline.is_over
        return None

    def _pass_on(self, block: bytes) -> Future[None] | None:
        last = self.last
        if self._meter.error_seen is not None:
            block = self._stream.errors.redacted(block)
        if self._meter.finished:
            self.is_over = self._has_terminator
            if not (last or self._has_terminator):
                loop = asyncio.get_running_loop()
                self._ending = loop.call_later(ENDING_SECONDS, self._limit.expire)
            last.append(block)
            return None
        if last:  # another candidate of the response begins after the others ended
            self._goes_on()
            block = b"".join((*last, block))
            last.clear()
        self._note_delivery()
        self.quiet_ticks = 0
        self._keeps_up = keeps_up = self._writer.write(block)
        return keeps_up

    def _goes_on(self) -> None:
        """The stream has not ended as it seemed, or its relay has."""
        ending, self._ending = self._ending, None
        if ending is not None:
            ending.cancel()

    def speak(self) -> None:
        """Send a sign of life between two events; none to a client that does not read."""
        if self._sign and not (self.last or self._meter.finished or self.waits_for_client):
            with suppress(ClientGone):  # the call is being cancelled
                self._writer.write(self._sign)


def _nothing_is_out() -> None:
    """Blocks are collected, and sent as a whole or not at all."""
